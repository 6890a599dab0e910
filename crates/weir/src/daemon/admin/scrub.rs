//! Scrubs over the admin door.

use std::sync::Arc;

use weir_engine::ScrubView;
use weir_types::Result;

use super::routes::Routes;
use crate::api::{BeginScrub, EndScrub, GetScrub};
use crate::daemon::shared::DaemonState;

pub(super) fn add(routes: Routes) -> Routes {
    routes.on(get).wholly(begin).wholly(end)
}

async fn get(shared: Arc<DaemonState>, GetScrub {}: GetScrub) -> Result<ScrubView> {
    shared.engine.scrub().await
}

async fn begin(
    shared: Arc<DaemonState>,
    BeginScrub { max_bytes_per_s }: BeginScrub,
) -> Result<ScrubView> {
    shared.engine.begin_scrub(max_bytes_per_s).await
}

async fn end(shared: Arc<DaemonState>, EndScrub {}: EndScrub) -> Result<ScrubView> {
    shared.engine.end_scrub().await
}
