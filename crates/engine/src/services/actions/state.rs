//! How single files stand.

use weir_tier::{Census, Mirror};
use weir_types::{
    ByteRange, CHUNK_BYTES, ErrorKind, FileKind, FsError, Ino, Inode, Result, chunk_range,
};

use super::action::Action;
use super::found::remote_bytes;
use super::views::{ActionId, ActionKind, FileState};
use crate::services::actions::parts::Actions;

impl Actions {
    /// Whether the copy in the bucket is the file: all that is here may go. In a link that is the
    /// file's own object.
    pub(super) async fn is_archived(&self, inode: &Inode, mirror: Option<&Mirror>) -> Result<bool> {
        if mirror.is_some_and(Mirror::has_unflushed) {
            return Ok(false);
        }
        match inode.native.as_ref().filter(|native| !native.detached) {
            Some(native) => Ok(!native.changed && !native.lost),
            None => Ok(self.links.resolver.link_of(inode).await?.is_none()),
        }
    }

    pub(super) async fn state_of(&self, ino: Ino) -> Result<FileState> {
        let inode = self.meta.inode(ino).await?;
        if inode.kind != FileKind::Regular {
            let text = format!("inode {ino} is no regular file: only files have a state");
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        let mirror = self.tier.find(ino);
        let mirror = mirror.as_deref();
        let archived = self.is_archived(&inode, mirror).await?;
        let native = inode.native.as_ref().filter(|native| !native.detached);
        let size = mirror.map_or(inode.size, Mirror::size);
        let Census { resident, dirty, .. } = mirror.map(Mirror::census).unwrap_or_default();
        let released = self.is_released(&inode, mirror).await?;
        let mut state = FileState {
            exists: archived || native.is_some() || self.is_flushed(&inode).await?,
            dirty: !archived,
            released,
            archived,
            pinned: self.space.pins.has(ino),
            lost: inode.native.as_ref().is_some_and(|native| native.lost),
            size,
            resident_bytes: resident + dirty,
            object: native.and_then(|native| self.links.registry.object_url(native)),
            action: None,
        };
        state.action = self.action_of(ino, &state).await?;
        Ok(state)
    }

    /// Whether there is an old copy in the volume's bucket, for a file outside of links.
    async fn is_flushed(&self, inode: &Inode) -> Result<bool> {
        Ok(inode.data.generation > 0 && self.links.resolver.link_of(inode).await?.is_none())
    }

    /// Whether some bytes are in the bucket only. Extents are read only of files with holes.
    async fn is_released(&self, inode: &Inode, mirror: Option<&Mirror>) -> Result<bool> {
        let stored = remote_bytes(inode);
        if stored == 0 {
            return Ok(false);
        }
        let missing = match mirror {
            Some(mirror) => mirror.missing(0, mirror.size()),
            None => return Ok(true),
        };
        if missing.is_empty() || stored >= inode.size {
            return Ok(!missing.is_empty());
        }
        for ByteRange { start, end } in missing {
            let chunks = chunk_range(start, end);
            for (chunk, extents) in self.meta.chunks(inode.ino, chunks).await?.list {
                let base = chunk * CHUNK_BYTES;
                if extents.iter().any(|extent| {
                    base + u64::from(extent.start) < end && base + u64::from(extent.end()) > start
                }) {
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// The action that has something to do with the file still.
    async fn action_of(&self, ino: Ino, state: &FileState) -> Result<Option<ActionId>> {
        for action in self.schedule.open() {
            let has_to_do = match action.request.kind {
                ActionKind::Hydrate => state.released,
                ActionKind::Release => state.resident_bytes > 0,
                ActionKind::Archive => !state.archived,
            };
            if has_to_do && self.belongs_to(ino, &action).await? {
                return Ok(Some(action.id));
            }
        }
        Ok(None)
    }

    /// Whether a file is one of an action's, as far as the inode tells. One read for each level.
    pub(super) async fn belongs_to(&self, ino: Ino, action: &Action) -> Result<bool> {
        let roots = &action.request.roots;
        if !action.request.recursive || roots.iter().any(|root| root.ino == ino) {
            return Ok(roots.iter().any(|root| root.ino == ino));
        }
        let roots: Vec<_> = roots.iter().map(|root| root.ino).collect();
        match self.meta.lies_below(ino, &roots).await {
            // It was made in a directory that is no more.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
            answer => answer,
        }
    }
}
