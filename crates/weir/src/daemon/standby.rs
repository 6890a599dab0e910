//! One that only serves a volume, among others: it waits for its turn, and where it lost the volume it begins
//! anew. No program has anything open here; NFS clients claim what they hold.

use std::sync::Weak;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use weir_engine::{MountOptions, await_turn};
use weir_types::Result;

use super::ending::Ending;
use super::shared::DaemonState;
use super::{ready, supervisor};

/// How often it is looked whether the volume was lost.
const LOOK: Duration = Duration::from_millis(500);

/// Whether this process waited for its turn.
static WAITED: AtomicBool = AtomicBool::new(false);

/// Whether this process waited for its turn, and whoever asked for it thinks that all is well: it goes on trying.
pub(super) fn has_waited() -> bool {
    WAITED.load(Ordering::Relaxed)
}

/// Waits until the volume is nobody's who is not known to be gone, and has it mounted accordingly. Whoever asked
/// for this daemon is told that it waits.
pub(super) async fn stand_by(options: &mut MountOptions, is_daemon: bool) -> Result<()> {
    let turn = await_turn(options, |holder| {
        tracing::info!("standing by: the volume is served by {holder}");
        supervisor::stands_by(holder);
        WAITED.store(true, Ordering::Relaxed);
        if is_daemon {
            ready::tell();
        }
    });
    let turn = turn.await?;
    if turn.takes_over() {
        tracing::warn!("who served the volume says nothing any more: taking it over");
    }
    options.take_over = turn.takes_over();
    options.turn = Some(turn);
    Ok(())
}

/// Looks until the volume is somebody else's, or the other nodes shut this one out, and has the daemon begin
/// anew then.
pub(super) async fn again_loop(daemon: Weak<DaemonState>) {
    loop {
        tokio::time::sleep(LOOK).await;
        let Some(shared) = daemon.upgrade() else { return };
        if shared.engine.is_fenced() && !shared.may_end() {
            tracing::warn!("the volume was lost to another machine: beginning anew");
            shared.again.store(true, Ordering::Release);
            shared.set_ending(Ending::Asked);
            return;
        }
    }
}
