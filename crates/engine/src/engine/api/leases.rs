//! What doors may let their clients remember where nodes share the volume.

use std::time::Duration;

use weir_meta::LeaseCounts;
use weir_types::Ino;

use crate::engine::Engine;

impl Engine {
    /// How often this node lost leases up to now; `None` where it takes none: the volume is not shared.
    pub fn leases_lost(&self) -> Option<u64> {
        self.data.meta.leases().map(|leases| leases.lost())
    }

    /// For how long a client may remember what was found of these inodes since this many leases were lost:
    /// their attributes, and the entries of a directory. Zero where it may not.
    pub fn lends(&self, inos: &[Ino], lost: u64) -> Duration {
        self.data.meta.leases().map_or(Duration::ZERO, |leases| leases.lends(inos, lost))
    }

    /// Has `recalled` called with the inodes of which clients must forget what they were let remember. It
    /// must have them forget, and wait for nothing.
    pub fn on_recall(&self, recalled: impl Fn(&[Ino]) + Send + Sync + 'static) {
        if let Some(leases) = self.data.meta.leases() {
            leases.tell(std::sync::Arc::new(recalled));
        }
    }

    /// What became of this node's leases, where the volume is shared.
    pub fn lease_counts(&self) -> Option<LeaseCounts> {
        self.data.meta.leases().map(|leases| leases.counts())
    }
}
