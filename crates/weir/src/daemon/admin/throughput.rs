//! Throughput and use over the admin door.

use std::sync::Arc;

use weir_engine::{Spell, ThroughputReport};
use weir_types::Result;

use super::routes::Routes;
use crate::api::{GetThroughput, GetUsed, SetThroughput};
use crate::daemon::shared::Shared;

pub(super) fn add(routes: Routes) -> Routes {
    routes.on(report).on(change).on(used)
}

async fn report(shared: Arc<Shared>, GetThroughput {}: GetThroughput) -> Result<ThroughputReport> {
    shared.engine.throughput().await
}

async fn change(
    shared: Arc<Shared>,
    SetThroughput { whose, name, change }: SetThroughput,
) -> Result<ThroughputReport> {
    shared.engine.set_throughput(whose, &name, change).await
}

async fn used(shared: Arc<Shared>, GetUsed { since_unix_ms }: GetUsed) -> Result<Spell> {
    Ok(shared.engine.used_since(since_unix_ms).await)
}
