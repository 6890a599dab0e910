//! Orphans: inodes without a name that somebody may still have open.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use weir_types::{CHUNK_BYTES, ErrorKind, FsError, Ino, Inode, Result};

use crate::codec::{Seen, version};
use crate::data::{BATCH_CHUNKS, BY_KEY_MAX, Row, cut_to_commit, decode_row};
use crate::op::{COMMIT_BYTES, Tries, Tx, seen_inode};
use crate::sessions::SessionId;
use crate::{Meta, extents, keys};

/// Inodes removed in one commit.
const BATCH_INODES: usize = 128;

/// Extended attributes removed in one commit.
const BATCH_XATTRS: usize = 2_000;

/// The row of an orphan of which all is there.
pub(crate) const WHOLE: &[u8] = &[1];
/// That of one of which some bytes are gone already.
const GOING: &[u8] = &[2];

impl Meta {
    /// Up to `limit` orphans after `after`, by number. One read round.
    pub async fn orphans(&self, after: Option<Ino>, limit: usize) -> Result<Vec<Ino>> {
        let after = after.map(keys::orphan);
        let page = self.kv.scan(&[keys::ORPHAN], after.as_deref(), limit).await?;
        Ok(page.iter().filter_map(|(key, _)| keys::parse_ino(key)).collect())
    }

    /// [`Meta::purge_all`] of one.
    pub async fn purge(&self, ino: Ino) -> Result<()> {
        self.purge_all(&[ino]).await
    }

    /// Removes orphans for good: extents, attributes, inodes. Doing it again is no error; `Invalid`
    /// if an inode has a name, and then some of the others may be left. One read round, up to two
    /// for each inode that has bytes or attributes, and one commit for each 128 inodes or about
    /// 2,000 chunks.
    ///
    /// Whoever gives an inode new rows also changes the inode, which every commit here checks; so
    /// the commit that removes the inode leaves nothing behind.
    pub async fn purge_all(&self, inos: &[Ino]) -> Result<()> {
        self.purge_those(inos, None).await
    }

    /// The same of those that none of the sessions in `live` holds, and with the holds of others. One
    /// read round more for each 128.
    ///
    /// Whoever puts a hold also puts the orphan's row anew. That row is read here before the holds
    /// are, and each commit checks it: a hold is seen, or keeps the commit from being made.
    pub async fn purge_unheld(&self, inos: &[Ino], live: &BTreeSet<SessionId>) -> Result<()> {
        self.purge_those(inos, Some(live)).await
    }

    async fn purge_those(&self, inos: &[Ino], live: Option<&BTreeSet<SessionId>>) -> Result<()> {
        let mut left: BTreeSet<Ino> = inos.iter().copied().collect();
        let mut tries = Tries::new("purge");
        while !left.is_empty() {
            tries.next().await?;
            let page: Vec<_> = left.iter().copied().take(BATCH_INODES).collect();
            let mut tx = Tx::default();
            let done = self.purge_page(&page, live, &mut tx).await?;
            if self.apply(tx).await? {
                done.iter().for_each(|ino| _ = left.remove(ino));
                tries = Tries::new("purge");
            }
        }
        Ok(())
    }

