//! A file as it is: its mirror in step with its extents, and what the metadata says of it with what
//! the tier knows better.

mod follow;
mod known;
mod lent;

use std::sync::Arc;

use parking_lot::Mutex;
use weir_meta::Meta;
use weir_tier::{Mirror, Moment, Tier};
use weir_types::{ByteRange, ErrorKind, FileKind, FsError, Ino, Inode, Result};

use super::followed::Moved;
use super::journal::Journal;
use super::nodes::{Node, Nodes};
use known::LentFiles;

/// A change of extents that failed.
pub(crate) struct Change<'a> {
    /// What it was to change.
    pub(crate) range: ByteRange,
    /// The range was to hold bytes of the bucket then, and not zeros.
    pub(crate) copied: bool,
    /// The inode before.
    pub(crate) since: &'a Inode,
}

/// The mirrors of files in use, held against the metadata.
pub(crate) struct Mirrors {
    pub(super) meta: Arc<Meta>,
    pub(super) tier: Arc<Tier>,
    nodes: Arc<Nodes>,
    journal: Option<Arc<Journal>>,
    /// Somebody else writes the volume, and what is open here follows that.
    follows: bool,
    /// Others write it, too.
    shared: bool,
    /// Files that are open and moved on with that, until the doors are told.
    moved: Mutex<Vec<(Ino, Moved)>>,
    lent: LentFiles,
}

impl Mirrors {
    pub(crate) fn new(
        meta: Arc<Meta>,
        tier: Arc<Tier>,
        nodes: Arc<Nodes>,
        journal: Option<Arc<Journal>>,
        (follows, shared): (bool, bool),
    ) -> Self {
        Self {
            meta,
            tier,
            nodes,
            journal,
            follows,
            shared,
            moved: Mutex::default(),
            lent: LentFiles::default(),
        }
    }

    /// Whether some of a file is here and not in the bucket.
    pub(crate) fn is_unflushed(&self, ino: Ino) -> bool {
        self.tier.find(ino).is_some_and(|mirror| mirror.has_unflushed())
    }

    /// Has the mirror of a file, if there is one, let go of what others changed since, where `inode` shows
    /// that they did. Whoever is told of a size finds the bytes.
    async fn catch_up_with(&self, inode: Inode) -> Result<Inode> {
        let ino = inode.ino;
        if !self.shared || inode.kind != FileKind::Regular {
            return Ok(inode);
        }
        let Some(mirror) = self.tier.find(ino).filter(|mirror| !mirror.is_in_step(&inode)) else {
            return Ok(inode);
        };
        let node = self.nodes.get(ino);
        let _change = node.change.lock().await;
        let inode = self.bring_lent(self.meta.inode(ino).await?).await?;
        if !mirror.is_in_step(&inode) {
            self.tier.mirror(&inode)?;
        }
        Ok(inode)
    }

    /// Our own change of a file made `after` of `before`. Where others made changes in between, no page of
    /// before is believed. To be called with the file's change lock held, once the mirror has the change.
    pub(crate) fn changed_by_us(&self, mirror: &Mirror, before: u64, after: &Inode) -> Result<()> {
        match self.shared && after.data.generation > before + 1 {
            true => mirror.changed_from(after, 0),
            false => Ok(()),
        }
    }

    /// The file's mirror, in step with its extents: none of them may change meanwhile.
    pub(crate) async fn open_mirror(&self, node: &Node) -> Result<Arc<Mirror>> {
        self.open_mirror_of(node).await.map(|(mirror, _)| mirror)
    }

    /// The same, with the inode.
    pub(crate) async fn open_mirror_of(&self, node: &Node) -> Result<(Arc<Mirror>, Inode)> {
        let _change = node.change.lock().await;
        if self.follows {
            return self.opened(node).await;
        }
        let inode = self.bring_lent(self.regular(node.ino).await?).await?;
        Ok((self.tier.mirror(&inode)?, inode))
    }

