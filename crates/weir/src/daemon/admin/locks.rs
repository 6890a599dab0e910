//! Advisory locks, over the admin door.

use std::sync::Arc;

use weir_engine::LockView;
use weir_types::Result;

use super::routes::Routes;
use crate::api::GetLocks;
use crate::daemon::shared::DaemonState;

pub(super) fn add(routes: Routes) -> Routes {
    routes.on(locks)
}

async fn locks(shared: Arc<DaemonState>, GetLocks {}: GetLocks) -> Result<Vec<LockView>> {
    shared.engine.all_locks().await
}
