//! SIGTERM and SIGINT end a daemon in good order. SIGHUP opens its log file anew, and never ends it:
//! it outlives its terminal.

use std::future::Future;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use weir_types::ErrorKind;

use crate::daemon::ending::Ending;
use crate::daemon::held_signals::{Signals, Wanted};
use crate::daemon::shared::{AskedToEnd, DaemonState, panicked};
use crate::log;

/// How often, and how long, a busy mount or device is tried again before it is taken from its users.
const TRY_EVERY: Duration = Duration::from_millis(200);
const TRY_MAX: Duration = Duration::from_secs(5);

/// A task that waits for signals until the process ends.
pub(crate) fn listen(shared: &Arc<DaemonState>) -> io::Result<impl Future<Output = ()> + use<>> {
    let signals = Signals::new()?;
    let shared = shared.clone();
    Ok(async move {
        loop {
            match next(&signals, &shared).await {
                Ok((Wanted::Log, _)) => log::reopen(),
                Ok((Wanted::End, _asked)) => {
                    tracing::info!("asked to end by a signal");
                    stop(&shared).await;
                }
                Err(error) => {
                    tracing::error!(%error, "signals are heard no more: `weir umount` ends the daemon");
                    return;
                }
            }
        }
    })
}

/// Takes the next signal. From then on, and not a moment later, the daemon knows that it is to end.
async fn next<'a>(
    signals: &Signals,
    shared: &'a DaemonState,
) -> io::Result<(Wanted, Option<AskedToEnd<'a>>)> {
    loop {
        signals.until_one().await?;
        let _hearing = shared.hearing.lock();
        match signals.take()? {
            Some(Wanted::End) => return Ok((Wanted::End, Some(shared.asked_to_end()))),
            Some(wanted) => return Ok((wanted, None)),
            None => {}
        }
    }
}

/// Ends the daemon. Whoever still uses it has five seconds to let go; what they wrote is kept.
pub(crate) async fn stop(shared: &Arc<DaemonState>) {
    let _asked = shared.asked_to_end();
    // One attempt alone may wait for the bucket for a minute; and what left the tree may be mounted
    // elsewhere.
    let shut = async {
        end(shared).await?;
        shared.until_shut().await;
        Ok::<_, ()>(())
    };
    if let Ok(Ok(())) = tokio::time::timeout(TRY_MAX, shut).await {
        return;
    }
    shared.set_ending(Ending::Forced);
    if let Some(fuse) = &shared.fuse {
        if fuse.view.in_tree() {
            force(fuse.mountpoint.clone()).await;
        }
        stop_serving(shared).await;
    }
}

/// Takes the volume from those to whom it is mounted elsewhere.
async fn stop_serving(shared: &Arc<DaemonState>) {
    if tokio::time::timeout(TRY_EVERY, shared.until_shut()).await.is_ok() {
        return;
    }
    if let Some(why) = shared.waits_for() {
        tracing::warn!("{why}: it is taken from there");
    }
    let door = shared.clone();
    let stopped = tokio::task::spawn_blocking(move || match &door.fuse {
        Some(fuse) => fuse.view.stop_serving(),
        None => Ok(()),
    });
    if let Err(error) = stopped.await.map_err(panicked).and_then(|done| done) {
        tracing::error!("{error}");
    }
}

/// Ends the daemon as soon as nobody uses it; an error, which was told, says that it cannot be ended
/// so.
async fn end(shared: &DaemonState) -> Result<(), ()> {
    let mut told = false;
    loop {
        match shared.end(false).await {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::Retry => {
                if !told {
                    tracing::warn!("{error}; trying again for five seconds");
                    told = true;
                }
            }
            Err(error) => {
                tracing::error!("{error}");
                return Err(());
            }
        }
        tokio::time::sleep(TRY_EVERY).await;
    }
}

/// Takes the mount from those who do not let go. What their memory maps hold is written first.
async fn force(mountpoint: PathBuf) {
    let path = mountpoint.clone();
    let synced = tokio::task::spawn_blocking(move || {
        let root = std::fs::File::open(&path)?;
        rustix::fs::syncfs(&root).map_err(io::Error::from)
    });
    if let Ok(Err(error)) = synced.await {
        tracing::warn!("writing out before a forced unmount: {error}");
    }
    let flags = UnmountFlags::FORCE | UnmountFlags::DETACH | UnmountFlags::NOFOLLOW;
    match rustix::mount::unmount(&mountpoint, flags) {
        Ok(()) => {
            tracing::warn!("the mount was taken from those who still used it");
            return;
        }
        // It is no mount point any more: only a device keeps the daemon.
        Err(Errno::INVAL) => return,
        Err(error) => {
            tracing::warn!("cannot force the unmount ({error}): it ends when its last user does");
        }
    }
    let lazy = tokio::task::spawn_blocking(move || weir_door_fuse::unmount(&mountpoint, true));
    if let Err(error) = lazy.await.map_err(panicked).and_then(|done| done) {
        tracing::error!("{error}");
    }
}
