//! A change of a disk, done by a daemon or here.

use weir_engine::{DiskOptions, DiskView, Engine};
use weir_types::Result;

use crate::api::{CloneDisk, CreateDisk, DeleteDisk, ResizeDisk, SnapshotDisk};
use crate::client::Client;

/// What is to be done to a disk.
#[derive(Clone)]
pub(super) enum Change {
    Create(DiskOptions),
    Resize { name: String, size_bytes: u64, may_shrink: bool },
    Delete { name: String },
    Snapshot { name: String, snapshot: String },
    Clone { name: String, new: String },
}

impl Change {
    /// The disk that there is when it is done, or was.
    pub(super) fn name(&self) -> &str {
        match self {
            Change::Create(options) => &options.name,
            Change::Resize { name, .. }
            | Change::Delete { name }
            | Change::Snapshot { name, .. } => name,
            Change::Clone { new, .. } => new,
        }
    }

    /// Asks a daemon for it.
    pub(super) async fn ask(&self, client: &Client) -> Result<Option<DiskView>> {
        match self.clone() {
            Change::Create(options) => client.call(&CreateDisk(options)).await.map(Some),
            Change::Resize { name, size_bytes, may_shrink } => {
                client.call(&ResizeDisk { name, size_bytes, may_shrink }).await.map(Some)
            }
            Change::Delete { name } => client.call(&DeleteDisk { name }).await.map(|_| None),
            Change::Snapshot { name, snapshot } => {
                client.call(&SnapshotDisk { name, snapshot }).await.map(Some)
            }
            Change::Clone { name, new } => client.call(&CloneDisk { name, new }).await.map(Some),
        }
    }

    /// Does it.
    pub(super) async fn make(&self, engine: &Engine) -> Result<Option<DiskView>> {
        match self {
            Change::Create(options) => engine.create_disk(options.clone()).await.map(Some),
            Change::Resize { name, size_bytes, may_shrink } => {
                engine.resize_disk(name, *size_bytes, *may_shrink).await.map(Some)
            }
            Change::Delete { name } => engine.delete_disk(name).await.map(|()| None),
            Change::Snapshot { name, snapshot } => {
                engine.snapshot_disk(name, snapshot).await.map(Some)
            }
            Change::Clone { name, new } => engine.clone_disk(name, new).await.map(Some),
        }
    }
}
