//! Bringing commits to SlateDB, behind those who made them.
//!
//! A commit is done when it is in the redo log and in [`Recent`]. One task takes the commits from
//! there to SlateDB, in their order and each with its own version, a few milliseconds' worth at a
//! time. Whoever wants them durable tells it to hurry and waits for it first.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;
use weir_types::Result;

use super::recent::Recent;
use super::shared::SlateState;
use crate::kv::contract::Version;

/// How long commits gather before they are taken to SlateDB: one wake of the task serves them all.
const GATHER: Duration = Duration::from_millis(2);

/// Bytes on their way at which commits wait: SlateDB takes no more (the bucket is away).
const UNFED_BYTES_MAX: usize = 8 << 20;

/// Commits after which those who wait are told how far it is.
const TELL_AFTER: usize = 64;

/// The task that feeds SlateDB. Dropping it ends the task: what was not fed is in the redo log.
pub(super) struct Feeder {
    /// Wakes the task: there is something to feed.
    wanted: Arc<Notify>,
    /// Somebody waits.
    hurry: Arc<Notify>,
    /// Up to which commit SlateDB has them. Closed when the task ended in an error.
    fed: watch::Receiver<Version>,
    task: JoinHandle<()>,
}

impl Drop for Feeder {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Feeder {
    pub(super) fn start(shared: Arc<SlateState>) -> Self {
        let (wanted, hurry) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (tell, fed) = watch::channel(shared.recent().applied());
        let task = tokio::spawn(feed(shared, wanted.clone(), hurry.clone(), tell));
        Self { wanted, hurry, fed, task }
    }

    /// There is something to feed.
    pub(super) fn wake(&self) {
        self.wanted.notify_one();
    }

    /// Up to which commit SlateDB has them.
    #[cfg(test)]
    pub(super) fn fed(&self) -> Version {
        *self.fed.borrow()
    }

    /// Returns when SlateDB has all commits up to `version`.
    pub(super) async fn reached(&self, version: Version, shared: &SlateState) -> Result<()> {
        let mut fed = self.fed.clone();
        if *fed.borrow_and_update() < version {
            self.hurry.notify_one();
        }
        let reached = fed.wait_for(|fed| *fed >= version).await.map(drop);
        reached.map_err(|_| shared.failure())
    }

    /// Returns when there is room for a commit more.
    pub(super) async fn room(&self, shared: &SlateState) -> Result<()> {
        let full = |recent: &Recent| recent.unfed_bytes() >= UNFED_BYTES_MAX;
        if !full(&shared.recent()) {
            return Ok(());
        }
        let mut fed = self.fed.clone();
        self.hurry.notify_one();
        loop {
            fed.mark_unchanged();
            if !full(&shared.recent()) {
                return Ok(());
            }
            fed.changed().await.map_err(|_| shared.failure())?;
        }
    }
}

async fn feed(
    shared: Arc<SlateState>,
    wanted: Arc<Notify>,
    hurry: Arc<Notify>,
    tell: watch::Sender<Version>,
) {
    loop {
        wanted.notified().await;
        tokio::select! {
            () = tokio::time::sleep(GATHER) => {}
            () = hurry.notified() => {}
        }
        let mut newest = 0;
        for n in 1_usize.. {
            let Some(change) = shared.recent().unfed() else { break };
            if let Err(error) = shared.write(&change).await {
                shared.fail(error);
                return;
            }
            shared.recent_mut().fed();
            newest = change.version;
            if n.is_multiple_of(TELL_AFTER) {
                tell.send_replace(newest);
            }
        }
        if newest > 0 {
            tell.send_replace(newest);
        }
    }
}
