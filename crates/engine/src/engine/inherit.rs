//! Going on in the place of another daemon, which ended as one that is killed does: what such a one
//! leaves on disk is all, but for who has what open.

use std::time::Duration;

use weir_types::{ErrorKind, FsError, Ino, Result};

use super::Engine;
use crate::volume::boxed::{Boxed, boxed};
use crate::volume::options::Inherited;

impl Engine {
    /// Makes what is to go on in the place of this engine short of work: the metadata is durable in
    /// the bucket, so that little of the log is replayed. `Retry` if the bucket does not take it
    /// within `limit`.
    pub fn prepare_heir(&self, limit: Duration) -> Boxed<'_, Result<()>> {
        boxed(async move {
            if self.read_only() {
                return Ok(());
            }
            let prepared = async {
                self.limits.store_credits().await?;
                self.data.meta.sync().await
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
            match self.data.meta.inode(*ino).await {
                Ok(inode) => self.data.nodes.name_gone(&inode),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}
