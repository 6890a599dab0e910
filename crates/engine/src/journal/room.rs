//! The journal's size: what it was given, or what its disk can give. It is emptied by flushing when
//! half of that is taken; what does not fit meanwhile goes to the bucket. A disk that others filled
//! stops nothing either: commits become durable in the bucket instead (`weir_meta`), and the log is
//! emptied where it is.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_tier::DiskSpace;
use weir_types::{ErrorKind, FsError, Result};

use super::{FILE_BYTES, Journal};
use crate::background::blocking;
use crate::engine::Core;

/// Free bytes that the journal leaves on its disk, as far as that can spare them.
const FLOOR_BYTES: u64 = 64 << 20;
/// How often the journal and its disk are looked at, in milliseconds.
const LOOK_MS: u64 = 1_000;
/// Tries to empty the log in place beside those who change the volume.
const TRIES: usize = 10;

/// The redo log or journal, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct JournalUsage {
    /// Whether `fsync` ends in it: it is on a disk of its own.
    pub durable: bool,
    /// Bytes that it takes.
    pub used_bytes: u64,
    /// Bytes that it may take, as its disk is now; without a journal, bytes at which the redo log
    /// is emptied.
    pub limit_bytes: u64,
    /// Free bytes on its disk.
    pub free_bytes: u64,
    /// Times that an `fsync` since the mount went to the bucket because it was full.
    pub refused_fsyncs: u64,
}

impl Journal {
    pub(crate) fn usage(&self) -> JournalUsage {
        JournalUsage {
            durable: self.durable,
            used_bytes: self.bytes(),
            limit_bytes: self.limit_bytes.load(Ordering::Relaxed),
            free_bytes: self.free_bytes.load(Ordering::Relaxed),
            refused_fsyncs: self.refused.load(Ordering::Relaxed),
        }
    }

    /// Takes note of how much the disk can give by now.
    pub(crate) fn measure(&self, space: DiskSpace, journal_bytes: u64) {
        let floor = space.floor_bytes(FLOOR_BYTES);
        let can = (self.bytes() + space.free_bytes).saturating_sub(floor);
        let limit = if self.durable { journal_bytes.min(can) } else { FILE_BYTES };
        self.limit_bytes.store(limit, Ordering::Relaxed);
        self.free_bytes.store(space.free_bytes, Ordering::Relaxed);
    }

    /// Data bytes that it still takes.
    pub(crate) fn room(&self) -> u64 {
        self.limit_bytes.load(Ordering::Relaxed).saturating_sub(self.bytes())
    }

    /// An `fsync` goes to the bucket. The log is to be emptied at once.
    pub(crate) fn refuse(&self) {
        self.refused.fetch_add(1, Ordering::Relaxed);
        self.long.notify_one();
    }

    /// A commit goes to the bucket at once. The log is to be emptied.
    pub(super) fn commit_refused(&self, error: &FsError) {
        if error.kind() == ErrorKind::NoSpace {
            tracing::warn!(%error, "the redo log is full: commits go to the bucket at once");
            self.wake();
        }
    }

    /// The log is to be looked at.
    pub(crate) fn wake(&self) {
        self.long.notify_one();
    }

    /// Whether the log is so long that it should be emptied, or owes an entry.
    pub(crate) fn is_long(&self) -> bool {
        let limit = self.limit_bytes.load(Ordering::Relaxed);
        let limit = if self.durable { limit / 2 } else { limit };
        self.bytes() > limit || !self.owed().is_empty()
    }
}

impl Core {
    /// Empties a log that has grown long: everything it says is made durable in the bucket first.
    async fn tend_log(self: &Arc<Self>, journal: &Arc<Journal>) -> Result<()> {
        let (log, ask) = (journal.clone(), self.ask_space.clone());
        let space = blocking(move || ask(log.directory())).await?;
        journal.measure(space, self.settings.journal_bytes.0);
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
            self.flush_data().await?;
        }
        self.seen(self.meta.sync().await)
    }
}

/// Keeps the log from growing beyond its limit.
pub(crate) async fn log_loop(core: Arc<Core>) {
    let Some(journal) = core.journal.clone() else { return };
    loop {
        match core.tend_log(&journal).await {
            Err(error) if error.kind() == ErrorKind::Fenced => return,
            Err(error) => tracing::warn!(%error, "the log was not emptied: tried again"),
            Ok(()) => {}
        }
        let look = Duration::from_millis(LOOK_MS);
        let _ = tokio::time::timeout(look, journal.long.notified()).await;
    }
}
