//! Disks where several nodes share the volume: one node has a disk, from its first open to some moments after its
//! last close, when all that was written to it is in the bucket.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use weir_meta::{DiskHold, DiskRow};
use weir_types::{ErrorKind, Ino, Result};

use super::manage::Disks;
use crate::volume::together::Together;

/// How long it is waited before a disk that could not be given up is tried again.
const AGAIN: Duration = Duration::from_secs(3);

impl Disks {
    /// A disk that is about to be used; this node has it from here on, where nodes share the volume. The caller
    /// has `opening`.
    pub(super) async fn held(&self, name: &str) -> Result<DiskRow> {
        let parts = &self.parts;
        match &parts.context.together {
            None => parts.meta.disk(name).await,
            Some(together) => {
                let hold = DiskHold { session: together.id(), node: parts.host.clone() };
                parts.meta.hold_disk(name, &hold, together.before()).await
            }
        }
    }

    /// Has disks given up that nobody has opened here.
    pub(crate) fn unused(&self, disks: &[Ino]) {
        if !self.parts.context.is_shared() {
            return;
        }
        // It is taken up as soon as the engine's tasks have started.
        for ino in disks {
            let _ = self.parts.closed.send(*ino);
        }
    }

    /// Gives a disk up, unless it was opened again, once all of it is in the bucket; `false` if it is to be tried
    /// again.
    async fn give_up(&self, ino: Ino, together: &Together) -> Result<bool> {
        if self.disk_opens(ino) > 0 {
            return Ok(true);
        }
        // So that what is left to do while nobody can open any is little.
        self.parts.durability.fsync(ino).await?;
        let _opening = self.opening.lock().await;
        if self.disk_opens(ino) > 0 {
            return Ok(true);
        }
        self.parts.durability.fsync(ino).await?;
        if self.parts.mirrors.is_unflushed(ino) {
            return Ok(false);
        }
        self.parts.meta.release_disk(ino, together.id()).await?;
        Ok(true)
    }
}

/// Gives disks up that nobody has open here any more.
pub(crate) async fn hold_loop(disks: Arc<Disks>, together: Arc<Together>) {
    let Some(mut closed) = disks.closed.lock().take() else { return };
    let mut due = BTreeSet::new();
    loop {
        let next = async {
            match due.is_empty() {
                true => closed.recv().await,
                false => {
                    tokio::time::timeout(AGAIN, closed.recv()).await.unwrap_or(Some(Ino::ROOT))
                }
            }
        };
        let Some(ino) = next.await else { return };
        // A disk is never the root: that says that a while has gone by.
        if ino != Ino::ROOT {
            due.insert(ino);
        }
        for ino in std::mem::take(&mut due) {
            match disks.give_up(ino, &together).await {
                Ok(true) => {}
                // It was removed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Ok(false) => {
                    due.insert(ino);
                }
                Err(error) => {
                    tracing::warn!(disk = %ino, %error, "other nodes cannot have a disk yet: what was \
                        written to it is not all in the bucket");
                    due.insert(ino);
                }
            }
        }
    }
}
