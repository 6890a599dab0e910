//! Going on in the place of another daemon, which ended as one that is killed does: what such a one
//! leaves on disk is all, but for who has what open.

use std::time::Duration;

use weir_types::{Bytes, ErrorKind, FsError, Ino, Result};

use super::Engine;
use crate::volume::boxed::{Boxed, boxed};
use crate::volume::options::Inherited;
use crate::volume::pulse::NodesStatus;

/// Bytes that must be free on the disks of who goes on: it opens the logs anew before it serves.
const ROOM: u64 = 16 << 20;

impl Engine {
    /// Whether what is to go on in the place of this engine could begin: `NoSpace` where a disk of the
    /// tier or the journal is full, as it would stand still until there is room.
    pub fn check_room_for_heir(&self) -> Result<()> {
        let log = self.data.journal.as_ref().map(|journal| journal.directory());
        for directory in std::iter::once(self.data.tier.directory()).chain(log) {
            let free = self.data.durability.disk_space(directory)?.free_bytes;
            if free < ROOM {
                let text = format!(
                    "the disk of {} has {} free, and whoever goes on needs {}: make room there, or \
                     `weir release` files, and try again",
                    directory.display(),
                    Bytes(free),
                    Bytes(ROOM)
                );
                return Err(FsError::new(ErrorKind::NoSpace, text));
            }
        }
        Ok(())
    }

    /// Makes what is to go on in the place of this engine short of work: the metadata is durable in
    /// the bucket, so that little of the log is replayed. `Retry` if the bucket does not take it
    /// within `limit`.
    pub fn prepare_heir(&self, limit: Duration) -> Boxed<'_, Result<()>> {
        boxed(async move {
            if self.read_only() || self.is_shut_out() {
                return Ok(());
            }
            let prepared = async {
                self.limits.store_credits().await?;
                match self.is_shared() {
                    // To the others the heir is another node: it must have nothing of before to bring.
                    true => {
                        self.data.flusher.bring_all().await?;
                        self.data.durability.flush_all().await?;
                        self.data.meta.sync().await
                    }
                    false => self.data.meta.sync().await,
                }
            };
            tokio::time::timeout(limit, prepared).await.unwrap_or_else(|_| {
                let text = format!(
                    "the bucket did not take the metadata within {} s: whoever takes the volume \
                     over needs the bucket, and programs would wait for it",
                    limit.as_secs()
                );
                Err(FsError::new(ErrorKind::Retry, text))
            })
        })
    }

    /// Whether the nodes that share the volume shut this one out.
    pub fn is_shut_out(&self) -> bool {
        self.is_shared() && self.data.context.is_fenced()
    }

    /// How this node is among those that share the volume, if some do.
    pub(super) fn nodes_status(&self) -> Option<NodesStatus> {
        let together = self.data.context.together.as_ref()?;
        Some(together.status(self.is_shut_out()))
    }

    /// Whether one that was shut out may join again as if nothing had been: nothing that was written here
    /// is missing in the bucket, and no program holds a lock that others may have by now.
    pub fn may_come_back(&self) -> bool {
        self.is_shut_out()
            && self.data.tier.unflushed().is_empty()
            && self.data.tier.in_doubt().is_empty()
            && self.held_locks().is_empty()
            && self.data.meta.leases().is_none_or(|leases| leases.deferred() == 0)
    }

    /// What a daemon that goes on in the place of this one is to be given; which inodes are open is
    /// known by the doors.
    pub fn to_inherit(&self) -> Inherited {
        let mut tier = self.data.tier.to_inherit();
        tier.locks.extend(self.data.journal.as_ref().and_then(|journal| journal.held_lock()));
        Inherited { tier, open: Vec::new() }
    }

    /// Keeps what was open with the daemon before, until it is let go: what has no name any more
    /// goes with its last close, and not in the recovery.
    pub(super) async fn inherit(&self, open: &[Ino]) -> Result<()> {
        for ino in open {
            self.files.hold(*ino)?;
            if self.read_only() {
                // What goes is the writer's affair.
                continue;
            }
            match self.data.meta.inode(*ino).await {
                Ok(inode) => self.data.nodes.name_gone(&inode),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