    /// The inode of a regular file.
    async fn regular(&self, ino: Ino) -> Result<Inode> {
        let inode = self.meta.inode(ino).await?;
        match inode.kind {
            FileKind::Regular => Ok(inode),
            FileKind::Directory => {
                Err(FsError::new(ErrorKind::IsDirectory, format!("inode {ino} is a directory")))
            }
            _ => Err(FsError::new(ErrorKind::Invalid, format!("inode {ino} is no regular file"))),
        }
    }

    /// The inode as it is now, whatever is flushed meanwhile.
    pub(crate) async fn known(&self, ino: Ino) -> Result<Inode> {
        if let Some(followed) = self.followed(ino) {
            return Ok(followed);
        }
        loop {
            let before = self.tier.moment();
            let inode = self.catch_up_with(self.meta.inode(ino).await?).await?;
            let inode = self.merged(inode);
            if !self.tier.settled_since(&before, ino) {
                return Ok(inode);
            }
        }
    }

    /// [`Mirrors::merged`] of an inode that was read after `before`.
    pub(crate) async fn merged_since(&self, before: &Moment, inode: Inode) -> Result<Inode> {
        let ino = inode.ino;
        let merged = self.merged(self.catch_up_with(inode).await?);
        match merged.kind == FileKind::Regular && self.tier.settled_since(before, ino) {
            true => self.known(ino).await,
            false => Ok(merged),
        }
    }

    /// An inode as linked buckets are to show it: they get no access control lists.
    pub(crate) async fn without_acl(&self, inode: Inode) -> Result<Inode> {
        self.meta.without_acl(inode).await
    }

    /// The inode with the size and times of writes that the metadata does not have yet. Right if no
    /// flush of the file ended since it was read: the caller holds its change lock, or see
    /// [`Mirrors::known`].
    pub(crate) fn merged(&self, mut inode: Inode) -> Inode {
        fail::fail_point!("engine::inode-read");
        if inode.kind != FileKind::Regular {
            return inode;
        }
        if let Some(followed) = self.followed(inode.ino) {
            return followed;
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

    /// A change of extents failed, maybe after a part of it: the mirror takes the inode as it is
    /// now. To be called with the file's change lock held.
    pub(crate) async fn extents_unsure(&self, ino: Ino, error: FsError) -> FsError {
        if self.tier.find(ino).is_some()
            && let Ok(inode) = self.meta.inode(ino).await
            && let Err(second) = self.tier.mirror(&inode)
        {
            tracing::warn!(%ino, error = %second, "a mirror could not be brought in step");
        }
        error
    }

    /// A truncation, hole or copy failed, maybe after a part of it, or after all of it where only
    /// the log did not take its commit. What the metadata took counts, here and in the journal. To be
    /// called with the file's change lock held.
    pub(crate) async fn changed_in_part(&self, change: Change<'_>, error: FsError) -> FsError {
        let ino = change.since.ino;
        if let Err(second) = self.take_up_part(change).await {
            tracing::warn!(%ino, error = %second, "a mirror could not be brought in step");
        }
        error
    }

    async fn take_up_part(&self, Change { range, copied, since }: Change<'_>) -> Result<()> {
        let ino = since.ino;
        let now = self.meta.inode(ino).await?;
        let Some(dropped) = now.data.dropped else { return Ok(()) };
        if now.data.generation == since.data.generation {
            return Ok(());
        }
        // A truncation goes on from the end of the file, all else from the start of its range.
        let (range, size) = match dropped {
            ByteRange { start: size, end: u64::MAX } => (dropped, Some(size)),
            ByteRange { end, .. } => (ByteRange { end, ..range }, None),
        };
        if let Some(journal) = &self.journal {
            journal.forget(ino, range.start, range.end);
        }
        if let Some(mirror) = self.tier.find(ino) {
            mirror.dropped(range, size, now.data.generation, copied)?;
            mirror.forget_pending_times(true, true)?;
            if self.shared {
                // Others may have changed it as well.
                mirror.changed_from(&now, 0)?;
            }
        }
        Ok(())
    }

    /// A file that nobody has open needs no open mirror file.
    pub(crate) fn idle_unless_open(&self, node: &Node, mirror: &Mirror) {
        if !self.nodes.is_open(node.ino) {
            mirror.idle();
        }
    }
}
