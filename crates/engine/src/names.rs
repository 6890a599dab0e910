//! Names and attributes: what the metadata says, with what the tier knows better.

use std::sync::Arc;

use bytes::Bytes;
use weir_meta::{DirEntry, DirEntryPlus, NewInode, RenameMode, SetAttr, XattrMode};
use weir_tier::{Mirror, Moment};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result};

use crate::background::blocking;
use crate::engine::{Core, Engine};

impl Core {
    /// The inode as it is now, whatever is flushed meanwhile.
    pub(crate) async fn known(&self, ino: Ino) -> Result<Inode> {
        loop {
            let before = self.tier.moment();
            let inode = self.merged(self.stored(ino).await?);
            if !self.tier.settled_since(&before, ino) {
                return Ok(inode);
            }
        }
    }

    /// [`Core::merged`] of an inode that was read after `before`.
    async fn merged_since(&self, before: &Moment, inode: Inode) -> Result<Inode> {
        let ino = inode.ino;
        let merged = self.merged(inode);
        match merged.kind == FileKind::Regular && self.tier.settled_since(before, ino) {
            true => self.known(ino).await,
            false => Ok(merged),
        }
    }

    /// The inode with the size and times of writes that the metadata does not have yet. Right if no
    /// flush of the file ended since it was read: the caller holds its change lock, or see
    /// [`Core::known`].
    pub(crate) fn merged(&self, mut inode: Inode) -> Inode {
        fail::fail_point!("engine::inode-read");
        if inode.kind != FileKind::Regular {
            return inode;
        }
        if let Some(native) = &inode.native {
            inode.stored_bytes = inode.stored_bytes.max(native.end);
        }
        let Some(mirror) = self.tier.find(inode.ino) else {
            return inode;
        };
        let (_, pending) = mirror.pending();
        inode.size = mirror.size_that_counts().unwrap_or(inode.size);
        inode.mtime = pending.mtime.unwrap_or(inode.mtime);
        inode.ctime = pending.ctime.map_or(inode.ctime, |t| t.max(inode.ctime));
        inode.stored_bytes = inode.stored_bytes.max(mirror.dirty_bytes()).min(
            // A file never takes more than its size, rounded up to a page.
            weir_tier::page_ceil(inode.size),
        );
        inode
    }

    /// Takes removed files out of the tier and the metadata. What fails is an orphan still, and
    /// purged at the next mount.
    pub(crate) async fn purge(self: &Arc<Self>, inos: &[Ino]) {
        let (core, local) = (self.clone(), inos.to_vec());
        let removed = blocking(move || {
            for ino in local {
                if let Err(error) = core.tier.remove(ino) {
                    tracing::warn!(%ino, %error, "the mirror of a removed file stays");
                }
            }
            Ok(())
        });
        if let Err(error) = removed.await.and(self.seen(self.meta.purge_all(inos).await)) {
            let files = inos.len();
            tracing::warn!(files, %error, "purge of removed files failed: the next mount redoes it");
        }
        self.actions.pins.forget(inos);
        for ino in inos {
            if let Some(journal) = &self.journal {
                journal.forget(*ino, 0, u64::MAX);
            }
            self.nodes.purged(*ino);
        }
    }

    /// Refuses to remove the directory of a link.
    async fn check_no_link(&self, parent: Ino, name: &[u8]) -> Result<()> {
        if self.links.is_empty() {
            return Ok(());
        }
        match self.seen(self.meta.lookup(parent, name).await) {
            Ok(inode) if self.links.at(inode.ino).is_ok() => {
                let text = "the directory is a link: end that with `weir unlink` first";
                Err(FsError::new(ErrorKind::NotEmpty, text))
            }
            _ => Ok(()),
        }
    }

