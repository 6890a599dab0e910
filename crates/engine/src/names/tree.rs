//! Names and attributes: what the metadata says, with what the tier knows better.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use bytes::Bytes;
use weir_meta::{DirEntry, DirEntryPlus, Meta, NewInode, RenameMode, SetAttr, XattrMode};
use weir_tier::{Mirror, Tier};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result};

use crate::data::admission::Admission;
use crate::data::flush::Flusher;
use crate::data::journal::Journal;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::quotas::Quotas;
use crate::data::space::Space;
use crate::data::write::Writer;
use crate::names::atimes::Atimes;
use crate::names::orphans::Orphans;
use crate::names::past;
use crate::names::promises::{Changing, Promises};
use crate::names::waits::Waits;
use crate::volume::context::{Context, blocking};

/// What links say of names. Below them, because a lookup needs it.
#[async_trait]
pub(crate) trait LinkedNames: Send + Sync {
    /// Whether any link exports without being asked.
    fn exports(&self) -> bool;

    /// Whether there are any. Cheap.
    fn any(&self) -> bool;

    /// Whether this directory is a link.
    fn is_link(&self, dir: Ino) -> bool;

    /// Whether names of some directories may not have been imported. Cheap.
    fn has_lazy(&self) -> bool;

    /// Imports the names of `dir`, if it is a directory of a lazy link into which nobody looked
    /// yet. Answers whether it is one of a lazy link: then a name that was missed before may be
    /// there now. One read; one LIST for each 1,000 names.
    async fn look_into(&self, dir: Ino) -> Result<bool>;

    /// The same for the directory of this name, if there is one.
    async fn look_into_entry(&self, dir: Ino, name: &[u8]) -> Result<()>;
}

/// The tree of names, with the attributes of what they lead to.
pub(crate) struct Names {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) space: Arc<Space>,
    pub(crate) admission: Arc<Admission>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) quotas: Arc<Quotas>,
    pub(crate) writer: Arc<Writer>,
    pub(crate) linked: Arc<dyn LinkedNames>,
    pub(crate) atimes: Arc<Atimes>,
    pub(crate) orphans: Arc<Orphans>,
    pub(crate) waits: Arc<Waits>,
    pub(crate) promises: Arc<Promises>,
}

impl Names {
    /// Takes removed files out of the tier and the metadata. What fails is an orphan still, and
    /// purged at the next mount. Where nodes share the volume others may have them open: there one of
    /// the nodes takes them out of the metadata for all ([`Orphans`]).
    pub(crate) async fn purge(self: &Arc<Self>, inos: &[Ino]) {
        let (names, local) = (self.clone(), inos.to_vec());
        let removed = blocking(move || {
            for ino in local {
                if let Err(error) = names.tier.remove(ino) {
                    tracing::warn!(%ino, %error, "the mirror of a removed file stays");
                }
            }
            Ok(())
        });
        let purged = match self.context.is_shared() {
            true => Ok(()),
            false => self.meta.purge_all(inos).await,
        };
        if let Err(error) = removed.await.and(purged) {
            let files = inos.len();
            tracing::warn!(files, %error, "purge of removed files failed: the next mount redoes it");
        }
        self.space.pins.forget(inos);
        for ino in inos {
            if let Some(journal) = &self.journal {
                journal.forget(*ino, 0, u64::MAX);
            }
            self.nodes.purged(*ino);
        }
    }

    /// Refuses to remove the directory of a link.
    async fn check_no_link(&self, parent: Ino, name: &[u8]) -> Result<()> {
        if !self.linked.any() {
            return Ok(());
        }
        match self.meta.lookup(parent, name).await {
            Ok(inode) if self.linked.is_link(inode.ino) => {
                let text = "the directory is a link: end that with `weir unlink` first";
                Err(FsError::new(ErrorKind::NotEmpty, text))
            }
            _ => Ok(()),
        }
    }

    /// Has the names of a lazy link's directory imported before anybody misses one.
    async fn look_into(&self, dir: Ino) -> Result<bool> {
        Ok(!dir.is_past() && self.linked.has_lazy() && self.linked.look_into(dir).await?)
    }

    async fn look_into_entry(&self, dir: Ino, name: &[u8]) -> Result<()> {
        match self.linked.has_lazy() {
            true => self.linked.look_into_entry(dir, name).await,
            false => Ok(()),
        }
    }

