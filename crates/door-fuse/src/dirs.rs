//! Listings of directories.
//!
//! Each entry goes to the kernel with the offset at which to go on after it: 1 after `.`, 2 after
//! `..`, else the engine's cookie. The engine never splits entries of one cookie, but the kernel's
//! buffers do, so all but the last of them carry the cookie before: a reader who stops among them
//! sees some twice, and never misses one.

use std::future::Future;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_engine::{DirEntry, DirEntryPlus};
use weir_fuse::{Attr, DirBuffer, Entry, open};
use weir_types::{Ino, Inode, Result};

use crate::convert::{attr, file_type};
use crate::door::{DoorState, Served};
use crate::handles::{Dir, Opened};
use crate::listings::Copy;

/// Entries asked for at most at once.
const BATCH_MAX: usize = 1024;
/// Bytes that a name is taken to have.
const NAME_BYTES: usize = 16;

/// A buffer of the kernel, and where its entries come from.
pub(crate) trait Page: Send {
    /// What it holds.
    type Entry: Send + Sync;

    /// How many more entries it may have room for.
    fn room(&self) -> usize;

    /// About `limit` entries after `cookie`; none at the end.
    fn fetch(
        &self,
        cookie: u64,
        limit: usize,
    ) -> impl Future<Output = Result<Vec<Self::Entry>>> + Send;

    /// The engine's cookie of an entry.
    fn cookie(entry: &Self::Entry) -> u64;

    /// Adds `.` or `..`; answers whether it did not fit.
    fn add_dots(&mut self, offset: u64, name: &str) -> impl Future<Output = Result<bool>> + Send;

    /// Adds an entry; answers whether it did not fit.
    fn add(&mut self, offset: u64, entry: &Self::Entry) -> bool;
}

/// Fills `page` with what comes after `offset`; answers whether that is nothing.
pub(crate) async fn fill<P: Page>(page: &mut P, offset: u64) -> Result<bool> {
    for (before, name) in [(0, "."), (1, "..")] {
        if offset <= before && page.add_dots(before + 1, name).await? {
            return Ok(false);
        }
    }
    let mut cookie = if offset <= 2 { 0 } else { offset };
    let mut filled = 0;
    loop {
        // One more than fit, so that a full buffer is seen to be full.
        let limit = (page.room() + 1).min(BATCH_MAX);
        let entries = page.fetch(cookie, limit).await?;
        for (i, entry) in entries.iter().enumerate() {
            let own = P::cookie(entry);
            let split = entries.get(i + 1).is_some_and(|next| P::cookie(next) == own);
            if page.add(if split { own - 1 } else { own }, entry) {
                return Ok(false);
            }
            filled += 1;
        }
        match entries.last() {
            Some(last) => cookie = P::cookie(last),
            None => return Ok(filled == 0 && offset > 1),
        }
    }
}

/// A buffer for names.
struct Names<'a> {
    door: &'a DoorState,
    dir: Ino,
    buffer: DirBuffer,
}

impl Page for Names<'_> {
    type Entry = DirEntry;

    fn room(&self) -> usize {
        self.buffer.holds(NAME_BYTES, false)
    }

    async fn fetch(&self, cookie: u64, limit: usize) -> Result<Vec<DirEntry>> {
        self.door.engine.readdir(self.dir, cookie, limit).await
    }

    fn cookie(entry: &DirEntry) -> u64 {
        entry.cookie
    }

    async fn add_dots(&mut self, offset: u64, name: &str) -> Result<bool> {
        let ino = dots(self.door, self.dir, name).await?;
        Ok(self.buffer.add(ino.0, offset, libc::S_IFDIR, name.as_bytes()))
    }

    fn add(&mut self, offset: u64, entry: &DirEntry) -> bool {
        self.buffer.add(entry.ino.0, offset, file_type(entry.kind), &entry.name)
    }
}

/// A buffer for names with their inodes.
struct Inodes<'a> {
    door: &'a DoorState,
    dir: Ino,
    buffer: DirBuffer,
}

