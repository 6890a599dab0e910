//! Inodes by number, and their attributes.

use weir_types::{Ino, Inode, Result, UnixTime};

use crate::Meta;

/// Attributes to set; `None` leaves one as it is. `ctime` becomes now unless it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SetAttr {
    /// Permission bits with set-uid, set-gid and sticky.
    pub mode: Option<u32>,
    /// Owner.
    pub uid: Option<u32>,
    /// Group.
    pub gid: Option<u32>,
    /// Last access.
    pub atime: Option<UnixTime>,
    /// Last change of the data.
    pub mtime: Option<UnixTime>,
    /// Last change of the inode.
    pub ctime: Option<UnixTime>,
    /// Clears set-uid, and set-gid if the group may execute, as a change of owner or a write by
    /// somebody unprivileged must. Not for directories. Applied after `mode`.
    pub clear_privileges: bool,
}

impl Meta {
    /// One inode; `NotFound` once it is purged. One read round.
    pub async fn inode(&self, _ino: Ino) -> Result<Inode> {
        todo!()
    }

    /// Several inodes in one read round, in their order; `None` for those that are not there.
    pub async fn inodes(&self, _inos: &[Ino]) -> Result<Vec<Option<Inode>>> {
        todo!()
    }

    /// The directory that holds this directory; the root holds itself. One read round.
    pub async fn parent(&self, _dir: Ino) -> Result<Ino> {
        todo!()
    }

    /// Sets attributes and returns the inode after.
    pub async fn setattr(&self, _ino: Ino, _set: SetAttr) -> Result<Inode> {
        todo!()
    }
}
