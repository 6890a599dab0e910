//! Orphans: inodes without a name that somebody may still have open.

use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::codec::{Seen, version};
use crate::data::{BATCH_CHUNKS, Row};
use crate::op::{Tries, Tx, seen_inode};
use crate::{Meta, keys};

/// Extended attributes removed in one commit.
const BATCH_XATTRS: usize = 2_000;

impl Meta {
    /// Up to `limit` orphans after `after`, by number. One read round.
    pub async fn orphans(&self, after: Option<Ino>, limit: usize) -> Result<Vec<Ino>> {
        let after = after.map(keys::orphan);
        let page = self.kv.scan(&[keys::ORPHAN], after.as_deref(), limit).await?;
        Ok(page.iter().filter_map(|(key, _)| keys::parse_ino(key)).collect())
    }

    /// Removes an orphan for good: extents, attributes, inode. Doing it again is no error;
    /// `Invalid` if the inode has a name. Three read rounds and one commit for each 2,000 chunks.
    ///
    /// Whoever gives the inode new rows also changes the inode, which every commit here checks; so
    /// the last commit, which removes the inode, leaves nothing behind.
    pub async fn purge(&self, ino: Ino) -> Result<()> {
        let mut tries = Tries::new("purge");
        loop {
            tries.next().await?;
            let found = self.get(&[keys::inode(ino), keys::orphan(ino)]).await?;
            let Some(seen) = seen_inode(ino, found[0].as_ref())? else {
                return Ok(());
            };
            if seen.value.nlink > 0 {
                let context = format!("inode {ino} has a name: it must not be purged");
                return Err(FsError::new(ErrorKind::Invalid, context));
            }
            let rows = self.rows(ino, 0, BATCH_CHUNKS).await?;
            let attributes = self.kv.scan(&keys::xattrs(ino), None, BATCH_XATTRS).await?;
            let last = rows.len() < BATCH_CHUNKS && attributes.len() < BATCH_XATTRS;
            let mut tx = Tx::default();
            tx.check_inode(&seen);
            tx.check(keys::orphan(ino), version(found[1].as_ref()));
            attributes.into_iter().for_each(|(key, _)| tx.delete(key));
            purge_rows(seen, &rows, last, &mut tx)?;
            if self.apply(tx).await? {
                if last {
                    return Ok(());
                }
                tries = Tries::new("purge");
            }
        }
    }
}

/// Removes extents, and, if they are the last, the inode with all that belongs to it.
fn purge_rows(seen: Seen<weir_types::Inode>, rows: &[Row], last: bool, tx: &mut Tx) -> Result<()> {
    let mut inode = seen.value;
    let ino = inode.ino;
    for row in rows {
        let key = keys::extents(ino, row.chunk);
        let grown = tx.set_extents(key, Some(row.version), &row.extents, &[])?;
        inode.stored_bytes = inode.stored_bytes.saturating_add_signed(grown);
    }
    if !last {
        return tx.put_inode(&inode);
    }
    for key in [keys::inode, keys::orphan, keys::dir_times, keys::dir_count] {
        tx.delete(key(ino));
    }
    tx.add(keys::INODES.to_vec(), -1);
    Ok(())
}