impl Page for Inodes<'_> {
    type Entry = DirEntryPlus;

    fn room(&self) -> usize {
        self.buffer.holds(NAME_BYTES, true)
    }

    async fn fetch(&self, cookie: u64, limit: usize) -> Result<Vec<DirEntryPlus>> {
        self.door.engine.readdir_plus(self.dir, cookie, limit).await
    }

    fn cookie(entry: &DirEntryPlus) -> u64 {
        entry.entry.cookie
    }

    async fn add_dots(&mut self, offset: u64, name: &str) -> Result<bool> {
        let ino = dots(self.door, self.dir, name).await?;
        // The kernel takes no more than the number and the kind from these two.
        let attr = Attr { mode: libc::S_IFDIR, ..Attr::default() };
        let entry = Entry { attr, ..Entry::default() };
        Ok(self.buffer.add_with(&entry, ino.0, offset, name.as_bytes()))
    }

    fn add(&mut self, offset: u64, plus: &DirEntryPlus) -> bool {
        let entry = self.door.entry(&plus.inode, true);
        self.buffer.add_with(&entry, entry.attr.ino, offset, &plus.entry.name)
    }
}

/// What `.` or `..` leads to.
async fn dots(door: &DoorState, dir: Ino, name: &str) -> Result<Ino> {
    if name == "." { Ok(dir) } else { door.engine.parent(dir).await }
}

impl DoorState {
    /// An open directory stays, empty, when it is removed meanwhile.
    pub(crate) fn open_dir(&self, ino: Ino) -> Served<Opened> {
        self.engine.hold(ino)?;
        let copy = match self.options.knows_all() && ino != Ino::SNAPSHOTS {
            true => self.listings.open(ino),
            false => Copy::No,
        };
        // The kernel knows of its own changes, and nobody tells it of those that an import makes
        // while somebody lists.
        let reply = match copy {
            Copy::No if !self.options.knows_all() || ino == Ino::SNAPSHOTS => 0,
            Copy::No => open::KEEP_CACHE,
            Copy::Alone if self.engine.has_links() => open::CACHE_DIR,
            Copy::Alone | Copy::DoorState => open::CACHE_DIR | open::KEEP_CACHE,
        };
        Ok((self.dirs.add(Dir::new(ino, copy)), reply))
    }

    pub(crate) async fn close_dir(&self, ino: Ino, fh: u64) -> Served<()> {
        let dir = self.dirs.remove(fh)?;
        if dir.copy != Copy::No {
            self.listings.close(ino, dir.ended.load(Ordering::Relaxed));
        }
        self.engine.let_go(ino).await;
        Ok(())
    }

    /// What the kernel may remember of an inode that a name leads to, if that is still so.
    pub(crate) fn entry(&self, inode: &Inode, still: bool) -> Entry {
        let node = self.passthrough.faces().of(inode.ino).0;
        let (attr_ttl, entry_ttl) = match still {
            // Snapshots come and go by no name that the kernel changes.
            true if inode.parent == Ino::SNAPSHOTS => (self.attr_ttl(inode.ino), Duration::ZERO),
            true => (self.attr_ttl(inode.ino), self.options.entry_ttl),
            false => Default::default(),
        };
        Entry { attr: attr(inode), node, entry_ttl, attr_ttl }
    }

    /// Names after `offset`, as many as `room` bytes hold.
    pub(crate) async fn list_names(
        &self,
        dir: (Ino, u64),
        offset: u64,
        room: u32,
    ) -> Served<DirBuffer> {
        let mut page = Names { door: self, dir: dir.0, buffer: DirBuffer::new(room) };
        self.fill_open(&mut page, dir, offset).await?;
        Ok(page.buffer)
    }

    /// The same with inodes.
    pub(crate) async fn list_inodes(
        &self,
        dir: (Ino, u64),
        offset: u64,
        room: u32,
    ) -> Served<DirBuffer> {
        let mut page = Inodes { door: self, dir: dir.0, buffer: DirBuffer::new(room) };
        self.fill_open(&mut page, dir, offset).await?;
        Ok(page.buffer)
    }

    async fn fill_open<P: Page>(
        &self,
        page: &mut P,
        (ino, fh): (Ino, u64),
        offset: u64,
    ) -> Served<()> {
        let dir = self.dirs.get(fh)?;
        if offset == 0 && dir.copy != Copy::No && self.listings.begins(ino) {
            self.forget_listing(ino);
        }
        if fill(page, offset).await? {
            dir.ended.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
