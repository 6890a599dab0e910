//! Upgrades over the admin door.

use std::sync::Arc;

use weir_types::Result;

use super::routes::Routes;
use crate::api::{GetUpgrade, LastUpgrade};
use crate::daemon::shared::DaemonState;
use crate::daemon::upgrade;

pub(super) fn add(routes: Routes) -> Routes {
    routes.wholly(upgrade::upgrade).on(last)
}

async fn last(shared: Arc<DaemonState>, GetUpgrade {}: GetUpgrade) -> Result<LastUpgrade> {
    Ok(LastUpgrade { last: shared.upgraded.clone() })
}
