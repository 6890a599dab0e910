//! A node that the others shut out of the volume they share comes back by itself, where no program was
//! told anything that does not hold any more: the same binary in the place of this one, with a session of
//! its own. Programs keep what they have open.

use std::path::PathBuf;
use std::sync::Weak;
use std::time::Duration;

use super::shared::DaemonState;
use super::upgrade::upgrade;
use crate::api::Upgrade;

/// How often it is looked.
const LOOK: Duration = Duration::from_secs(2);

/// Looks until the daemon ends.
pub(crate) async fn rejoin_loop(daemon: Weak<DaemonState>) {
    let mut told = false;
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(shared) = daemon.upgrade() else { return };
        if !shared.engine.is_shut_out() {
            continue;
        }
        if !shared.engine.may_come_back() {
            if !std::mem::replace(&mut told, true) {
                tracing::error!(
                    "this node does not come back by itself, because programs hold locks, or wrote what \
                     is not in the bucket: unmount, and mount again with the same tier"
                );
            }
            continue;
        }
        tracing::warn!("this node was shut out, and comes back with a new session");
        let call = Upgrade { binary: PathBuf::from("/proc/self/exe"), id: "rejoin".to_owned() };
        if let Err(error) = upgrade(shared, call).await {
            tracing::warn!(%error, "coming back failed: tried again");
        }
    }
}
