//! Names: looking them up, making and removing them.

use weir_types::{FileKind, Ino, Inode, Result};

use crate::Meta;

/// What a new inode is to be.
#[derive(Clone, Debug)]
pub struct NewInode {
    /// What kind of thing.
    pub kind: FileKind,
    /// Permission bits with set-uid, set-gid and sticky, umask applied.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group, unless the parent directory is set-gid and hands down its own.
    pub gid: u32,
    /// Device number, for device nodes; else 0.
    pub rdev: u32,
    /// A symlink's target, for symlinks only.
    pub target: Option<Vec<u8>>,
}

impl Meta {
    /// The inode that `name` in `parent` leads to. Two read rounds.
    pub async fn lookup(&self, _parent: Ino, _name: &[u8]) -> Result<Inode> {
        todo!()
    }

    /// Makes a file, directory, symlink or node. One read round and one commit.
    pub async fn create(&self, _parent: Ino, _name: &[u8], _new: NewInode) -> Result<Inode> {
        todo!()
    }

    /// Gives `ino` one more name; `Permission` for directories.
    pub async fn link(&self, _ino: Ino, _parent: Ino, _name: &[u8]) -> Result<Inode> {
        todo!()
    }

    /// Removes a name of something that is no directory; returns the inode after. With no name
    /// left (`nlink` 0) it is an orphan: readable by number until [`Meta::purge`].
    pub async fn unlink(&self, _parent: Ino, _name: &[u8]) -> Result<Inode> {
        todo!()
    }

    /// Removes an empty directory; it becomes an orphan, to be purged.
    pub async fn rmdir(&self, _parent: Ino, _name: &[u8]) -> Result<Inode> {
        todo!()
    }
}
