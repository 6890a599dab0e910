//! What each mirror needs of its tier: its log, and the account of all mirrors.

use std::collections::{BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use weir_types::Ino;

use crate::mirror_file::mirror_path;
use crate::record_log::RecordLog;
use crate::settled::Settling;

/// What each mirror needs of its tier.
pub(crate) struct TierState {
    pub(crate) directory: PathBuf,
    /// Its file system does for each block of a write what may be done once for all of them.
    pub(crate) reserves_by_block: bool,
    pub(crate) log: RecordLog,
    pub(crate) used_bytes: AtomicU64,
    pub(crate) dirty_bytes: AtomicU64,
    /// Mirrors that are in memory, and what they take of it.
    pub(crate) files: AtomicU64,
    pub(crate) memory_bytes: AtomicU64,
    pub(crate) ticks: AtomicU64,
    pub(crate) settling: Settling,
    /// Mirrors that held nothing when their last user went.
    pub(crate) idle_empty: Mutex<Vec<Ino>>,
    /// Mirrors that have something unflushed, and maybe some that had. Each is here as long as it
    /// says so itself, under its own lock, which is taken first.
    pub(crate) listed: Mutex<BTreeSet<Ino>>,
    /// Nobody else changed the volume since the mirrors were last in step with it.
    pub(crate) alone: AtomicBool,
    /// Others write the volume while it is in use here.
    pub(crate) among_nodes: AtomicBool,
    /// Mirrors whose files are lent, and bytes of theirs that may not be released.
    pub(crate) passthrough: Mutex<HashSet<Ino>>,
    pub(crate) passthrough_bytes: AtomicU64,
    /// The most bytes to lend.
    pub(crate) passthrough_bytes_max: u64,
    /// The tier's file system was found to have leases.
    pub(crate) leases: AtomicBool,
    /// Mirrors with dirty bytes in doubt.
    pub(crate) doubted: Mutex<BTreeSet<Ino>>,
    /// Mirror files that are open, and how many may be without need.
    pub(crate) open_files: AtomicU64,
    pub(crate) open_files_max: u64,
    pub(crate) now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
}

impl std::fmt::Debug for TierState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tier({})", self.directory.display())
    }
}

impl TierState {
    pub(crate) fn account(&self, local: u64, local_before: u64, dirty: u64, dirty_before: u64) {
        // Wrapping: each call adds a difference that may be negative, their sum never is.
        self.used_bytes.fetch_add(local.wrapping_sub(local_before), Ordering::Relaxed);
        self.dirty_bytes.fetch_add(dirty.wrapping_sub(dirty_before), Ordering::Relaxed);
    }

    /// Whether so many bytes more may be kept from being released.
    pub(crate) fn may_pass_through(&self, bytes: u64) -> bool {
        self.passthrough_bytes.load(Ordering::Relaxed).saturating_add(bytes)
            <= self.passthrough_bytes_max
    }

    /// Accounts for a change of room that a lent mirror takes.
    pub(crate) fn account_passthrough(&self, local: u64, before: u64) {
        self.passthrough_bytes.fetch_add(local.wrapping_sub(before), Ordering::Relaxed);
    }

    pub(crate) fn count_passthrough(&self, ino: Ino, active: bool, local_bytes: u64) {
        let mut all = self.passthrough.lock();
        if active {
            all.insert(ino);
            self.account_passthrough(local_bytes, 0);
        } else {
            all.remove(&ino);
            self.account_passthrough(0, local_bytes);
        }
    }

    /// Room that is taken and can be made: what is lent beyond its share cannot, and nobody must
    /// wait for it.
    pub(crate) fn used_bytes(&self) -> u64 {
        let passthrough = self.passthrough_bytes.load(Ordering::Relaxed);
        let used = self.used_bytes.load(Ordering::Relaxed);
        used.saturating_sub(passthrough.saturating_sub(self.passthrough_bytes_max))
    }

    /// A counter that orders uses for release, oldest first.
    pub(crate) fn tick(&self) -> u64 {
        self.ticks.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.now_ms)()
    }

    pub(crate) fn idle_empty(&self) -> MutexGuard<'_, Vec<Ino>> {
        self.idle_empty.lock()
    }

    pub(crate) fn doubted(&self) -> MutexGuard<'_, BTreeSet<Ino>> {
        self.doubted.lock()
    }

    pub(crate) fn count_open(&self, opened: bool) {
        match opened {
            true => self.open_files.fetch_add(1, Ordering::Relaxed),
            false => self.open_files.fetch_sub(1, Ordering::Relaxed),
        };
    }

    /// Whether a mirror file that nobody uses may stay open.
    pub(crate) fn may_stay_open(&self) -> bool {
        self.open_files.load(Ordering::Relaxed) <= self.open_files_max
    }

    pub(crate) fn listed(&self) -> MutexGuard<'_, BTreeSet<Ino>> {
        self.listed.lock()
    }

    pub(crate) fn mirror_path(&self, ino: Ino) -> PathBuf {
        mirror_path(&self.directory.join("mirror"), ino)
    }
}
