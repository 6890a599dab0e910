//! Block devices.

use weir_types::Result;

use crate::engine::Engine;
use crate::services::disks::{Disk, DiskOptions, DiskView};

impl Engine {
    /// Makes a disk of zeros. `Exists` if the name is taken. One metadata commit.
    pub async fn create_disk(&self, options: DiskOptions) -> Result<DiskView> {
        self.disks.create_disk(options).await
    }

    /// All disks and snapshots by name. Two reads for each at most.
    pub async fn disks(&self) -> Result<Vec<DiskView>> {
        self.disks.disks().await
    }

    /// One disk; `NotFound` if there is none of this name.
    pub async fn disk(&self, name: &str) -> Result<DiskView> {
        self.disks.disk(name).await
    }

    /// Sets a disk's size. New bytes are zeros; what is cut off is gone, and so `may_shrink` must
    /// say that this is meant. Connections that are open see it at once.
    pub async fn resize_disk(
        &self,
        name: &str,
        size_bytes: u64,
        may_shrink: bool,
    ) -> Result<DiskView> {
        self.disks.resize_disk(name, size_bytes, may_shrink).await
    }

    /// Removes a disk; its objects are collected. `WouldBlock` while somebody has it open.
    pub async fn delete_disk(&self, name: &str) -> Result<()> {
        self.disks.delete_disk(name).await
    }

    /// Freezes a disk as it is now under `name@snapshot`, read-only. It holds all that was written
    /// before the call, nothing that is written after it returned, and of what is written meanwhile
    /// each write wholly or not at all in an order that a power cut could have left. Shares all
    /// bytes: metadata commits only, one for each 500 MiB stored; flushes of the disk wait for it.
    pub async fn snapshot_disk(&self, name: &str, snapshot: &str) -> Result<DiskView> {
        self.disks.snapshot_disk(name, snapshot).await
    }

    /// A new disk that begins as a copy of a disk or snapshot and goes its own way then. Shares all
    /// bytes, as [`Engine::snapshot_disk`] does.
    pub async fn clone_disk(&self, name: &str, new: &str) -> Result<DiskView> {
        self.disks.clone_disk(name, new).await
    }

    /// Opens a disk by its name. All handles of one disk work on the same state, so a flush of one
    /// covers the writes of all.
    pub async fn open_disk(&self, name: &str) -> Result<Disk> {
        self.disks.open_disk(name).await
    }
}
