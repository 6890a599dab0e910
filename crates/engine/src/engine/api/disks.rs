//! Block devices.

use weir_types::Result;

use crate::engine::Engine;
use crate::services::disks::{Disk, DiskOptions, DiskView};
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// Makes a disk of zeros. `Exists` if the name is taken. One metadata commit.
    pub fn create_disk(&self, options: DiskOptions) -> Boxed<'_, Result<DiskView>> {
        boxed(self.disks.create_disk(options))
    }

    /// All disks and snapshots by name. Two reads for each at most.
    pub fn disks(&self) -> Boxed<'_, Result<Vec<DiskView>>> {
        boxed(self.disks.disks())
    }

    /// One disk; `NotFound` if there is none of this name.
    pub fn disk<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<DiskView>> {
        boxed(self.disks.disk(name))
    }

    /// Sets a disk's size. New bytes are zeros; what is cut off is gone, and so `may_shrink` must
    /// say that this is meant. Connections that are open see it at once.
    pub fn resize_disk<'a>(
        &'a self,
        name: &'a str,
        size_bytes: u64,
        may_shrink: bool,
    ) -> Boxed<'a, Result<DiskView>> {
        boxed(self.disks.resize_disk(name, size_bytes, may_shrink))
    }

    /// Removes a disk; its objects are collected. `WouldBlock` while somebody has it open.
    pub fn delete_disk<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<()>> {
        boxed(self.disks.delete_disk(name))
    }

    /// Freezes a disk as it is now under `name@snapshot`, read-only. It holds all that was written
    /// before the call, nothing that is written after it returned, and of what is written meanwhile
    /// each write wholly or not at all in an order that a power cut could have left. Shares all
    /// bytes: metadata commits only, one for each 500 MiB stored; flushes of the disk wait for it.
    pub fn snapshot_disk<'a>(
        &'a self,
        name: &'a str,
        snapshot: &'a str,
    ) -> Boxed<'a, Result<DiskView>> {
        boxed(self.disks.snapshot_disk(name, snapshot))
    }

    /// A new disk that begins as a copy of a disk or snapshot and goes its own way then. Shares all
    /// bytes, as [`Engine::snapshot_disk`] does.
    pub fn clone_disk<'a>(&'a self, name: &'a str, new: &'a str) -> Boxed<'a, Result<DiskView>> {
        boxed(self.disks.clone_disk(name, new))
    }

    /// Opens a disk by its name. All handles of one disk work on the same state, so a flush of one
    /// covers the writes of all.
    pub fn open_disk<'a>(&'a self, name: &'a str) -> Boxed<'a, Result<Disk>> {
        boxed(self.disks.open_disk(name))
    }
}
