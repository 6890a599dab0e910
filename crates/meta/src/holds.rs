//! Holds: which sessions have an orphan open, where several mounts change a volume together.
//!
//! Whoever purges leaves what a session that lives holds. To put a hold is to put the orphan's row anew,
//! too, as long as that says that all of the file is there: so a hold and the purge of the same inode
//! never both go through, and who has got a hold finds all bytes for as long as it lives.

use bytes::Bytes;
use weir_types::{Ino, Result};

use crate::codec::last_key;
use crate::kv::{Commit, Key, Kv};
use crate::op::{Tries, Tx, seen_inode};
use crate::orphans::WHOLE;
use crate::sessions::SessionId;
use crate::{Meta, keys};

/// Holds put, read or removed at once.
const PAGE: usize = 500;

impl Meta {
    /// Has `session` hold those of `inos` that are orphans; answers which these are. What has a name, is not
    /// there, or is being purged is none of them. One read round and one commit for each 500.
    pub async fn hold(&self, session: SessionId, inos: &[Ino]) -> Result<Vec<Ino>> {
        let mut held = Vec::with_capacity(inos.len());
        for page in inos.chunks(PAGE) {
            let mut tries = Tries::new("hold removed files");
            loop {
                tries.next().await?;
                let wanted: Vec<_> = page.iter().map(|ino| keys::orphan(*ino)).collect();
                let found = self.get(&wanted).await?;
                let mut tx = Tx::default();
                let mut orphans = Vec::with_capacity(page.len());
                for ((ino, key), found) in page.iter().zip(wanted).zip(&found) {
                    let Some(found) = found.as_ref().filter(|row| row.value == WHOLE) else {
                        continue;
                    };
                    tx.check(key.clone(), Some(found.version));
                    tx.put(key, Bytes::from_static(WHOLE));
                    tx.put(keys::hold(*ino, session.0), Bytes::from_static(&[1]));
                    orphans.push(*ino);
                }
                if orphans.is_empty() || self.apply(tx).await? {
                    held.extend(orphans);
                    break;
                }
            }
        }
        Ok(held)
    }

    /// Whether none of what was read of an inode's extents before this was taken by a purge: it has a name,
    /// or is an orphan of which all is there. Whoever takes extents of an orphan changes its row with them.
    /// One read.
    pub async fn is_whole(&self, ino: Ino) -> Result<bool> {
        if ino.is_past() {
            // Nothing of a snapshot is purged as long as it can be read.
            return Ok(true);
        }
        let found = self.get(&[keys::inode(ino), keys::orphan(ino)]).await?;
        let Some(seen) = seen_inode(ino, found[0].as_ref())? else { return Ok(false) };
        let whole = found[1].as_ref().is_some_and(|row| row.value == WHOLE);
        Ok(seen.value.nlink > 0 || whole)
    }

    /// Ends holds of `session`; of what it does not hold nothing is changed. One commit for each 500.
    pub async fn let_go(&self, session: SessionId, inos: &[Ino]) -> Result<()> {
        for page in inos.chunks(PAGE) {
            let mut tx = Tx::default();
            page.iter().for_each(|ino| tx.delete(keys::hold(*ino, session.0)));
            self.apply(tx).await?;
        }
        Ok(())
    }

    /// Who holds what from the inode `first` to `last`. One read round for each 500.
    pub async fn holds(&self, first: Ino, last: Ino) -> Result<Vec<(Ino, SessionId)>> {
        let mut holds = Vec::new();
        let mut after: Key = keys::holds_of(first);
        loop {
            let page = self.kv.scan(&[keys::HOLD], Some(&after), PAGE).await?;
            let found = page.iter().filter_map(|(key, _)| keys::parse_hold(key));
            let within = found.take_while(|(ino, _)| *ino <= last);
            let before = holds.len();
            holds.extend(within.map(|(ino, session)| (ino, SessionId(session))));
            match last_key(&page) {
                Some(key) if holds.len() - before == PAGE => after = key,
                _ => return Ok(holds),
            }
        }
    }
}

/// Ends all holds, for a mount that is the only one. One read round, and one commit for each 500.
pub async fn forget_holds(kv: &dyn Kv) -> Result<()> {
    loop {
        let page = kv.scan(&[keys::HOLD], None, PAGE).await?;
        let last = page.len() < PAGE;
        let deletes: Vec<Key> = page.into_iter().map(|(key, _)| key).collect();
        if !deletes.is_empty() {
            kv.commit(Commit { deletes, ..Commit::default() }).await?;
        }
        if last {
            return Ok(());
        }
    }
}
