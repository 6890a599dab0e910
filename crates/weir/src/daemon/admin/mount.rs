//! The mount as a whole over the admin door: how it is, flushing it, ending it.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use weir_door_fuse::{PassthroughState, TransportState};
use weir_engine::{Residency, ThroughputReport};
use weir_types::{ErrorCode, ErrorKind, FsError, Result};

use super::routes::{Failed, Routes};
use crate::api::{
    Flush, Flushed, GetResidency, GetStatus, Held, Passthrough, StatusAnswer, Transport,
    TransportKind, Unmount, Unmounted,
};
use crate::daemon::metrics;
use crate::daemon::shared::DaemonState;
use crate::daemon::{signals, supervisor};

/// How long an unmount waits for those to whom the volume is mounted elsewhere.
const SHUT_MAX: Duration = Duration::from_secs(6);
/// How long a scrape waits for the metadata: Prometheus itself waits 10 s.
const LOOK_MAX: Duration = Duration::from_secs(3);

pub(super) fn add(routes: Routes) -> Routes {
    routes.on(residency).on(flush).on(unmount)
}

/// What whoever watches the daemon may ask, on a port of the machine too.
pub(super) fn add_watching(routes: Routes) -> Routes {
    routes.on(status)
}

async fn status(shared: Arc<DaemonState>, GetStatus {}: GetStatus) -> Result<StatusAnswer> {
    let held = shared.engine.held_deletions().into_iter();
    let requests = shared.fuse_requests().into_iter();
    Ok(StatusAnswer {
        mountpoint: shared.mountpoint(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION").to_owned(),
        uptime_s: shared.started.elapsed().as_secs(),
        ending: shared.is_ending(),
        waits_for: shared.waits_for(),
        port_cancels: shared.token.is_some(),
        passthrough: shared.fuse.as_ref().map(|fuse| fuse.view.passthrough().into()),
        transport: shared.fuse.as_ref().map(|fuse| fuse.view.transport().into()),
        fuse_requests: requests.map(|(op, count)| (op.to_owned(), count)).collect(),
        block: shared.block.status().await,
        nfs: shared.nfs.status(),
        held_deletions: held.map(|(path, deletions)| Held { path, deletions }).collect(),
        engine: shared.engine.status().await?,
    })
}

impl From<PassthroughState> for Passthrough {
    fn from(state: PassthroughState) -> Self {
        let PassthroughState { off, opens, other_opens } = state;
        Self { active: off.is_none(), why: off.unwrap_or_default(), opens, other_opens }
    }
}

impl From<TransportState> for Transport {
    fn from(TransportState { without_rings: why }: TransportState) -> Self {
        let how = if why.is_none() { TransportKind::Uring } else { TransportKind::Dev };
        Self { how, why: why.unwrap_or_default() }
    }
}

/// What Prometheus asks for. Where the metadata does not answer, what must be asked of it is left out:
/// the rest says that.
pub(super) async fn scrape(State(shared): State<Arc<DaemonState>>) -> Result<Response, Failed> {
    let engine = &shared.engine;
    let (status, minute, links, actions, throughput, quotas, schedule, scrub) = tokio::join!(
        engine.status(),
        in_time(async { Ok(engine.used_lately().await) }),
        in_time(engine.links()),
        in_time(engine.actions()),
        in_time(engine.throughput()),
        in_time(engine.quotas()),
        in_time(engine.snapshot_schedule()),
        in_time(engine.scrub()),
    );
    let cold_bytes = minute.as_ref().map(|minute| minute.used.cold.map(|of| of.bucket_bytes));
    let linked_bytes = minute.as_ref().map(|minute| minute.used.linked_bytes);
    let io_per_s = minute.map_or((0.0, 0.0), |minute| {
        let seconds = minute.used.unix_ms.saturating_sub(minute.from_unix_ms).max(1) as f64 / 1e3;
        (minute.used.reads as f64 / seconds, minute.used.writes as f64 / seconds)
    });
    let nothing = ThroughputReport { rules: Vec::new(), tenants: Vec::new(), budget: None };
    let told = metrics::Told {
        status: status?,
        links: links.unwrap_or_default(),
        actions: actions.unwrap_or_default(),
        passthrough: shared.fuse.as_ref().map(|fuse| fuse.view.passthrough()),
        block: shared.block.status().await,
        nfs: shared.nfs.status(),
        nfs_uses: shared.nfs.uses(),
        throughput: throughput.unwrap_or(nothing),
        quotas: quotas.unwrap_or_default(),
        schedule: schedule.unwrap_or_default(),
        scrub,
        lifecycle_stands_still: engine.lifecycle_stands_still(),
        cold_bytes,
        linked_bytes,
        io_per_s,
        ops: shared.fuse_requests(),
        uptime: shared.started.elapsed(),
    };
    let text = metrics::text(told)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

/// What is known in time, if anything is.
async fn in_time<T>(look: impl Future<Output = Result<T>>) -> Option<T> {
    match tokio::time::timeout(LOOK_MAX, look).await {
        Ok(Ok(found)) => Some(found),
        Ok(Err(error)) => {
            tracing::debug!(%error, "a scrape goes without");
            None
        }
        Err(_) => None,
    }
}

pub(super) async fn residency(
    shared: Arc<DaemonState>,
    GetResidency { ino }: GetResidency,
) -> Result<Residency> {
    shared.engine.residency(ino).await
}

async fn flush(shared: Arc<DaemonState>, Flush {}: Flush) -> Result<Flushed> {
    shared.engine.flush_all().await?;
    Ok(Flushed { flushed: true })
}

async fn unmount(shared: Arc<DaemonState>, Unmount { lazy, force }: Unmount) -> Result<Unmounted> {
    let mut ended = shared.ended.subscribe();
    match force {
        true => signals::stop(&shared).await,
        false => shared.end(lazy).await?,
    }
    if lazy {
        return Ok(Unmounted { ended: false });
    }
    if tokio::time::timeout(SHUT_MAX, supervisor::until_shut(&shared)).await.is_err() {
        let why = shared.waits_for().unwrap_or_else(|| "the volume is still used".to_owned());
        let text = format!(
            "unmounted here, but {why}: it is served there until that ends, and the daemon with it; \
             `weir umount --force` ends both now"
        );
        return Err(FsError::new(ErrorKind::Retry, text).coded(ErrorCode::MountBusy));
    }
    let result = match ended.wait_for(Option::is_some).await {
        Ok(value) => value.clone(),
        Err(_) => None,
    };
    match result {
        Some(Err(text)) => Err(FsError::new(ErrorKind::Bug, text)),
        _ => Ok(Unmounted { ended: true }),
    }
}
