//! What users of root's mounts may ask of the daemon, on a socket that is open to all: how it is,
//! and what concerns files of their own.

use std::sync::Arc;

use weir_engine::ActionView;
use weir_types::{ErrorCode, ErrorKind, FsError, Result};

use super::peer::{Peer, may};
use super::routes::{Failed, Routes};
use super::{actions, links, mount, snapshots, throughput};
use crate::api::{GetAction, ListActions, StartAction};
use crate::daemon::shared::DaemonState;

/// The calls that users may make.
pub(super) fn calls() -> Routes {
    let routes =
        links::add_watching(throughput::add_watching(mount::add_watching(Routes::default())));
    snapshots::add_watching(routes)
        .by_owner(actions::start)
        .by_owner(actions::pin)
        .by_owner(actions::states)
        .by_owner(mount::residency)
        .by_peer(list)
        .by_peer(show)
}

async fn list(
    shared: Arc<DaemonState>,
    peer: Peer,
    ListActions {}: ListActions,
) -> Result<Vec<ActionView>> {
    let mut own = Vec::new();
    for action in shared.engine.actions().await? {
        let asked = StartAction(action.request.clone());
        if may(&shared, peer, &asked).await.is_ok() {
            own.push(action);
        }
    }
    Ok(own)
}

async fn show(shared: Arc<DaemonState>, peer: Peer, call: GetAction) -> Result<ActionView> {
    let action = shared.engine.action(call.id).await?;
    may(&shared, peer, &StartAction(action.request.clone())).await?;
    actions::show(shared, call).await
}

/// The answer to all others.
pub(super) async fn denied() -> Failed {
    let text = "only root, who mounted the volume, may ask that of its daemon";
    FsError::new(ErrorKind::Permission, text).coded(ErrorCode::OnlyRoot).into()
}
