//! What quotas have to say of names: of new ones, of moves, and of files that are given away. What
//! they let in is held until it is done.

use weir_meta::{NewInode, QuotaUsed, SetAttr};
use weir_types::{ErrorKind, FileKind, Ino, Inode, Result};

use crate::data::quotas::{Grant, Whose};
use crate::names::tree::Names;

impl Names {
    /// `Quota` where one more file is too much for a directory.
    pub(super) async fn check_more(&self, dir: Ino, new: &NewInode) -> Result<Grant> {
        if !self.quotas.any() {
            return Ok(Grant::default());
        }
        let dir = self.meta.inode(dir).await?;
        let one = QuotaUsed { files: 1, bytes: 0 };
        self.quotas.check(Whose::made_in(&dir, new.uid, new.gid), one).await
    }

    /// `Quota` where what has this name is too much for the tree that it moves to. What is a directory only
    /// moves within its tree.
    pub(super) async fn check_moved(&self, (from, name): (Ino, &[u8]), to: Ino) -> Result<Grant> {
        if !self.quotas.any() || from == to {
            return Ok(Grant::default());
        }
        let moved = match self.meta.lookup(from, name).await {
            Ok(moved) => moved,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Grant::default()),
            Err(error) => return Err(error),
        };
        let dir = self.meta.inode(to).await?;
        if moved.kind == FileKind::Directory {
            return Ok(Grant::default());
        }
        let (before, after) = (Whose::of(&moved), Whose::moved_to(&dir, &moved));
        self.quotas.check_moved(Some(before), after, self.counts(&moved)).await
    }

    /// `Quota` where a file is too much for its new owner or group.
    pub(super) async fn check_given(&self, ino: Ino, set: &SetAttr) -> Result<Grant> {
        if !self.quotas.any() || (set.uid, set.gid) == (None, None) {
            return Ok(Grant::default());
        }
        let file = self.meta.inode(ino).await?;
        let (uid, gid) = (set.uid.unwrap_or(file.uid), set.gid.unwrap_or(file.gid));
        let (before, after) = (Whose::of(&file), Whose::given_to(&file, uid, gid));
        self.quotas.check_moved(Some(before), after, self.counts(&file)).await
    }

    /// What a file counts, what is dirty of it included.
    fn counts(&self, file: &Inode) -> QuotaUsed {
        let dirty = self.tier.find(file.ino).map_or(0, |mirror| mirror.dirty_bytes());
        QuotaUsed { files: 1, bytes: file.stored_bytes + dirty }
    }
}
