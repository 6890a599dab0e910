//! Keeping the redo log or journal short: what it says is made durable in the bucket, and forgotten.

use std::sync::Arc;
use std::time::Duration;

use weir_types::{ErrorKind, FsError, Result};

use super::Durability;
use crate::data::journal::Journal;
use crate::volume::context::blocking;

/// How often the journal and its disk are looked at, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// Tries to empty the log in place beside those who change the volume.
const TRIES: usize = 10;

impl Durability {
    /// Empties a log that has grown long: everything it says is made durable in the bucket first.
    async fn tend_log(self: &Arc<Self>, journal: &Arc<Journal>) -> Result<()> {
        let (log, ask) = (journal.clone(), self.ask_space.clone());
        let space = blocking(move || ask(log.directory())).await?;
        journal.measure(space, self.context.settings.journal_bytes.0);
        match journal.is_long() {
            true => self.empty_log(journal).await,
            false => Ok(()),
        }
    }

    /// Empties the log, whatever is in it.
    pub(crate) async fn empty_log(self: &Arc<Self>, journal: &Arc<Journal>) -> Result<()> {
        let _emptying = journal.emptying.lock().await;
        let log = journal.clone();
        let number = match blocking(move || log.rotate()).await {
            Ok(number) => number,
            Err(error) if error.kind() == ErrorKind::NoSpace => {
                return self.empty_in_place(journal).await;
            }
            Err(error) => return Err(error),
        };
        self.flush_for_log(journal).await?;
        let log = journal.clone();
        blocking(move || log.drop_before(number)).await?;
        journal.pay()
    }

    /// Without a new log file, because the disk has no room for one: when nothing was noted between
    /// two looks, all of the log is in the bucket.
    async fn empty_in_place(self: &Arc<Self>, journal: &Arc<Journal>) -> Result<()> {
        let _no_data = journal.taking_data.write().await;
        for _ in 0..TRIES {
            let mark = journal.appended()?;
            self.flush_for_log(journal).await?;
            let log = journal.clone();
            if blocking(move || log.clear_if(mark)).await? {
                return Ok(());
            }
        }
        let text = "the redo log's disk is full, and the volume changes faster than the log can be \
                    emptied: make room on that disk";
        Err(FsError::new(ErrorKind::NoSpace, text))
    }

    async fn flush_for_log(self: &Arc<Self>, journal: &Journal) -> Result<()> {
        if journal.durable {
            self.flusher.flush_data().await?;
        }
        self.meta.sync().await
    }
}

/// Keeps the log from growing beyond its limit.
pub(crate) async fn log_loop(durability: Arc<Durability>) {
    let Some(journal) = durability.journal.clone() else { return };
    loop {
        match durability.tend_log(&journal).await {
            Err(error) if error.kind() == ErrorKind::Fenced => return,
            Err(error) => tracing::warn!(%error, "the log was not emptied: tried again"),
            Ok(()) => {}
        }
        let look = Duration::from_millis(LOOK_MS);
        let _ = tokio::time::timeout(look, journal.long.notified()).await;
    }
}