    /// A rename that puts a file in another's place is durable long before the file's bytes would
    /// be: those that are not in the bucket go there first, or a crash between the two would leave
    /// neither file's.
    async fn flush_before_replacing(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        if mode == RenameMode::NoReplace || !self.tier.may_have_unflushed() {
            return Ok(());
        }
        let file = async |(parent, name)| match self.meta.lookup(parent, name).await {
            Ok(inode) => Ok(Some(inode.ino)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        };
        let (Some(source), Some(target)) = (file(from).await?, file(to).await?) else {
            return Ok(());
        };
        let exchanged = (mode == RenameMode::Exchange).then_some(target);
        for ino in std::iter::once(source).chain(exchanged).filter(|_| source != target) {
            let unflushed = |mirror: &Mirror| mirror.dirty_bytes() > 0 || mirror.pending().1.size;
            if self.tier.find(ino).is_some_and(|mirror| unflushed(&mirror)) {
                self.flusher.flush_file(ino).await?;
            }
        }
        Ok(())
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
pub(crate) async fn purge_loop(names: Arc<Names>) {
    loop {
        let inos = names.nodes.wait_for_purges().await;
        names.purge(&inos).await;
    }
}

impl Names {
    /// The inode that `name` in `parent` leads to.
    pub(crate) async fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Inode> {
        let mut before = self.tier.moment();
        let inode = match self.meta.lookup(parent, name).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                if past::is_snapshots(&self.meta, parent, name) {
                    return self.meta.snapshots_dir().await;
                }
                if !self.look_into(parent).await? {
                    return Err(error);
                }
                before = self.tier.moment();
                self.meta.lookup(parent, name).await?
            }
            found => found?,
        };
        Ok(self.atimes.merged(self.mirrors.merged_since(&before, inode).await?))
    }

    /// The inode `ino`.
    pub(crate) async fn getattr(&self, ino: Ino) -> Result<Inode> {
        Ok(self.atimes.merged(self.mirrors.known(ino).await?))
    }

    /// Notes that `ino` is read now; answers whether the time of that changes by it.
    pub(crate) async fn note_read(&self, ino: Ino) -> Result<bool> {
        self.context.check_writable()?;
        if ino.is_past() {
            return Ok(false);
        }
        Ok(self.atimes.note(&self.mirrors.known(ino).await?))
    }

    /// Sets the size.
    pub(crate) async fn truncate(&self, ino: Ino, size: u64) -> Result<Inode> {
        past::check_present(&[ino])?;
        self.context.check_writable()?;
        let _changing = self.promises.changing(ino).await;
        Ok(self.atimes.merged(self.writer.truncate(ino, size).await?))
    }

    /// Sets attributes other than the size.
    pub(crate) async fn setattr(&self, ino: Ino, set: SetAttr) -> Result<Inode> {
        self.context.check_writable()?;
        past::check_present(&[ino])?;
        let (mtime, ctime) = (set.mtime, set.ctime);
        let _given = self.check_given(ino, &set).await?;
        let _changing = self.promises.changing(ino).await;
        // No flush may come between with the times of a write before.
        let node = self.nodes.get(ino);
        let _change = node.change.lock().await;
        let _setting = match set.atime {
            Some(_) => Some(self.atimes.setting(ino).await),
            None => None,
        };
        let inode = self.meta.setattr(ino, set).await?;
        if let Some(mirror) = self.tier.find(ino).filter(|_| mtime.is_some() || ctime.is_some()) {
            mirror.forget_pending_times(mtime.is_some(), ctime.is_some())?;
            if let Some(journal) = &self.journal {
                journal.note_attributes(ino, mirror.size(), mtime, ctime)?;
            }
        }
        Ok(self.atimes.merged(self.mirrors.merged(inode)))
    }

    /// Makes a file, directory, symlink or node.
    pub(crate) async fn create(&self, parent: Ino, name: &[u8], new: NewInode) -> Result<Inode> {
        self.context.check_writable()?;
        past::check_name(&self.meta, parent, name)?;
        self.look_into(parent).await?;
        let _more = self.check_more(parent, &new).await?;
        self.meta.create(parent, name, new).await
    }

    /// Gives `ino` one more name.
    pub(crate) async fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Inode> {
        self.context.check_writable()?;
        past::check_present(&[ino])?;
        past::check_name(&self.meta, parent, name)?;
        self.look_into(parent).await?;
        let _changing = self.promises.changing(ino).await;
        let before = self.tier.moment();
        let inode = self.meta.link(ino, parent, name).await?;
        Ok(self.atimes.merged(self.mirrors.merged_since(&before, inode).await?))
    }

    /// Removes a name that is not a directory's, and answers what had it. A file without names stays
    /// readable while open.
    pub(crate) async fn unlink(&self, parent: Ino, name: &[u8]) -> Result<Ino> {
        self.context.check_writable()?;
        past::check_present(&[parent])?;
        self.look_into(parent).await?;
        let _changing = self.changing_named(parent, name).await?;
        let gone = self.meta.unlink(parent, name).await?;
        self.promises.end_soon(gone.ino);
        self.nodes.name_gone(&gone);
        Ok(gone.ino)
    }

    /// Removes an empty directory.
    pub(crate) async fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.context.check_writable()?;
        past::check_present(&[parent])?;
        self.check_no_link(parent, name).await?;
        self.look_into_entry(parent, name).await?;
        self.nodes.name_gone(&self.meta.rmdir(parent, name).await?);
        Ok(())
    }

