//! The admin door of a daemon: HTTP on a Unix socket that only its owner may open, and if asked, a
//! part of it on a loopback port.
//!
//! `GET /status`, `GET /metrics`, `GET /residency?ino=N`, `POST /flush`, `POST /unmount?lazy=BOOL`;
//! those of [`links`], [`actions`], [`disks`], [`recover`] and [`throughput`]. Errors answer with a status of 4xx or 5xx and
//! `{"error": "…"}`.

mod actions;
mod disks;
mod links;
mod recover;
mod throughput;

use std::collections::BTreeMap;
use std::fs::Permissions;
use std::net::SocketAddr;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use axum::extract::{DefaultBodyLimit, Query, State};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use serde_json::json;
use tokio::net::{TcpListener, UnixListener};
use weir_door_fuse::PassthroughState;
use weir_engine::{HeldDeletions, Status};
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::client::Client;
use crate::daemon::block::BlockStatus;
use crate::daemon::{Shared, metrics};
use crate::paths;

/// How long a daemon that was told to end may take to flush before the next one gives up.
const LAST_DAEMON: Duration = Duration::from_secs(60);
const LOOK_EVERY: Duration = Duration::from_millis(100);
/// Longest body of a request: an action may name 100,000 paths.
const BODY_LONGEST: usize = 64 << 20;

/// The sockets, bound but not yet answered.
pub(crate) struct Bound {
    socket: Unlink,
    unix: UnixListener,
    tcp: Option<TcpListener>,
}

/// Binds the socket of a place; one that a dead daemon left is replaced. A daemon that was told to
/// end and still flushes is waited for.
pub(crate) async fn bind(place: &Path, listen: Option<SocketAddr>) -> Result<Bound> {
    let directory = paths::own_run_directory()?;
    let socket = paths::socket(&directory, place);
    let shown = place.display();
    let mut waited = Duration::ZERO;
    while UnixStream::connect(&socket).is_ok() {
        if waited == Duration::ZERO {
            if let Some(pid) = serving(place).await {
                let text =
                    format!("{shown} is served by process {pid}: `weir stop {shown}` ends it");
                return Err(FsError::new(ErrorKind::Exists, text));
            }
            tracing::info!("the last daemon for {shown} still flushes: waiting for it");
        }
        if waited > LAST_DAEMON {
            let text = format!(
                "the last daemon for {shown} still flushes what it has: see `weir status`, and try \
                 again when it has ended"
            );
            return Err(FsError::new(ErrorKind::Exists, text));
        }
        // Also once more after its socket is gone, until its tier is.
        tokio::time::sleep(LOOK_EVERY).await;
        waited += LOOK_EVERY;
    }
    let at = |error| FsError::local_io(format!("admin socket {}", socket.display()), error);
    match std::fs::remove_file(&socket) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(at(error)),
        _ => {}
    }
    let unix = UnixListener::bind(&socket).map_err(at)?;
    std::fs::set_permissions(&socket, Permissions::from_mode(0o600)).map_err(at)?;
    let tcp = listen.map(bind_tcp).transpose()?;
    Ok(Bound { socket: Unlink(socket), unix, tcp })
}

/// The process that serves a volume by its URL and is not about to end.
async fn serving(place: &Path) -> Option<u32> {
    let status = Client::of(place)?.status().await.ok()?;
    (status.mountpoint.is_none() && !status.ending).then_some(status.pid)
}

fn bind_tcp(address: SocketAddr) -> Result<TcpListener> {
    let at = |error| FsError::local_io(format!("--admin-listen {address}"), error);
    let listener = std::net::TcpListener::bind(address).map_err(at)?;
    listener.set_nonblocking(true).map_err(at)?;
    TcpListener::from_std(listener).map_err(at)
}

impl Bound {
    /// Answers until the process ends. Must be called within the runtime.
    pub(crate) fn serve(self, shared: &Arc<Shared>) {
        let watching = Router::new().route("/status", get(status)).route("/metrics", get(scrape));
        let all = watching
            .clone()
            .route("/residency", get(residency))
            .route("/flush", post(flush))
            .route("/unmount", post(unmount))
            .merge(links::routes())
            .merge(actions::routes())
            .merge(disks::routes())
            .merge(recover::routes())
            .merge(throughput::routes())
            .layer(DefaultBodyLimit::max(BODY_LONGEST));
        if let Some(tcp) = self.tcp {
            let router = watching.with_state(shared.clone());
            tokio::spawn(async move { axum::serve(tcp, router).await });
        }
        let router = all.with_state(shared.clone());
        tokio::spawn(async move {
            let _socket = self.socket;
            axum::serve(self.unix, router).await
        });
    }
}

/// Removes the socket when the start fails or the runtime ends.
struct Unlink(PathBuf);