    /// A rename that puts a file in another's place is durable long before the file's bytes would
    /// be: those that are not in the bucket go there first, or a crash between the two would leave
    /// neither file's.
    async fn flush_before_replacing(
        self: &Arc<Self>,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        if mode == RenameMode::NoReplace || !self.tier.may_have_news() {
            return Ok(());
        }
        let file = async |(parent, name)| match self.seen(self.meta.lookup(parent, name).await) {
            Ok(inode) => Ok(Some(inode.ino)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let (Some(source), Some(target)) = (file(from).await?, file(to).await?) else {
            return Ok(());
        };
        let exchanged = (mode == RenameMode::Exchange).then_some(target);
        for ino in std::iter::once(source).chain(exchanged).filter(|_| source != target) {
            let news = |mirror: &Mirror| mirror.dirty_bytes() > 0 || mirror.pending().1.size;
            if self.tier.find(ino).is_some_and(|mirror| news(&mirror)) {
                self.flush_file(ino).await?;
            }
        }
        Ok(())
    }

    /// A name of `inode` went: if it was the last one, the file goes with its last open.
    pub(crate) fn name_gone(self: &Arc<Self>, inode: &Inode) {
        let gone = inode.nlink == 0;
        if gone && self.nodes.unlinked(inode.ino) {
            self.nodes.purge_soon(inode.ino);
        }
    }

    /// The last open of an unlinked file ended.
    pub(crate) fn last_close(self: &Arc<Self>, ino: Ino) {
        self.nodes.purge_soon(ino);
    }

    /// Purges the orphans that nobody has open.
    pub(crate) async fn purge_all_closed(self: &Arc<Self>) {
        let mut after = None;
        while let Ok(orphans) = self.meta.orphans(after, 1_000).await {
            let Some(last) = orphans.last() else { break };
            after = Some(*last);
            let closed: Vec<_> =
                orphans.into_iter().filter(|ino| !self.nodes.is_open(*ino)).collect();
            self.purge(&closed).await;
        }
    }
}

/// Purges what was removed, many files at once.
pub(crate) async fn purge_loop(core: Arc<Core>) {
    loop {
        let inos = core.nodes.wait_for_purges().await;
        core.purge(&inos).await;
    }
}

impl Engine {
    /// The inode that `name` in `parent` leads to.
    pub async fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Inode> {
        let core = &self.core;
        let mut before = core.tier.moment();
        let inode = match core.seen(core.meta.lookup(parent, name).await) {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if !core.look_into(parent).await? {
                    return Err(error);
                }
                before = core.tier.moment();
                core.seen(core.meta.lookup(parent, name).await)?
            }
            found => found?,
        };
        core.merged_since(&before, inode).await
    }

    /// The inode `ino`.
    pub async fn getattr(&self, ino: Ino) -> Result<Inode> {
        self.core.known(ino).await
    }

    /// Sets attributes other than the size.
    pub async fn setattr(&self, ino: Ino, set: SetAttr) -> Result<Inode> {
        let core = &self.core;
        core.check_writable()?;
        let (mtime, ctime) = (set.mtime, set.ctime);
        // No flush may come between with the times of a write before.
        let node = core.nodes.get(ino);
        let _change = node.change.lock().await;
        let inode = core.seen(core.meta.setattr(ino, set).await)?;
        if let Some(mirror) = core.tier.find(ino).filter(|_| mtime.is_some() || ctime.is_some()) {
            mirror.forget_pending_times(mtime.is_some(), ctime.is_some())?;
            if let Some(journal) = &core.journal {
                journal.note_attributes(ino, mirror.size(), mtime, ctime)?;
            }
        }
        Ok(core.merged(inode))
    }

    /// Makes a file, directory, symlink or node.
    pub async fn create(&self, parent: Ino, name: &[u8], new: NewInode) -> Result<Inode> {
        self.core.check_writable()?;
        self.core.look_into(parent).await?;
        self.core.seen(self.core.meta.create(parent, name, new).await)
    }

    /// Gives `ino` one more name.
    pub async fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Inode> {
        let core = &self.core;
        core.check_writable()?;
        core.look_into(parent).await?;
        let before = core.tier.moment();
        let inode = core.seen(core.meta.link(ino, parent, name).await)?;
        core.merged_since(&before, inode).await
    }

    /// Removes a name that is not a directory's. A file without names stays readable while open.
    pub async fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let core = &self.core;
        core.check_writable()?;
        core.look_into(parent).await?;
        core.name_gone(&core.seen(core.meta.unlink(parent, name).await)?);
        Ok(())
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        let core = &self.core;
        core.check_writable()?;
        core.check_no_link(parent, name).await?;
        core.look_into_entry(parent, name).await?;
        core.name_gone(&core.seen(core.meta.rmdir(parent, name).await)?);
        Ok(())
    }

    /// Moves a name, replacing or exchanging what stands there as `mode` says.
    pub async fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        let core = &self.core;
        core.check_writable()?;
        core.look_into(from.0).await?;
        if mode == RenameMode::Replace {
            core.check_no_link(to.0, to.1).await?;
            core.look_into_entry(to.0, to.1).await?;
        } else {
            core.look_into(to.0).await?;
        }
        core.flush_before_replacing(from, to, mode).await?;
        let renamed = core.seen(core.meta.rename(from.0, from.1, to.0, to.1, mode).await)?;
        if renamed.moved.kind == FileKind::Directory || mode == RenameMode::Exchange {
            core.directory_moved();
        }
        if let Some(replaced) = &renamed.replaced {
            core.name_gone(replaced);
        }
        Ok(())
    }

    /// Up to `limit` entries of a directory after `cookie` (0: from the start), without `.` and
    /// `..`. Entries of one cookie always come together.
    pub async fn readdir(&self, dir: Ino, cookie: u64, limit: usize) -> Result<Vec<DirEntry>> {
        if cookie == 0 {
            self.core.look_into(dir).await?;
        }
        self.core.seen(self.core.meta.readdir(dir, cookie, limit).await)
    }

    /// The same with each entry's inode.
    pub async fn readdir_plus(
        &self,
        dir: Ino,
        cookie: u64,
        limit: usize,
    ) -> Result<Vec<DirEntryPlus>> {
        let core = &self.core;
        if cookie == 0 {
            core.look_into(dir).await?;
        }
        let before = core.tier.moment();
        let mut entries = core.seen(core.meta.readdir_plus(dir, cookie, limit).await)?;
        for entry in &mut entries {
            match core.merged_since(&before, entry.inode.clone()).await {
                Ok(inode) => entry.inode = inode,
                // It was removed meanwhile, and is still one that was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    /// The directory that holds directory `dir`; the root's is itself.
    pub async fn parent(&self, dir: Ino) -> Result<Ino> {
        self.core.seen(self.core.meta.parent(dir).await)
    }

    /// Sets an extended attribute.
    pub async fn xattr_set(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.core.check_writable()?;
        self.core.seen(self.core.meta.xattr_set(ino, name, value, mode).await)?;
        Ok(())
    }

    /// The value of an extended attribute.
    pub async fn xattr_get(&self, ino: Ino, name: &[u8]) -> Result<Bytes> {
        self.core.seen(self.core.meta.xattr_get(ino, name).await)
    }

    /// The names of the extended attributes.
    pub async fn xattr_list(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.core.seen(self.core.meta.xattr_list(ino).await)
    }

    /// Removes an extended attribute.
    pub async fn xattr_remove(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.core.check_writable()?;
        self.core.seen(self.core.meta.xattr_remove(ino, name).await)?;
        Ok(())
    }
}
