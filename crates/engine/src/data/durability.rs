//! Durability on demand: `fsync`, and flushing the whole volume.

pub(crate) mod log;

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use weir_meta::Meta;
use weir_tier::{AskSpace, DiskSpace, Mirror, Tier};
use weir_types::{ByteRange, ErrorKind, FsError, Ino, Result};

use crate::data::flush::Flusher;
use crate::data::journal::Journal;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::volume::context::{Context, Counts, blocking};

/// Bytes of one file's unsynced data that go through the journal; more goes to the bucket at once,
/// where it must go anyway.
const JOURNAL_FILE_BYTES: u64 = 64 << 20;

/// Makes data and metadata durable.
pub(crate) struct Durability {
    context: Arc<Context>,
    meta: Arc<Meta>,
    tier: Arc<Tier>,
    nodes: Arc<Nodes>,
    journal: Option<Arc<Journal>>,
    mirrors: Arc<Mirrors>,
    flusher: Arc<Flusher>,
    ask_space: AskSpace,
}

impl Durability {
    pub(crate) fn new(
        context: Arc<Context>,
        nodes: Arc<Nodes>,
        journal: Option<Arc<Journal>>,
        mirrors: Arc<Mirrors>,
        flusher: Arc<Flusher>,
        ask_space: AskSpace,
    ) -> Self {
        let (meta, tier) = (mirrors.meta.clone(), mirrors.tier.clone());
        Self { context, meta, tier, nodes, journal, mirrors, flusher, ask_space }
    }

    /// The space of a disk on which this machine keeps something.
    pub(crate) fn disk_space(&self, directory: &Path) -> Result<DiskSpace> {
        (self.ask_space)(directory)
    }

    /// Returns when the directory's entries are durable.
    pub(crate) async fn fsync_dir(&self) -> Result<()> {
        if self.context.read_only {
            return Ok(());
        }
        self.context.check_writable()?;
        Counts::add(&self.context.counts.fsyncs, 1);
        if let Some(journal) = self.journal.as_ref().filter(|j| j.durable) {
            match journal.sync().await {
                Err(error) if error.kind() == ErrorKind::NoSpace => {}
                Ok(()) if !self.meta.logged() => {}
                synced => return synced,
            }
        }
        self.meta.sync().await
    }
}

impl Durability {
    /// Returns when the file's data and attributes are durable: in the bucket, or in the journal.
    pub(crate) async fn fsync(self: &Arc<Self>, ino: Ino) -> Result<()> {
        if self.context.read_only {
            return Ok(());
        }
        self.context.check_writable()?;
        Counts::add(&self.context.counts.fsyncs, 1);
        self.mirrors.scan_mapped_writes(&[ino]).await?;
        if let Some(mirror) = self.tier.find(ino) {
            mirror.check_sound()?;
        }
        if self.fsync_in_journal(ino).await? {
            return Ok(());
        }
        if self.tier.find(ino).is_some_and(|m| m.has_unflushed()) {
            let _coming = self.meta.sync_comes();
            self.flusher.flush_file(ino).await?;
        }
        self.meta.sync().await?;
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
    async fn fsync_in_journal(&self, ino: Ino) -> Result<bool> {
        let Some(journal) = self.journal.as_ref().filter(|j| j.durable) else {
            return Ok(false);
        };
        let Ok(taking) = journal.taking_data.try_read_owned() else {
            return Ok(false);
        };
        let mut file = None;
        if let Some(mirror) = self.tier.find(ino) {
            // A flush under way changes what the journal must hold; let it end first.
            let node = self.nodes.get(ino);
            let flushing = node.flush.lock_owned().await;
            let change = node.change.lock_owned().await;
            if node.sent.load(Ordering::Acquire) > 0 {
                return Ok(false);
            }
            file = Some((mirror, flushing, change));
        }
        // In one go, off the callers' threads: what is taken for the journal gets there, or is given
        // back, whatever becomes of who asked.
        let log = journal.clone();
        let journaled = blocking(move || {
            let _taking = taking;
            if let Some((mirror, _flushing, _change)) = file
                && !note_unjournaled(&log, &mirror)?
            {
                return Ok(false);
            }
            log.sync_here().map(|()| true)
        });
        match journaled.await {
            Err(error) => return full(journal, error),
            Ok(false) => return Ok(false),
            Ok(true) => {}
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

/// Notes in the journal what it does not have of the file; `false` if that is too much for it.
fn note_unjournaled(journal: &Journal, mirror: &Mirror) -> Result<bool> {
    let most = JOURNAL_FILE_BYTES.min(journal.room());
    let Some(unjournaled) = mirror.take_unjournaled(most) else {
        if most < JOURNAL_FILE_BYTES {
            journal.refuse();
        }
        return Ok(false);
    };
    let mut taken = Taken { mirror, ranges: &unjournaled.ranges };
    journal.note_data(mirror, &unjournaled)?;
    taken.ranges = &[];
    Ok(true)
}

/// Ranges that were taken for the journal: given back if they do not get there, also by a panic.
struct Taken<'a> {
    mirror: &'a Mirror,
    ranges: &'a [ByteRange],
}

impl Drop for Taken<'_> {
    fn drop(&mut self) {
        self.mirror.untake_unjournaled(self.ranges);
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

impl Durability {
    /// Flushes all dirty data there is and makes the metadata durable.
    pub(crate) async fn flush_all(self: &Arc<Self>) -> Result<()> {
        let looked = self.mirrors.look_for_mapped_writes().await;
        self.flusher.flush_data().await?;
        self.meta.sync().await?;
        self.settle_journal().await?;
        self.check_doubt()?;
        looked
    }

    /// Ends the write leases that there are, once the volume has all of their files.
    pub(crate) async fn bring_all(&self) -> Result<()> {
        self.flusher.bring_all().await
    }

    /// Says which files have bytes that the tier's disk lost: they never leave for the bucket.
    fn check_doubt(&self) -> Result<()> {
        let inos: Vec<_> = self.tier.in_doubt().iter().map(|m| m.ino().to_string()).collect();
        if inos.is_empty() {
            return Ok(());
        }
        let text = format!(
            "the tier's disk lost bytes of {} files that are not in the bucket (inodes {}; `find \
             -inum` names them): write them anew from nothing, or remove them; else the next mount \
             sets aside what is left of them",
            inos.len(),
            inos[..inos.len().min(20)].join(", "),
        );
        Err(FsError::new(ErrorKind::Corrupt, text))
    }
}
