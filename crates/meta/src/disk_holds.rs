//! Which node has a disk, where several share the volume.
//!
//! A disk has one writer. Its hold is a row that names a session, and is taken from one only in a commit that needs
//! that session's row to be gone; and without that row nothing that the session believes is committed any more. So no
//! clock, pause or partition makes two writers. Who takes a disk from a session that ended raises the generation of its
//! bytes: what that one had written and not flushed is set aside then, should its tier come back.

use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::codec::{Seen, decode_seen, encode};
use crate::disks::DiskRow;
use crate::op::{Tries, Tx, no_inode, seen_inode};
use crate::session::SessionId;
use crate::{Meta, keys};

/// Who has a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskHold {
    /// The session.
    pub session: SessionId,
    /// Its machine.
    pub node: String,
}

impl Meta {
    /// Has this session have a disk, unless it is a snapshot, which all may. `WouldBlock` while another has it that
    /// is there. With `own` are sessions that had this one's tier before: from these it is taken as it is. Three
    /// reads, and a commit if it has it not yet.
    pub async fn hold_disk(
        &self,
        name: &str,
        hold: &DiskHold,
        own: &[SessionId],
    ) -> Result<DiskRow> {
        let mut tries = Tries::new("take a disk");
        loop {
            tries.next().await?;
            let row = self.seen_disk(name).await?;
            if row.value.read_only {
                return Ok(row.value);
            }
            let seen = self.disk_hold(row.value.ino).await?;
            let mut tx = Tx::default();
            tx.check(keys::disk(name), Some(row.version));
            match &seen {
                Some(seen) if seen.value.session == hold.session => return Ok(row.value),
                Some(seen) if self.is_there(seen.value.session).await? => {
                    let text = format!(
                        "disk `{name}` is in use at node {}: detach it there first",
                        seen.value.node
                    );
                    return Err(FsError::new(ErrorKind::WouldBlock, text));
                }
                Some(seen) => self.take_disk(&mut tx, row.value.ino, seen, own).await?,
                None => tx.check(keys::disk_hold(row.value.ino), None),
            }
            tx.put(keys::disk_hold(row.value.ino), encode(hold)?);
            if self.apply(tx).await? {
                return Ok(row.value);
            }
        }
    }

    /// Takes all disks over that sessions had which had this one's tier before, so that what they left there can
    /// be flushed. One read, two more and a commit for each.
    pub async fn take_own_disks(&self, hold: &DiskHold, own: &[SessionId]) -> Result<Vec<Ino>> {
        let mut taken = Vec::new();
        for (name, row) in self.disks().await? {
            let had = |seen: Seen<DiskHold>| own.contains(&seen.value.session);
            if !self.disk_hold(row.ino).await?.is_some_and(had) {
                continue;
            }
            match self.hold_disk(&name, hold, own).await {
                Ok(row) => taken.push(row.ino),
                // Another node was faster, or it was removed.
                Err(error)
                    if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::NotFound) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(taken)
    }

    /// Gives a disk up that this session has. One read and one commit.
    pub async fn release_disk(&self, ino: Ino, session: SessionId) -> Result<()> {
        let Some(seen) = self.disk_hold(ino).await? else { return Ok(()) };
        if seen.value.session != session {
            return Ok(());
        }
        let mut tx = Tx::default();
        tx.check(keys::disk_hold(ino), Some(seen.version));
        tx.delete(keys::disk_hold(ino));
        self.apply(tx).await.map(drop)
    }

    /// Who has a disk; it may have ended. One read.
    pub async fn disk_holder(&self, ino: Ino) -> Result<Option<DiskHold>> {
        Ok(self.disk_hold(ino).await?.map(|seen| seen.value))
    }

    async fn disk_hold(&self, ino: Ino) -> Result<Option<Seen<DiskHold>>> {
        let key = keys::disk_hold(ino);
        let found = self.kv().get_many(std::slice::from_ref(&key)).await?;
        decode_seen(&key, found[0].as_ref())
    }

    async fn is_there(&self, session: SessionId) -> Result<bool> {
        Ok(self.are_there(&[session]).await?.contains(&true))
    }

    /// What has to hold, and to be changed, for a disk to be taken from a session that is not there.
    async fn take_disk(
        &self,
        tx: &mut Tx,
        ino: Ino,
        seen: &Seen<DiskHold>,
        own: &[SessionId],
    ) -> Result<()> {
        tx.check(keys::disk_hold(ino), Some(seen.version));
        tx.check(keys::presence(seen.value.session.0), None);
        if own.contains(&seen.value.session) {
            return Ok(());
        }
        let found = self.get(&[keys::inode(ino)]).await?;
        let mut inode = seen_inode(ino, found[0].as_ref())?.ok_or_else(|| no_inode(ino))?;
        inode.value.data.generation += 1;
        inode.value.data.dropped = None;
        tx.check_inode(&inode);
        tx.put_inode(&inode.value)
    }
}
