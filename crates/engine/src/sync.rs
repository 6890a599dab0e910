//! Durability on demand: `fsync`, and flushing the whole volume.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::background::blocking;
use crate::engine::{Core, Counts, Engine};
use crate::journal::Journal;

/// Bytes of one file's unsynced data that go through the journal; more goes to the bucket at once,
/// where it must go anyway.
const JOURNAL_FILE_BYTES: u64 = 64 << 20;

impl Engine {
    /// Returns when the file's data and attributes are durable: in the bucket (one segment PUT and
    /// one metadata flush, shared with all who ask at the same time), or in the journal if the
    /// mount has one (one `fdatasync`).
    pub async fn fsync(&self, ino: Ino) -> Result<()> {
        self.core.fsync(ino).await
    }

    /// Returns when the directory's entries are durable.
    pub async fn fsync_dir(&self, _ino: Ino) -> Result<()> {
        let core = &self.core;
        if core.read_only {
            return Ok(());
        }
        core.check_writable()?;
        Counts::add(&core.counts.fsyncs, 1);
        if let Some(journal) = core.journal.as_ref().filter(|j| j.durable) {
            match journal.sync().await {
                Err(error) if error.kind() == ErrorKind::NoSpace => {}
                Ok(()) if !core.meta.logged() => {}
                synced => return synced,
            }
        }
        core.seen(core.meta.sync().await)
    }

    /// Flushes all dirty data to the bucket and makes all metadata durable there.
    pub async fn flush_all(&self) -> Result<()> {
        let core = &self.core;
        if core.read_only {
            return Ok(());
        }
        core.check_writable()?;
        core.flush_all().await
    }
}

impl Core {
    /// [`Engine::fsync`].
    pub(crate) async fn fsync(self: &Arc<Self>, ino: Ino) -> Result<()> {
        if self.read_only {
            return Ok(());
        }
        self.check_writable()?;
        Counts::add(&self.counts.fsyncs, 1);
        self.catch_stores(&[ino]).await?;
        if let Some(mirror) = self.tier.find(ino) {
            mirror.check_sound()?;
        }
        if self.journal.as_ref().is_some_and(|j| j.durable) {
            // In a task of its own: what it takes for the journal must get there, or be given back,
            // whatever becomes of the caller.
            let journaling = self.clone();
            let journaled =
                tokio::spawn(async move { journaling.fsync_in_journal(ino).await }).await;
            if journaled.map_err(|e| FsError::new(ErrorKind::Bug, format!("fsync: {e}")))?? {
                return Ok(());
            }
        }
        if self.tier.find(ino).is_some_and(|m| m.has_news()) {
            self.flush_file(ino).await?;
        }
        self.seen(self.meta.sync().await)?;
        self.settle_journal().await
    }

    /// What the journal says must not be older than what the bucket has: a replay would put it
    /// over newer bytes. A journal that has no room to say so is emptied.
    pub(crate) async fn settle_journal(self: &Arc<Self>) -> Result<()> {
        match self.journal.as_ref().filter(|j| j.durable) {
            None => Ok(()),
            Some(journal) => match journal.sync().await {
                Err(error) if error.kind() == ErrorKind::NoSpace => self.empty_log(journal).await,
                synced => synced,
            },
        }
    }

    /// Notes the file's unsynced data in the journal and syncs that. `false` if there is no
    /// journal on a disk of its own, or the data is too much for it.
    async fn fsync_in_journal(self: &Arc<Self>, ino: Ino) -> Result<bool> {
        let Some(journal) = self.journal.as_ref().filter(|j| j.durable) else {
            return Ok(false);
        };
        let Ok(_taking) = journal.taking_data.try_read() else {
            return Ok(false);
        };
        if let Some(mirror) = self.tier.find(ino) {
            // A flush under way changes what the journal must hold; let it end first.
            let node = self.nodes.get(ino);
            let _flushing = node.flush.lock().await;
            let _change = node.change.lock().await;
            if node.sent.load(Ordering::Acquire) > 0 {
                return Ok(false);
            }
            let most = JOURNAL_FILE_BYTES.min(journal.room());
            let Some(unjournaled) = mirror.take_unjournaled(most) else {
                if most < JOURNAL_FILE_BYTES {
                    journal.refuse();
                }
                return Ok(false);
            };
            let ranges = unjournaled.ranges.clone();
            let (log, m) = (journal.clone(), mirror.clone());
            let noted = blocking(move || log.note_data(&m, &unjournaled)).await;
            if let Err(error) = noted {
                mirror.untake_unjournaled(&ranges);
                return full(journal, error);
            }
        }
        if let Err(error) = journal.sync().await {
            return full(journal, error);
        }
        if !self.meta.logged() {
            return Ok(false);
        }
        if journal.is_long() {
            journal.wake();
        }
        Ok(true)
    }
}

/// The journal's disk is full: the bucket takes what it does not.
fn full(journal: &Journal, error: FsError) -> Result<bool> {
    match error.kind() {
        ErrorKind::NoSpace => {
            journal.refuse();
            Ok(false)
        }
        _ => Err(error),
    }
}
