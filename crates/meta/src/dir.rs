//! Reading directories.

use weir_types::{FileKind, Ino, Inode, Result};

use crate::Meta;

/// One entry of a directory. `.` and `..` are none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntry {
    /// Where to go on after this entry: a hash of the name, at least 16, below 2^63, the same
    /// after inserts, removals and remounts. Two names may share one.
    pub cookie: u64,
    /// The name.
    pub name: Vec<u8>,
    /// The inode.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
}

/// An entry with its inode.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DirEntryPlus {
    /// The entry.
    pub entry: DirEntry,
    /// The inode it leads to.
    pub inode: Inode,
}

impl Meta {
    /// The entries after `after_cookie` (0: from the start), by cookie: about `limit`, a few more
    /// where names share a cookie, since those are never split between two calls (nor may a door
    /// split them). Empty: the end. One read round.
    pub async fn readdir(
        &self,
        _dir: Ino,
        _after_cookie: u64,
        _limit: usize,
    ) -> Result<Vec<DirEntry>> {
        todo!()
    }

    /// The same with inodes. One read round more. Entries removed meanwhile are left out.
    pub async fn readdir_plus(
        &self,
        _dir: Ino,
        _after_cookie: u64,
        _limit: usize,
    ) -> Result<Vec<DirEntryPlus>> {
        todo!()
    }
}