impl Drop for Unlink {
    fn drop(&mut self) {
        // A socket that stays is replaced by the next daemon and passed over by clients.
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An error as an answer.
struct Failed(FsError);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let status = match self.0.kind() {
            ErrorKind::Retry | ErrorKind::Conflict | ErrorKind::Exists | ErrorKind::WouldBlock => {
                StatusCode::CONFLICT
            }
            ErrorKind::NotFound => StatusCode::NOT_FOUND,
            ErrorKind::Invalid | ErrorKind::IsDirectory => StatusCode::BAD_REQUEST,
            ErrorKind::Permission | ErrorKind::ReadOnly => StatusCode::FORBIDDEN,
            ErrorKind::Unsupported => StatusCode::NOT_IMPLEMENTED,
            ErrorKind::NoSpace => StatusCode::INSUFFICIENT_STORAGE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        };
        (status, Json(json!({ "error": self.0.to_string() }))).into_response()
    }
}

impl From<FsError> for Failed {
    fn from(error: FsError) -> Self {
        Self(error)
    }
}

/// Whether resident files are read past the daemon, and how many opens were served which way.
#[derive(Serialize)]
struct Passthrough {
    active: bool,
    why: String,
    opens: u64,
    other_opens: u64,
}

impl From<PassthroughState> for Passthrough {
    fn from(state: PassthroughState) -> Self {
        let PassthroughState { off, opens, other_opens } = state;
        Self { active: off.is_none(), why: off.unwrap_or_default(), opens, other_opens }
    }
}

#[derive(Serialize)]
struct StatusAnswer {
    /// `null` where the volume is served without a mount.
    mountpoint: Option<PathBuf>,
    pid: u32,
    version: &'static str,
    uptime_s: u64,
    /// It was told to end.
    ending: bool,
    passthrough: Option<Passthrough>,
    fuse_requests: BTreeMap<&'static str, u64>,
    block: BlockStatus,
    #[serde(flatten)]
    status: Status,
    /// Links of which the bucket's deletions wait for a confirmation.
    held_deletions: Vec<Held>,
}

#[derive(Serialize)]
struct Held {
    path: String,
    #[serde(flatten)]
    deletions: HeldDeletions,
}

async fn status(State(shared): State<Arc<Shared>>) -> Result<Json<StatusAnswer>, Failed> {
    let held = shared.engine.held_deletions().into_iter();
    Ok(Json(StatusAnswer {
        mountpoint: shared.mountpoint(),
        pid: std::process::id(),
        version: env!("CARGO_PKG_VERSION"),
        uptime_s: shared.started.elapsed().as_secs(),
        ending: shared.is_ending(),
        passthrough: shared.fuse.as_ref().map(|fuse| fuse.view.passthrough().into()),
        fuse_requests: shared.fuse_requests().into_iter().collect(),
        block: shared.block.status().await,
        held_deletions: held.map(|(path, deletions)| Held { path, deletions }).collect(),
        status: shared.engine.status().await?,
    }))
}

async fn scrape(State(shared): State<Arc<Shared>>) -> Result<Response, Failed> {
    let minute = shared.engine.used_lately().await;
    let seconds = minute.used.unix_ms.saturating_sub(minute.from_unix_ms).max(1) as f64 / 1e3;
    let io_per_s = (minute.used.reads as f64 / seconds, minute.used.writes as f64 / seconds);
    let told = metrics::Told {
        status: shared.engine.status().await?,
        links: shared.engine.links().await?,
        actions: shared.engine.actions().await?,
        passthrough: shared.fuse.as_ref().map(|fuse| fuse.view.passthrough()),
        block: shared.block.status().await,
        throughput: shared.engine.throughput().await?,
        io_per_s,
        ops: shared.fuse_requests(),
        uptime: shared.started.elapsed(),
    };
    let text = metrics::text(told)?;
    let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
    Ok(([(header::CONTENT_TYPE, kind)], text).into_response())
}

#[derive(Deserialize)]
struct Which {
    ino: u64,
}

async fn residency(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<Which>,
) -> Result<Response, Failed> {
    let [hole, released, resident, dirty] = shared.engine.residency(Ino(which.ino)).await?;
    let answer = json!({
        "hole": hole, "released": released, "resident": resident, "dirty": dirty,
    });
    Ok(Json(answer).into_response())
}

async fn flush(State(shared): State<Arc<Shared>>) -> Result<Response, Failed> {
    shared.engine.flush_all().await?;
    Ok(Json(json!({ "flushed": true })).into_response())
}

#[derive(Deserialize)]
struct How {
    #[serde(default)]
    lazy: bool,
}

/// Answers when all is flushed and the daemon is about to end; a lazy one when the mount is out
/// of the tree.
async fn unmount(
    State(shared): State<Arc<Shared>>,
    Query(how): Query<How>,
) -> Result<Response, Failed> {
    let mut ended = shared.ended.subscribe();
    shared.end(how.lazy).await?;
    if how.lazy {
        return Ok(Json(json!({ "detached": true })).into_response());
    }
    let result = match ended.wait_for(Option::is_some).await {
        Ok(value) => value.clone(),
        Err(_) => None,
    };
    match result {
        Some(Err(text)) => Err(FsError::new(ErrorKind::Bug, text).into()),
        _ => Ok(Json(json!({ "unmounted": true })).into_response()),
    }
}
