//! The compactor, beside the database and not in it: nobody waits for it when a database is opened,
//! a short life does without it, and what goes wrong with it does not end the database.

use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::Mutex;
use slatedb::config::CompactorOptions;
use slatedb::{CompactorBuilder, DbStatus};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use super::options::{BLOCK_SIZE, L0_TABLES_MAX};

/// How long a database is open before its compactor starts, unless many tables wait for it.
const START_AFTER: Duration = Duration::from_secs(2);
/// How long one that failed, or that another one ended, waits for its next try. Two of them end each
/// other until the older writer has noticed that it is one.
const AGAIN_AFTER: Duration = Duration::from_secs(15);
/// How long its end is waited for. What it had not finished is left for the next one.
const STOP_WITHIN: Duration = Duration::from_secs(5);

/// A compactor that runs as long as its database is open.
pub(super) struct Compaction {
    stop: watch::Sender<bool>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Compaction {
    /// One of the database at `path` of `store`, which tells by `status` when it has ended.
    pub(super) fn start(
        store: Arc<dyn ObjectStore>,
        path: Path,
        options: CompactorOptions,
        status: watch::Receiver<DbStatus>,
    ) -> Self {
        let (stop, stopped) = watch::channel(false);
        let work = Work { store, path, options, status, stopped };
        Self { stop, task: Mutex::new(Some(tokio::spawn(work.run()))) }
    }

    /// Ends it; returns when it has ended, or after five seconds.
    pub(super) async fn stop(&self) {
        self.stop.send_replace(true);
        let task = self.task.lock().take();
        if let Some(task) = task
            && tokio::time::timeout(STOP_WITHIN, task).await.is_err()
        {
            tracing::warn!("the compactor of the metadata did not end in time: left to itself");
        }
    }
}

impl Drop for Compaction {
    fn drop(&mut self) {
        self.stop.send_replace(true);
    }
}

struct Work {
    store: Arc<dyn ObjectStore>,
    path: Path,
    options: CompactorOptions,
    status: watch::Receiver<DbStatus>,
    stopped: watch::Receiver<bool>,
}

impl Work {
    async fn run(mut self) {
        let waiting = self.status.borrow().current_manifest.l0().len();
        let mut pause = match waiting < L0_TABLES_MAX / 2 {
            true => START_AFTER,
            false => Duration::ZERO,
        };
        while !self.ended_within(pause).await {
            let compactor = CompactorBuilder::new(self.path.clone(), self.store.clone())
                .with_options(self.options.clone())
                .with_sst_block_size(BLOCK_SIZE)
                .build();
            let ran = tokio::select! {
                ran = compactor.run() => ran,
                () = ended(&mut self.status, &mut self.stopped) => {
                    let stopped = compactor.stop().await;
                    tracing::debug!(?stopped, "the compactor of the metadata was stopped");
                    return;
                }
            };
            if let Err(error) = ran {
                tracing::warn!(%error, "the compactor of the metadata ended: started again");
            }
            pause = AGAIN_AFTER;
        }
    }

    /// Waits; `true` if the database ended meanwhile.
    async fn ended_within(&mut self, pause: Duration) -> bool {
        let ended = ended(&mut self.status, &mut self.stopped);
        tokio::time::timeout(pause, ended).await.is_ok()
    }
}

/// Returns when the database has ended, or is about to.
async fn ended(status: &mut watch::Receiver<DbStatus>, stopped: &mut watch::Receiver<bool>) {
    // An error says that whoever would tell is gone.
    tokio::select! {
        _ = status.wait_for(|status| status.close_reason.is_some()) => {}
        _ = stopped.wait_for(|stopped| *stopped) => {}
    }
}
