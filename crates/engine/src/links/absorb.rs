//! Files that part from their objects: those that lost a conflict, and those of a link that ends.
//!
//! Such a file keeps what it can have: what is here becomes data of the volume, what is not is
//! fetched first, as long as the object is still the one it was.

use std::sync::Arc;

use weir_meta::DirEntryPlus;
use weir_types::{
    CHUNK_BYTES, ErrorKind, FileKind, FsError, Ino, Inode, Native, Result, chunk_range,
};

use super::registry::Link;
use crate::engine::Core;
use crate::fetch::Priority;

/// Bytes of a file that are brought here, and leave as segments, before the next ones.
const STEP_BYTES: u64 = 64 << 20;
/// Entries and rows read at once.
const PAGE: usize = 1_000;

impl Core {
    /// Whether a file of a link holds, or may soon hold, what its object does not.
    pub(crate) fn has_changes(&self, inode: &Inode) -> bool {
        let changed = inode.native.as_ref().is_none_or(|native| native.changed);
        let dirty = self.tier.find(inode.ino).is_some_and(|mirror| {
            mirror.dirty_bytes() > 0 || mirror.pending().1.size || mirror.may_be_stored()
        });
        changed || dirty || self.nodes.has_writers(inode.ino)
    }

    /// Parts a file from its object: it becomes an ordinary file with all the bytes that can be
    /// had. Those that cannot be read as errors.
    pub(crate) async fn detach(self: &Arc<Self>, ino: Ino) -> Result<()> {
        let detached = self.meta.change_native(ino, |inode| {
            let native = inode.native.clone().filter(|native| !native.detached)?;
            Some(Some(Native { detached: true, ..native }))
        });
        match self.seen(detached.await) {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            Err(error) => return Err(error),
            Ok(inode) if inode.kind != FileKind::Regular || inode.native.is_none() => {
                return Ok(());
            }
            Ok(_) => {}
        }
        self.absorb(ino).await
    }

    /// The second half of [`Core::detach`], for a file that is parted from its object already.
    pub(crate) async fn detach_now(self: &Arc<Self>, ino: Ino) -> Result<()> {
        match self.stored(ino).await?.kind {
            FileKind::Regular => self.absorb(ino).await,
            _ => Ok(()),
        }
    }

    /// Makes data of the volume of what a file has of its object.
    async fn absorb(self: &Arc<Self>, ino: Ino) -> Result<()> {
        let node = self.nodes.get(ino);
        let mirror = self.open_mirror(&node).await?;
        let mut lost = false;
        let mut at = 0;
        while at < mirror.size() {
            let end = at + STEP_BYTES;
            let missing = mirror.missing(at, end.min(mirror.size()));
            if !missing.is_empty() && !lost {
                self.make_room(STEP_BYTES).await?;
                match self.fetch(&mirror, &missing, Priority::Demand).await {
                    Err(error) if is_final(&error) => lost = true,
                    fetched => fetched?,
                }
            }
            mirror.adopt(at, end)?;
            self.flush_files(&[ino]).await?;
            at = end;
        }
        if !self.nodes.is_open(ino) {
            mirror.idle();
        }
        let whole = !self.uses_object(ino, mirror.size()).await?;
        let parted = self.meta.change_native(ino, |inode| {
            let native = inode.native.clone()?;
            match whole {
                true => Some(None),
                false if lost && !native.lost => Some(Some(Native { lost: true, ..native })),
                false => None,
            }
        });
        self.seen(parted.await).map(drop)
    }

