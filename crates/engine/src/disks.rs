//! Disks: block devices kept in the volume.
//!
//! A disk is a file that has no name in the tree. What must always hold:
//! - [`Disk::flush`] returns when all writes that had returned before are durable, whoever made
//!   them; before that they may be lost with the process, as with any disk that has a write cache.
//! - Reads see every write that had returned.

mod disk;
mod manage;

pub use disk::{Disk, DiskExtent};
pub use manage::{DiskOptions, DiskView};

use std::collections::HashMap;
use std::sync::{Mutex, MutexGuard, Weak};

use weir_types::Ino;

/// The disks that are open.
#[derive(Default)]
pub(crate) struct Disks {
    open: Mutex<HashMap<Ino, Weak<disk::Shared>>>,
}

impl Disks {
    fn open(&self) -> MutexGuard<'_, HashMap<Ino, Weak<disk::Shared>>> {
        self.open.lock().unwrap_or_else(|e| e.into_inner())
    }
}
