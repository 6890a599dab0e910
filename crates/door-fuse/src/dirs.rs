//! Listings of directories.
//!
//! Each entry goes to the kernel with the offset at which to go on after it: 1 after `.`, 2 after
//! `..`, else the engine's cookie. The engine never splits entries of one cookie, but the kernel's
//! buffers do, so all but the last of them carry the cookie before: a reader who stops among them
//! sees some twice, and never misses one.

use std::ffi::OsStr;
use std::future::Future;
use std::os::unix::ffi::OsStrExt;
use std::sync::atomic::Ordering;
use std::time::Duration;

use fuser::{FileHandle, FileType, FopenFlags, Generation, ReplyDirectory, ReplyDirectoryPlus};
use weir_engine::{DirEntry, DirEntryPlus};
use weir_types::{Ino, Result};

use crate::convert::{attr, file_type, no_attr, node};
use crate::door::{DoorState, Served};
use crate::handles::{Dir, Opened};
use crate::listings::Copy;

/// Entries asked for at most at once.
const BATCH_MAX: usize = 1024;

/// A buffer of the kernel, and where its entries come from.
pub(crate) trait Page: Send {
    /// What it holds.
    type Entry: Send + Sync;

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
pub(crate) async fn fill<P: Page>(page: &mut P, dir: &Dir, offset: u64) -> Result<bool> {
    for (before, name) in [(0, "."), (1, "..")] {
        if offset <= before && page.add_dots(before + 1, name).await? {
            return Ok(false);
        }
    }
    let mut cookie = if offset <= 2 { 0 } else { offset };
    let mut filled = 0;
    loop {
        let limit = dir.batch.load(Ordering::Relaxed);
        let entries = page.fetch(cookie, limit).await?;
        for (i, entry) in entries.iter().enumerate() {
            let own = P::cookie(entry);
            let split = entries.get(i + 1).is_some_and(|next| P::cookie(next) == own);
            if page.add(if split { own - 1 } else { own }, entry) {
                // One more than fit, so that the next call too sees its buffer full.
                dir.batch.store((filled + 1).min(BATCH_MAX), Ordering::Relaxed);
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
    reply: ReplyDirectory,
}

impl Page for Names<'_> {
    type Entry = DirEntry;

    async fn fetch(&self, cookie: u64, limit: usize) -> Result<Vec<DirEntry>> {
        self.door.engine.readdir(self.dir, cookie, limit).await
    }

    fn cookie(entry: &DirEntry) -> u64 {
        entry.cookie
    }

    async fn add_dots(&mut self, offset: u64, name: &str) -> Result<bool> {
        let ino = match name {
            "." => self.dir,
            _ => self.door.engine.parent(self.dir).await?,
        };
        Ok(self.reply.add(node(ino), offset, FileType::Directory, name))
    }

    fn add(&mut self, offset: u64, entry: &DirEntry) -> bool {
        let name = OsStr::from_bytes(&entry.name);
        self.reply.add(node(entry.ino), offset, file_type(entry.kind), name)
    }
}

/// A buffer for names with their inodes.
struct Inodes<'a> {
    door: &'a DoorState,
    dir: Ino,
    /// fuser takes one lifetime for the name and the attributes.
    ttl: Duration,
    reply: ReplyDirectoryPlus,
}

impl Page for Inodes<'_> {
    type Entry = DirEntryPlus;

    async fn fetch(&self, cookie: u64, limit: usize) -> Result<Vec<DirEntryPlus>> {
        self.door.engine.readdir_plus(self.dir, cookie, limit).await
    }

    fn cookie(entry: &DirEntryPlus) -> u64 {
        entry.entry.cookie
    }

    async fn add_dots(&mut self, offset: u64, name: &str) -> Result<bool> {
        let ino = match name {
            "." => self.dir,
            _ => self.door.engine.parent(self.dir).await?,
        };
        // The kernel takes no more than the number and the kind from these two.
        let attr = fuser::FileAttr { ino: node(ino), kind: FileType::Directory, ..no_attr() };
        Ok(self.reply.add(node(ino), offset, name, &Duration::ZERO, &attr, Generation(0)))
    }

    fn add(&mut self, offset: u64, plus: &DirEntryPlus) -> bool {
        let name = OsStr::from_bytes(&plus.entry.name);
        let attr = attr(&plus.inode);
        let ttl = self.ttl.min(self.door.attr_ttl(plus.inode.ino));
        self.reply.add(attr.ino, offset, name, &ttl, &attr, Generation(0))
    }
}

impl DoorState {
    /// An open directory stays, empty, when it is removed meanwhile.
    pub(crate) fn open_dir(&self, ino: Ino) -> Served<Opened> {
        self.engine.hold(ino)?;
        let copy = match self.options.exclusive {
            true => self.listings.open(ino),
            false => Copy::No,
        };
        // The kernel knows of its own changes, and nobody tells it of those that an import makes
        // while somebody lists.
        let reply = match copy {
            Copy::No if !self.options.exclusive => FopenFlags::empty(),
            Copy::No => FopenFlags::FOPEN_KEEP_CACHE,
            Copy::Alone if self.engine.has_links() => FopenFlags::FOPEN_CACHE_DIR,
            Copy::Alone | Copy::DoorState => {
                FopenFlags::FOPEN_CACHE_DIR | FopenFlags::FOPEN_KEEP_CACHE
            }
        };
        Ok((self.dirs.add(Dir::new(copy)), reply))
    }

    pub(crate) async fn close_dir(&self, ino: Ino, fh: FileHandle) -> Served<()> {
        let dir = self.dirs.remove(fh)?;
        if dir.copy != Copy::No {
            self.listings.close(ino, dir.ended.load(Ordering::Relaxed));
        }
        self.engine.let_go(ino).await;
        Ok(())
    }

    /// Answers itself, because fuser's buffer and its reply are one.
    pub(crate) async fn list_names(
        &self,
        ino: Ino,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectory,
    ) {
        let mut page = Names { door: self, dir: ino, reply };
        match self.fill_open(&mut page, (ino, fh), offset).await {
            Ok(()) => page.reply.ok(),
            Err(refusal) => page.reply.error(self.errors.errno("readdir", ino, &refusal)),
        }
    }

    /// The same with inodes.
    pub(crate) async fn list_inodes(
        &self,
        ino: Ino,
        fh: FileHandle,
        offset: u64,
        reply: ReplyDirectoryPlus,
    ) {
        let ttl = self.options.attr_ttl.min(self.options.entry_ttl);
        let mut page = Inodes { door: self, dir: ino, ttl, reply };
        match self.fill_open(&mut page, (ino, fh), offset).await {
            Ok(()) => page.reply.ok(),
            Err(refusal) => page.reply.error(self.errors.errno("readdirplus", ino, &refusal)),
        }
    }

    async fn fill_open<P: Page>(
        &self,
        page: &mut P,
        (ino, fh): (Ino, FileHandle),
        offset: u64,
    ) -> Served<()> {
        let dir = self.dirs.get(fh)?;
        if offset == 0 && dir.copy != Copy::No && self.listings.begins(ino) {
            self.forget_listing(ino);
        }
        if fill(page, &dir, offset).await? {
            dir.ended.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests;