    /// Whether some bytes of the file are still in its object only.
    async fn uses_object(&self, ino: Ino, size: u64) -> Result<bool> {
        let chunks = chunk_range(0, size);
        for from in chunks.clone().step_by(PAGE) {
            let page = from..(from + PAGE as u64).min(chunks.end);
            let found = self.seen(self.meta.chunks(ino, page).await)?;
            if found.list.iter().flat_map(|(_, extents)| extents).any(|e| e.is_native()) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Ends what a link has in the tree: files that are nothing but objects go, others stay.
    pub(crate) async fn take_apart(self: &Arc<Self>, link: &Arc<Link>) -> Result<()> {
        let mut to_do = vec![link.ino()];
        let mut dirs = Vec::new();
        while let Some(dir) = to_do.pop() {
            let mut cookie = 0;
            loop {
                let page = self.seen(self.meta.readdir_plus(dir, cookie, PAGE).await)?;
                let Some(last) = page.last() else { break };
                cookie = last.entry.cookie;
                for DirEntryPlus { entry, inode } in page {
                    if inode.kind == FileKind::Directory {
                        to_do.push(inode.ino);
                        dirs.push((dir, entry.name));
                    } else {
                        self.part(link, dir, &entry.name, &inode).await?;
                    }
                }
            }
        }
        for (dir, name) in dirs.into_iter().rev() {
            match self.seen(self.meta.rmdir(dir, &name).await) {
                Ok(gone) => {
                    self.name_gone(&gone);
                    self.links.name_changed(dir, &name);
                }
                Err(error) if matches!(error.kind(), ErrorKind::NotEmpty | ErrorKind::NotFound) => {
                }
                Err(error) => return Err(error),
            }
        }
        self.detach_the_rest(link).await
    }

    async fn part(
        self: &Arc<Self>,
        link: &Link,
        dir: Ino,
        name: &[u8],
        inode: &Inode,
    ) -> Result<()> {
        let native = inode.native.as_ref().filter(|n| n.link == link.id);
        let Some(native) = native else { return Ok(()) };
        if native.detached || self.has_changes(inode) {
            return self.detach(inode.ino).await;
        }
        let object = (link.id, native.key.as_bytes());
        if let Some(gone) =
            self.seen(self.meta.remove_object(dir, name, inode.ino, object).await)?
        {
            self.name_gone(&gone);
            self.links.name_changed(dir, name);
        }
        Ok(())
    }

    /// Files that were moved out of the link's directory stay as files of the volume.
    async fn detach_the_rest(self: &Arc<Self>, link: &Arc<Link>) -> Result<()> {
        let mut after: Option<Vec<u8>> = None;
        'page: loop {
            let rows = self.meta.objects(link.id, after.as_deref(), None, PAGE).await;
            let rows = self.seen(rows)?;
            for row in &rows {
                let Some(ino) = row.object.ino else { continue };
                after = Some(row.key.clone());
                if row.key.ends_with(b"/") {
                    if self.directory_stays(link, ino, &row.key).await? {
                        // Its rows are next.
                        continue 'page;
                    }
                } else {
                    self.detach(ino).await?;
                }
            }
            match rows.last() {
                Some(last) if rows.len() == PAGE => after = Some(last.key.clone()),
                _ => return Ok(()),
            }
        }
    }

    /// A directory that was moved out of the link's stays, with all its names. Answers whether
    /// some are new.
    async fn directory_stays(
        self: &Arc<Self>,
        link: &Arc<Link>,
        ino: Ino,
        key: &[u8],
    ) -> Result<bool> {
        let native = match self.stored(ino).await {
            Ok(inode) if inode.nlink > 0 => inode.native.filter(|native| native.link == link.id),
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => None,
        };
        let Some(native) = native else { return Ok(false) };
        if native.unlisted {
            self.list_names(link, ino, &String::from_utf8_lossy(key)).await?;
        }
        self.seen(self.meta.change_native(ino, |_| Some(None)).await)?;
        Ok(native.unlisted)
    }
}

/// Whether asking again would not help: the object is another one, or gone.
fn is_final(error: &FsError) -> bool {
    matches!(error.kind(), ErrorKind::Conflict | ErrorKind::NotFound | ErrorKind::Corrupt)
}

const _: () = assert!(STEP_BYTES.is_multiple_of(CHUNK_BYTES));