    /// Puts the removal of as many inodes into the commit as fit, the last one maybe in part.
    /// Answers those of which nothing is left then, or that are held.
    async fn purge_page(
        &self,
        page: &[Ino],
        live: Option<&BTreeSet<SessionId>>,
        tx: &mut Tx,
    ) -> Result<Vec<Ino>> {
        let keys = |ino: &Ino| [keys::inode(*ino), keys::orphan(*ino)];
        let found = self.get(&page.iter().flat_map(keys).collect::<Vec<_>>()).await?;
        let mut holds: BTreeMap<Ino, Vec<SessionId>> = BTreeMap::new();
        if let (Some(_), Some(first), Some(last)) = (live, page.first(), page.last()) {
            for (ino, session) in self.holds(*first, *last).await? {
                holds.entry(ino).or_default().push(session);
            }
        }
        let mut done = Vec::with_capacity(page.len());
        let (mut weight, mut bytes) = (0, 0);
        for (ino, found) in page.iter().zip(found.chunks(2)) {
            let holders = holds.remove(ino).unwrap_or_default();
            let is_held = holders.iter().any(|one| live.is_some_and(|live| live.contains(one)));
            let Some(seen) = seen_inode(*ino, found[0].as_ref())?.filter(|_| !is_held) else {
                done.push(*ino);
                continue;
            };
            if seen.value.nlink > 0 && live.is_some() {
                // It was an orphan when somebody looked.
                done.push(*ino);
                continue;
            }
            if seen.value.nlink > 0 {
                let context = format!("inode {ino} has a name: it must not be purged");
                return Err(FsError::new(ErrorKind::Invalid, context));
            }
            if weight >= BATCH_CHUNKS || bytes >= COMMIT_BYTES {
                break;
            }
            let (rows, more) = self.rows_of(&seen.value).await?;
            let attributes = match self.fresh.is_bare(*ino) {
                true => Vec::new(),
                false => self.kv.scan(&keys::xattrs(*ino), None, BATCH_XATTRS).await?,
            };
            weight += rows.len() + attributes.len();
            bytes += rows.iter().map(Row::commit_bytes).sum::<usize>();
            let last = !more && attributes.len() < BATCH_XATTRS;
            tx.check_inode(&seen);
            tx.check(keys::orphan(*ino), version(found[1].as_ref()));
            attributes.into_iter().for_each(|(key, _)| tx.delete(key));
            holders.into_iter().for_each(|session| tx.delete(keys::hold(*ino, session.0)));
            purge_rows(seen, &rows, last, tx)?;
            done.extend(last.then_some(*ino));
        }
        Ok(done)
    }

    /// The first rows of a file. It knows how many bytes all of them cover, which tells when those
    /// of a small file, asked for by key, are all. Answers as well whether there may be more.
    async fn rows_of(&self, inode: &Inode) -> Result<(Vec<Row>, bool)> {
        let chunks = inode.size.div_ceil(CHUNK_BYTES);
        if inode.stored_bytes == 0 && inode.native.is_none() {
            return Ok((Vec::new(), false));
        }
        if chunks <= BY_KEY_MAX && inode.native.is_none() {
            let wanted: Vec<_> = (0..chunks).map(|at| keys::extents(inode.ino, at)).collect();
            let found = wanted.iter().zip(self.get(&wanted).await?);
            let rows = found.filter_map(|(key, found)| Some(decode_row(key, &found?)));
            let rows = rows.collect::<Result<Vec<_>>>()?;
            let covered: i64 = rows.iter().map(|row| extents::covered(&row.extents)).sum();
            if covered.cast_unsigned() == inode.stored_bytes {
                return Ok((rows, false));
            }
        }
        let mut rows = self.rows(inode.ino, 0, BATCH_CHUNKS).await?;
        let more = cut_to_commit(&mut rows, BATCH_CHUNKS);
        Ok((rows, more))
    }
}

/// Removes extents, and, if they are the last, the inode with all that belongs to it.
fn purge_rows(seen: Seen<Inode>, rows: &[Row], last: bool, tx: &mut Tx) -> Result<()> {
    let mut inode = seen.value;
    let ino = inode.ino;
    for row in rows {
        let key = keys::extents(ino, row.chunk);
        if row.extents.is_empty() {
            tx.check(key.clone(), row.version);
            tx.delete(key);
            continue;
        }
        let grown = tx.set_extents(key, row.version, &row.extents, &[], false)?;
        inode.stored_bytes = inode.stored_bytes.saturating_add_signed(grown);
    }
    if !last {
        tx.put(keys::orphan(ino), Bytes::from_static(GOING));
        return tx.put_inode(&inode);
    }
    tx.delete_inode(ino);
    let of_any = [keys::orphan, keys::pin, keys::node_locks];
    for key in of_any.into_iter().chain([keys::dir_times, keys::dir_count]) {
        tx.delete(key(ino));
    }
    tx.add(keys::INODES.to_vec(), -1);
    Ok(())
}
