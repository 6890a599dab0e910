//! Actions, pins and states over the admin door.

use std::sync::Arc;

use weir_engine::{ActionView, FileState};
use weir_types::{ErrorKind, Result};

use super::routes::Routes;
use crate::api::{
    Cancel, GetAction, GetStates, ListActions, Pin, Pinned, StartAction, StartSpread,
};
use crate::daemon::shared::DaemonState;

/// Longest wait of one answer.
const WAIT_MS_MAX: u64 = 60_000;

pub(super) fn add(routes: Routes) -> Routes {
    add_cancelling(add_watching(routes)).on(start).on(spread).on(show).on(pin).on(states)
}

/// What whoever watches the daemon may ask, on a port of the machine too.
pub(super) fn add_watching(routes: Routes) -> Routes {
    routes.on(list)
}

/// What who has the token may ask on a port of the machine.
pub(super) fn add_cancelling(routes: Routes) -> Routes {
    routes.on(cancel)
}

async fn list(shared: Arc<DaemonState>, ListActions {}: ListActions) -> Result<Vec<ActionView>> {
    shared.engine.actions().await
}

pub(super) async fn start(
    shared: Arc<DaemonState>,
    StartAction(request): StartAction,
) -> Result<ActionView> {
    shared.engine.start_action(request).await
}

pub(super) async fn spread(
    shared: Arc<DaemonState>,
    StartSpread { request, everywhere }: StartSpread,
) -> Result<Vec<ActionView>> {
    shared.engine.start_spread(request, everywhere).await
}

pub(super) async fn show(
    shared: Arc<DaemonState>,
    GetAction { id, wait_ms }: GetAction,
) -> Result<ActionView> {
    match wait_ms {
        0 => shared.engine.action(id).await,
        ms => shared.engine.wait_for_action(id, ms.min(WAIT_MS_MAX)).await,
    }
}

async fn cancel(shared: Arc<DaemonState>, Cancel { id }: Cancel) -> Result<ActionView> {
    shared.engine.cancel_action(id).await
}

pub(super) async fn pin(shared: Arc<DaemonState>, pin: Pin) -> Result<Pinned> {
    let files = shared.engine.pin(&pin.roots, pin.recursive, pin.pinned).await?;
    Ok(Pinned { files })
}

pub(super) async fn states(
    shared: Arc<DaemonState>,
    GetStates { inos }: GetStates,
) -> Result<Vec<Option<FileState>>> {
    let mut answer = Vec::with_capacity(inos.len());
    for ino in inos {
        answer.push(match shared.engine.file_state(ino).await {
            Ok(state) => Some(state),
            // Removed since the caller found it.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        });
    }
    Ok(answer)
}
