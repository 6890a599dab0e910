//! Advisory locks, over the admin door.

use std::sync::Arc;

use weir_engine::LockView;
use weir_types::{ErrorKind, FsError, Result};

use super::routes::Routes;
use crate::api::{ALONE, GetLocks};
use crate::daemon::shared::DaemonState;

pub(super) fn add(routes: Routes) -> Routes {
    routes.on(locks)
}

async fn locks(shared: Arc<DaemonState>, GetLocks {}: GetLocks) -> Result<Vec<LockView>> {
    if !shared.engine.is_shared() {
        // It would seem that nothing is locked.
        return Err(FsError::new(ErrorKind::Invalid, ALONE));
    }
    shared.engine.all_locks().await
}