    /// Moves a name, replacing or exchanging what stands there as `mode` says.
    pub(crate) async fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        self.context.check_writable()?;
        past::check_present(&[from.0])?;
        past::check_name(&self.meta, to.0, to.1)?;
        self.look_into(from.0).await?;
        if mode == RenameMode::Replace {
            self.check_no_link(to.0, to.1).await?;
            self.look_into_entry(to.0, to.1).await?;
        } else {
            self.look_into(to.0).await?;
        }
        let _changing = self.changing_named(from.0, from.1).await?;
        let _replacing = self.changing_named(to.0, to.1).await?;
        self.flush_before_replacing(from, to, mode).await?;
        let _moved = self.check_moved(from, to.0).await?;
        let _back = match mode {
            RenameMode::Exchange => Some(self.check_moved(to, from.0).await?),
            _ => None,
        };
        let renamed = self.meta.rename(from.0, from.1, to.0, to.1, mode).await?;
        if renamed.moved.kind == FileKind::Directory || mode == RenameMode::Exchange {
            self.admission.directory_moved();
        }
        self.promises.end_soon(renamed.moved.ino);
        if let Some(replaced) = &renamed.replaced {
            self.promises.end_soon(replaced.ino);
            self.nodes.name_gone(replaced);
        }
        Ok(())
    }

    /// Before a name goes: waits until nobody has a promise of what it leads to. Who got one meanwhile is told
    /// to give it back when the name is gone.
    async fn changing_named(&self, parent: Ino, name: &[u8]) -> Result<Option<Changing>> {
        if !self.promises.any() {
            return Ok(None);
        }
        match self.meta.lookup(parent, name).await {
            Ok(inode) => Ok(Some(self.promises.changing(inode.ino).await)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Up to `limit` entries of a directory after `cookie` (0: from the start), without `.` and
    /// `..`. Entries of one cookie always come together.
    pub(crate) async fn readdir(
        &self,
        dir: Ino,
        cookie: u64,
        limit: usize,
    ) -> Result<Vec<DirEntry>> {
        if cookie == 0 {
            self.look_into(dir).await?;
        }
        self.meta.readdir(dir, cookie, limit).await
    }

    /// The same with each entry's inode.
    pub(crate) async fn readdir_plus(
        &self,
        dir: Ino,
        cookie: u64,
        limit: usize,
    ) -> Result<Vec<DirEntryPlus>> {
        if cookie == 0 {
            self.look_into(dir).await?;
        }
        let before = self.tier.moment();
        let mut entries = self.meta.readdir_plus(dir, cookie, limit).await?;
        for entry in &mut entries {
            match self.mirrors.merged_since(&before, entry.inode.clone()).await {
                Ok(inode) => entry.inode = self.atimes.merged(inode),
                // It was removed meanwhile, and is still one that was listed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        Ok(entries)
    }

    /// The directory that holds directory `dir`; the root's is itself.
    pub(crate) async fn parent(&self, dir: Ino) -> Result<Ino> {
        self.meta.parent(dir).await
    }

    /// The door obeys access control lists.
    pub(crate) fn obey_acls(&self) {
        self.context.obeys_acls.store(true, Ordering::Relaxed);
    }

    /// Whether any inode ever had an access control list.
    pub(crate) async fn has_acls(&self) -> Result<bool> {
        self.meta.has_acls().await
    }

    /// Sets an extended attribute.
    pub(crate) async fn xattr_set(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.context.check_writable()?;
        past::check_present(&[ino])?;
        let _changing = self.promises.changing(ino).await;
        self.meta.xattr_set(ino, name, value, mode).await?;
        Ok(())
    }

    /// The value of an extended attribute.
    pub(crate) async fn xattr_get(&self, ino: Ino, name: &[u8]) -> Result<Bytes> {
        self.meta.xattr_get(ino, name).await
    }

    /// The names of the extended attributes.
    pub(crate) async fn xattr_list(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.meta.xattr_list(ino).await
    }

    /// Removes an extended attribute.
    pub(crate) async fn xattr_remove(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.context.check_writable()?;
        past::check_present(&[ino])?;
        let _changing = self.promises.changing(ino).await;
        self.meta.xattr_remove(ino, name).await?;
        Ok(())
    }
}
