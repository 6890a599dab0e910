//! The journal's size: what it was given, or what its disk can give. It is emptied by flushing when
//! half of that is taken; what does not fit meanwhile goes to the bucket. A disk that others filled
//! stops nothing either: commits become durable in the bucket instead (`weir_meta`), and the log is
//! emptied where it is.

use std::sync::atomic::Ordering;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_tier::DiskSpace;
use weir_types::{ErrorKind, FsError};

use super::{FILE_BYTES, Journal};

/// Free bytes that the journal leaves on its disk, as far as that can spare them.
const FLOOR_BYTES: u64 = 64 << 20;

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
