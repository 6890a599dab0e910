//! How single files stand.

use weir_tier::Mirror;
use weir_types::{CHUNK_BYTES, ErrorKind, FileKind, FsError, Ino, Inode, Result, chunk_range};

use super::action::Action;
use super::{ActionId, ActionKind, FileState};
use crate::engine::Core;

/// Bytes of a file that the bucket has.
pub(crate) fn remote_bytes(inode: &Inode) -> u64 {
    inode.stored_bytes
}

/// Whether the copy in the bucket is the file: all that is here may go.
pub(crate) fn is_archived(_inode: &Inode, mirror: Option<&Mirror>) -> bool {
    mirror.is_none_or(|mirror| !mirror.has_news())
}

impl Core {
    pub(super) async fn state_of(&self, ino: Ino) -> Result<FileState> {
        let inode = self.stored(ino).await?;
        if inode.kind != FileKind::Regular {
            let text = format!("inode {ino} is no regular file: only files have a state");
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        let mirror = self.tier.find(ino);
        let mirror = mirror.as_deref();
        let archived = is_archived(&inode, mirror);
        let size = mirror.map_or(inode.size, Mirror::size);
        let [_, _, resident, dirty] = mirror.map_or([0; 4], Mirror::census);
        let released = self.is_released(&inode, mirror).await?;
        let mut state = FileState {
            exists: archived || inode.data.generation > 0,
            dirty: !archived,
            released,
            archived,
            pinned: self.actions.pins.has(ino),
            lost: false,
            size,
            resident_bytes: resident + dirty,
            object: None,
            action: None,
        };
        state.action = self.action_of(ino, &state).await?;
        Ok(state)
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
        for (start, end) in missing {
            let chunks = chunk_range(start, end);
            for (chunk, extents) in self.seen(self.meta.chunks(inode.ino, chunks).await)? {
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
        for action in self.actions.open() {
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
            answer => self.seen(answer),
        }
    }
}
