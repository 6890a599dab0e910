//! Reading directories.

use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result};

use crate::codec::{Dirent, decode, last_key, merge_times};
use crate::kv::{Key, Versioned};
use crate::op::seen_inode;
use crate::{Meta, keys};

/// Entries that are read at once to complete those of one cookie. More than a handful would take
/// an attack on the hash.
const SAME_COOKIE_PAGE: usize = 64;

/// One entry of a directory. `.` and `..` are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Where to go on after this entry: a hash of the name, at least 16, below 2^63, the same
    /// after inserts, removals and remounts. Two names may share one.
    pub cookie: u64,
    /// The name.
    pub name: Vec<u8>,
    /// The inode.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
}

/// An entry with its inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntryPlus {
    /// The entry.
    pub entry: DirEntry,
    /// The inode it leads to.
    pub inode: Inode,
}

impl Meta {
    /// The entries after `after_cookie` (0: from the start), by cookie: about `limit`, a few more
    /// where names share a cookie, since those are never split between two calls (nor may a door
    /// split them). Empty: the end. One read round.
    pub async fn readdir(
        &self,
        dir: Ino,
        after_cookie: u64,
        limit: usize,
    ) -> Result<Vec<DirEntry>> {
        if dir == Ino::SNAPSHOTS {
            return self.snapshot_entries(after_cookie).await;
        }
        match self.past(dir).await? {
            Some(past) => {
                let found = past.view.readdir_here(past.ino, after_cookie, limit).await?;
                Ok(found.into_iter().map(|entry| past.told_entry(entry)).collect())
            }
            None => self.readdir_here(dir, after_cookie, limit).await,
        }
    }

    /// The snapshots, as entries of their directory.
    async fn snapshot_entries(&self, after_cookie: u64) -> Result<Vec<DirEntry>> {
        let rows = self.snapshots().await?.into_iter().filter(|(_, row)| row.state.is_some());
        let entries = rows.map(|(name, row)| DirEntry {
            cookie: keys::cookie(name.as_bytes()),
            name: name.into_bytes(),
            ino: Ino::ROOT.in_snapshot(row.number),
            kind: FileKind::Directory,
        });
        let mut entries: Vec<_> = entries.filter(|entry| entry.cookie > after_cookie).collect();
        entries.sort_unstable_by_key(|entry| entry.cookie);
        Ok(entries)
    }

    async fn readdir_here(
        &self,
        dir: Ino,
        after_cookie: u64,
        limit: usize,
    ) -> Result<Vec<DirEntry>> {
        self.has_names(dir, after_cookie).await?;
        // No key ends with a cookie, so this one lies before all entries of the next cookie.
        let after = keys::dirents_at(dir, after_cookie.saturating_add(1));
        let mut page = self.kv.scan(&keys::dirents(dir), Some(&after), limit.max(1)).await?;
        if page.len() >= limit {
            self.complete_cookie(dir, &mut page).await?;
        }
        page.iter().map(|(key, found)| self.dir_entry(key, found)).collect()
    }

    /// Adds the entries that share the last one's cookie.
    async fn complete_cookie(&self, dir: Ino, page: &mut Vec<(Key, Versioned)>) -> Result<()> {
        let Some((last, _)) = page.last() else { return Ok(()) };
        let same = keys::dirents_at(dir, self.cookie(last)?);
        loop {
            let after = last_key(page);
            let more = self.kv.scan(&same, after.as_deref(), SAME_COOKIE_PAGE).await?;
            let last = more.len() < SAME_COOKIE_PAGE;
            page.extend(more);
            if last {
                return Ok(());
            }
        }
    }

    /// The same with inodes. One read round more. Entries removed meanwhile are left out.
    pub async fn readdir_plus(
        &self,
        dir: Ino,
        after_cookie: u64,
        limit: usize,
    ) -> Result<Vec<DirEntryPlus>> {
        if dir == Ino::SNAPSHOTS {
            return self.snapshot_roots(after_cookie).await;
        }
        match self.past(dir).await? {
            Some(past) => {
                let found = past.view.readdir_plus_here(past.ino, after_cookie, limit).await?;
                Ok(found.into_iter().map(|plus| past.told_plus(plus)).collect())
            }
            None => self.readdir_plus_here(dir, after_cookie, limit).await,
        }
    }

    async fn snapshot_roots(&self, after_cookie: u64) -> Result<Vec<DirEntryPlus>> {
        let mut roots = Vec::new();
        for entry in self.snapshot_entries(after_cookie).await? {
            // It may have been deleted meanwhile.
            if let Some(inode) = self.inodes(&[entry.ino]).await?.pop().flatten() {
                roots.push(DirEntryPlus { entry, inode });
            }
        }
        Ok(roots)
    }

    async fn readdir_plus_here(
        &self,
        dir: Ino,
        mut after_cookie: u64,
        limit: usize,
    ) -> Result<Vec<DirEntryPlus>> {
        loop {
            let entries = self.readdir_here(dir, after_cookie, limit).await?;
            let Some(last) = entries.last() else {
                return Ok(Vec::new());
            };
            after_cookie = last.cookie;
            let plus = self.with_inodes(entries).await?;
            // An empty answer would mean the end: when all of a page went meanwhile, read on.
            if !plus.is_empty() {
                return Ok(plus);
            }
        }
    }

    async fn with_inodes(&self, entries: Vec<DirEntry>) -> Result<Vec<DirEntryPlus>> {
        let is_dir = |entry: &&DirEntry| entry.kind == FileKind::Directory;
        let mut wanted: Vec<_> = entries.iter().map(|entry| keys::inode(entry.ino)).collect();
        wanted.extend(entries.iter().filter(is_dir).map(|entry| keys::dir_times(entry.ino)));
        let found = self.get(&wanted).await?;
        let (inodes, times) = found.split_at(entries.len());
        let mut times = times.iter();
        let mut plus = Vec::with_capacity(entries.len());
        for (entry, found) in entries.into_iter().zip(inodes) {
            let times = is_dir(&&entry).then(|| times.next()).flatten();
            let Some(seen) = seen_inode(entry.ino, found.as_ref())? else {
                continue;
            };
            let mut inode = seen.value;
            merge_times(&mut inode, times.and_then(Option::as_ref))?;
            plus.push(DirEntryPlus { entry, inode });
        }
        Ok(plus)
    }
}

impl Meta {
    /// What an entry is ordered by.
    fn cookie(&self, key: &Key) -> Result<u64> {
        let cookie = keys::parse_dirent(&self.kv.ordered_by(key)).map(|(cookie, _)| cookie);
        cookie.ok_or_else(|| too_short(key))
    }

    fn dir_entry(&self, key: &Key, found: &Versioned) -> Result<DirEntry> {
        let (_, name) = keys::parse_dirent(key).ok_or_else(|| too_short(key))?;
        let Dirent { ino, kind } = decode(key, &found.value)?;
        Ok(DirEntry { cookie: self.cookie(key)?, name: name.to_vec(), ino, kind })
    }
}

fn too_short(key: &Key) -> FsError {
    let context = format!("metadata key {} is too short; run a check", key.escape_ascii());
    FsError::new(ErrorKind::Corrupt, context)
}
