//! Disks: block devices kept in the volume.
//!
//! A disk is a file that has no name in the tree. What must always hold:
//! - Reads see every write that had returned, also after `kill -9`: clients live on and know nothing
//!   of it.
//! - [`Disk::flush`] returns when all writes that had returned before are durable, whoever made
//!   them; before that a power cut may take them, as with any disk that has a write cache.

mod disk;
mod manage;
mod whole;

pub use disk::{Disk, DiskExtent};
pub use manage::{DiskOptions, DiskView};

use std::collections::HashMap;
use std::sync::Weak;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Semaphore;
use weir_types::{Ino, Settings};

use crate::flush::PERMIT_BYTES;

/// The disks that are open.
pub(crate) struct Disks {
    open: Mutex<HashMap<Ino, Weak<disk::Shared>>>,
    /// Memory of whole records on their way, in [`PERMIT_BYTES`].
    memory: Semaphore,
}

impl Disks {
    pub(crate) fn new(settings: &Settings) -> Self {
        let permits = settings.memory().uploads.div_ceil(PERMIT_BYTES) as usize;
        Self { open: Mutex::default(), memory: Semaphore::new(permits) }
    }

    /// Waits until no client's write is under way any more.
    pub(crate) async fn settle(&self) {
        let open: Vec<_> = self.open().values().filter_map(Weak::upgrade).collect();
        for disk in open {
            drop(disk.hold_all().await);
        }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Ino, Weak<disk::Shared>>> {
        self.open.lock()
    }
}
