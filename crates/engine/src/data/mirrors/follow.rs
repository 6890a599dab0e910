//! Files of a mount that follows a writer elsewhere.
//!
//! What must always hold:
//! - An open file is as it was at one moment: its attributes, its mirror, and where its bytes are,
//!   change together, whenever the mount sees that the writer changed it.
//! - What the writer removed stays as it was for who has it open. Where its bytes are is known here,
//!   and they stay in the bucket for the collector's grace; of a file too large for that, what is not
//!   here is an error, and no zeros.

use std::ops::Range;
use std::sync::Arc;

use weir_meta::Chunks;
use weir_tier::Mirror;
use weir_types::{CHUNK_BYTES, ChunkIndex, ErrorKind, FsError, Ino, Inode, Result, chunk_range};

use super::Mirrors;
use crate::data::followed::{Followed, Moved};
use crate::data::nodes::Node;

/// Chunks of a file up to which it is kept where all its bytes are: 4 GiB.
const CHUNKS_MAX: u64 = 4_096;
/// Looks at a file that changes while it is looked at.
const TRIES: usize = 8;

impl Mirrors {
    /// The mirror of a file that is opened, as the writer has it now.
    pub(super) async fn opened(&self, node: &Node) -> Result<(Arc<Mirror>, Inode)> {
        let now = self.look(node.ino).await?;
        let inode = now.inode.clone();
        Ok((self.move_on(node, now)?, inode))
    }

    /// Brings a file that is open in step with the writer. With `again` it looks where the bytes are
    /// even if nothing seems to have changed: the collector moves them and changes nothing else.
    pub(crate) async fn catch_up(&self, node: &Node, again: bool) -> Result<()> {
        let _change = node.change.lock().await;
        let Some(before) = node.followed() else { return Ok(()) };
        let now = match self.meta.inode(node.ino).await {
            Ok(inode) if inode == before.inode && !again => return Ok(()),
            // Its bytes are going, one by one.
            Ok(inode) if inode.nlink == 0 => Err(FsError::new(ErrorKind::NotFound, "removed")),
            Ok(_) => self.look(node.ino).await,
            Err(error) => Err(error),
        };
        match now {
            Err(error) if error.kind() == ErrorKind::NotFound => self.removed(node, &before),
            now => drop(self.move_on(node, now?)?),
        }
        Ok(())
    }

    /// The files that moved on since this was asked last.
    pub(crate) fn take_moved(&self) -> Vec<(Ino, Moved)> {
        std::mem::take(&mut *self.moved.lock())
    }

    /// The newest version of the metadata that can be seen here.
    pub(crate) fn newest(&self) -> u64 {
        self.meta.durable()
    }

    /// The inode with all that belongs to it, of one moment.
    pub(super) async fn look(&self, ino: Ino) -> Result<Followed> {
        let mut inode = self.regular(ino).await?;
        for _ in 0..TRIES {
            let all = chunk_range(0, inode.size);
            if all.end > CHUNKS_MAX {
                return Ok(Followed { inode, chunks: None });
            }
            let chunks = self.meta.chunks(ino, all).await?;
            let after = self.regular(ino).await?;
            if after == inode {
                return Ok(Followed { inode, chunks: Some(chunks) });
            }
            inode = after;
        }
        Ok(Followed { inode, chunks: None })
    }

    fn move_on(&self, node: &Node, now: Followed) -> Result<Arc<Mirror>> {
        let mirror = match (node.followed(), self.tier.find(node.ino)) {
            (Some(before), Some(mirror)) => {
                let moved = bring(&mirror, &before, &now)?;
                self.moved.lock().extend(moved.map(|moved| (node.ino, moved)));
                mirror
            }
            _ => self.tier.mirror(&now.inode)?,
        };
        node.follow(now);
        Ok(mirror)
    }

    /// The writer removed the file: who has it open has it as it was.
    fn removed(&self, node: &Node, before: &Followed) {
        if before.inode.nlink > 0 {
            let inode = Inode { nlink: 0, ..before.inode.clone() };
            node.follow(Followed { inode, chunks: before.chunks.clone() });
            self.moved.lock().push((node.ino, Moved::Attributes));
        }
    }

    /// The inode of a file that is open, as it is followed.
    pub(super) fn followed(&self, ino: Ino) -> Option<Inode> {
        let followed = if self.follows { self.nodes.followed(ino) } else { None };
        followed.map(|followed| followed.inode.clone())
    }

    /// Where bytes of a file are: of the moment at which it is followed, where it is.
    pub(crate) async fn chunks(&self, ino: Ino, range: Range<ChunkIndex>) -> Result<Chunks> {
        if !self.follows {
            let found = self.meta.chunks(ino, range).await?;
            if self.shared {
                self.check_whole(ino).await?;
            }
            return Ok(found);
        }
        if let Some(followed) = self.nodes.followed(ino)
            && let Some(Chunks { native, list }) = &followed.chunks
        {
            let wanted = list.iter().filter(|(chunk, _)| range.contains(chunk));
            return Ok(Chunks { native: native.clone(), list: wanted.cloned().collect() });
        }
        let found = self.meta.chunks(ino, range).await?;
        // What is not there any more has no extents, and that is no hole.
        match self.meta.inode(ino).await {
            Ok(_) => Ok(found),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = format!("inode {ino} was removed by the writer, and it is not all here");
                Err(FsError::new(ErrorKind::Conflict, text).with_source(error))
            }
            Err(error) => Err(error),
        }
    }

    /// Refuses to take for holes what the purge of a removed file took, where extents were read before this.
    /// It takes nothing that a node holds which lives; one that was shut out and came back may have it open.
    async fn check_whole(&self, ino: Ino) -> Result<()> {
        match self.meta.is_whole(ino).await? {
            true => Ok(()),
            false => {
                let text =
                    format!("inode {ino} was removed by another node, and it is not all here");
                Err(FsError::new(ErrorKind::Conflict, text))
            }
        }
    }

    /// Looks again where the bytes of an open file are: an object that they were in is gone.
    pub(crate) async fn look_again(&self, ino: Ino) {
        if self.follows
            && self.nodes.followed(ino).is_some()
            && let Err(error) = self.catch_up(&self.nodes.get(ino), true).await
        {
            tracing::debug!(%ino, %error, "where the bytes of a file are was not looked at again");
        }
    }
}

fn bring(mirror: &Mirror, before: &Followed, now: &Followed) -> Result<Option<Moved>> {
    let (old, new) = (&before.inode, &now.inode);
    if (old.data.generation, old.size) == (new.data.generation, new.size) {
        return Ok((old != new).then_some(Moved::Attributes));
    }
    let changed = now.changed_since(before);
    mirror.changed_elsewhere(new, old.data.generation, changed.as_deref())?;
    let first = match &changed {
        None => 0,
        Some(changed) => changed.first().map_or(u64::MAX, |range| range.start),
    };
    // A page that ended with the file has zeros behind it.
    let end = old.size.min(new.size) / CHUNK_BYTES * CHUNK_BYTES;
    let first = if old.size == new.size { first } else { first.min(end) };
    Ok(Some(if first == u64::MAX { Moved::Attributes } else { Moved::From(first) }))
}
