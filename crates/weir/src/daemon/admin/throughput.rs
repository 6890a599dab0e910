//! Throughput and use over the admin door.

use std::sync::Arc;

use weir_engine::{Period, ThroughputReport, Totals};
use weir_types::Result;

use super::routes::Routes;
use crate::api::{GetHistory, GetThroughput, GetUsed, SetThroughput};
use crate::daemon::shared::DaemonState;

pub(super) fn add(routes: Routes) -> Routes {
    add_watching(routes).on(change)
}

/// What users may ask, too.
pub(super) fn add_watching(routes: Routes) -> Routes {
    routes.on(report).on(used).on(history)
}

async fn report(
    shared: Arc<DaemonState>,
    GetThroughput {}: GetThroughput,
) -> Result<ThroughputReport> {
    shared.engine.throughput().await
}

async fn change(
    shared: Arc<DaemonState>,
    SetThroughput { subject, name, change }: SetThroughput,
) -> Result<ThroughputReport> {
    shared.engine.set_throughput(subject, &name, change).await
}

pub(super) async fn used(
    shared: Arc<DaemonState>,
    GetUsed { since_unix_ms, node }: GetUsed,
) -> Result<Period> {
    Ok(match node {
        true => shared.engine.used_here_since(since_unix_ms).await,
        false => shared.engine.used_since(since_unix_ms).await,
    })
}

async fn history(
    shared: Arc<DaemonState>,
    GetHistory { since_unix_ms }: GetHistory,
) -> Result<Vec<Totals>> {
    Ok(shared.engine.history(since_unix_ms).await)
}
