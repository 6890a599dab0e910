//! Who asks, and what files allow: the rules that a kernel applies for local programs.

use weir_types::{FileKind, Inode};

use crate::options::Identity;
use crate::protocol::status::Status;

/// May read.
pub(crate) const READ: u32 = 4;
/// May write.
pub(crate) const WRITE: u32 = 2;
/// May execute, or look up names.
pub(crate) const EXECUTE: u32 = 1;

const SET_UID: u32 = 0o4000;
const SET_GID: u32 = 0o2000;
const STICKY: u32 = 0o1000;

/// Who asks, as an export has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Caller {
    pub(crate) uid: u32,
    pub(crate) gid: u32,
    pub(crate) groups: Vec<u32>,
}

impl From<&Identity> for Caller {
    fn from(identity: &Identity) -> Self {
        Self { uid: identity.uid, gid: identity.gid, groups: identity.groups.clone() }
    }
}

impl Caller {
    /// Whether permissions do not hold for it.
    pub(crate) fn is_root(&self) -> bool {
        self.uid == 0
    }

    pub(crate) fn is_in(&self, gid: u32) -> bool {
        self.gid == gid || self.groups.contains(&gid)
    }

    /// What of `READ`, `WRITE` and `EXECUTE` an inode allows, by its permission bits or its access control
    /// list (as `acl(5)` has it).
    pub(crate) fn allowed(&self, inode: &Inode, list: Option<&[u8]>) -> u32 {
        if self.is_root() {
            let runs = inode.mode & 0o111 != 0 || inode.kind == FileKind::Directory;
            return READ | WRITE | if runs { EXECUTE } else { 0 };
        }
        if self.uid == inode.uid {
            return (inode.mode >> 6) & 7;
        }
        match list.and_then(|list| self.listed(inode, list)) {
            Some(allowed) => allowed,
            None if self.is_in(inode.gid) => (inode.mode >> 3) & 7,
            None => inode.mode & 7,
        }
    }

    /// The same by a list: `system.posix_acl_access`, which is a version and eight bytes an entry.
    fn listed(&self, inode: &Inode, list: &[u8]) -> Option<u32> {
        const USER: u16 = 2;
        const GROUP: u16 = 4;
        const OTHER_GROUP: u16 = 8;
        const MASK: u16 = 16;
        const OTHERS: u16 = 32;
        let entries: Vec<(u16, u32, u32)> = list
            .get(4..)?
            .chunks_exact(8)
            .map(|entry| {
                let half = |at: usize| u16::from_le_bytes([entry[at], entry[at + 1]]);
                let id = u32::from_le_bytes([entry[4], entry[5], entry[6], entry[7]]);
                (half(0), u32::from(half(2)), id)
            })
            .collect();
        let mask = entries.iter().find(|(tag, ..)| *tag == MASK).map_or(7, |(_, may, _)| *may);
        let of_user = |(tag, _, id): &&(u16, u32, u32)| *tag == USER && *id == self.uid;
        if let Some((_, may, _)) = entries.iter().find(of_user) {
            return Some(may & mask);
        }
        let of_groups = entries.iter().filter(|(tag, _, id)| match *tag {
            GROUP => self.is_in(inode.gid),
            OTHER_GROUP => self.is_in(*id),
            _ => false,
        });
        let (groups, may) = of_groups.fold((0, 0), |(n, all), (_, may, _)| (n + 1, all | may));
        if groups > 0 {
            return Some(may & mask);
        }
        entries.iter().find(|(tag, ..)| *tag == OTHERS).map(|(_, may, _)| *may)
    }

    /// Whether names of others may be removed from a sticky directory, or replaced in it.
    pub(crate) fn may_remove(&self, dir: &Inode, what: &Inode) -> bool {
        dir.mode & STICKY == 0 || self.is_root() || self.uid == what.uid || self.uid == dir.uid
    }

    /// Whether it may give an inode this owner and group.
    pub(crate) fn may_give(
        &self,
        inode: &Inode,
        uid: Option<u32>,
        gid: Option<u32>,
    ) -> Result<(), Status> {
        if self.is_root() {
            return Ok(());
        }
        let keeps_owner = uid.is_none_or(|uid| uid == inode.uid);
        let own_group = gid.is_none_or(|gid| gid == inode.gid || self.is_in(gid));
        match self.uid == inode.uid && keeps_owner && own_group {
            true => Ok(()),
            false => Err(Status::PERM),
        }
    }

    /// A mode that it sets on an inode: who is not in the group gives no set-group-id.
    pub(crate) fn mode_for(&self, inode: &Inode, mode: u32) -> u32 {
        if self.is_root() || self.is_in(inode.gid) { mode } else { mode & !SET_GID }
    }

    /// Whether a change of contents by it takes set-user-id and set-group-id from a file.
    pub(crate) fn takes_privileges(&self, inode: &Inode) -> bool {
        inode.mode & (SET_UID | SET_GID) != 0 && inode.kind == FileKind::Regular && !self.is_root()
    }

    /// Whether set-group-id goes too where the group may not execute the file.
    pub(crate) fn is_outside_group_of(&self, inode: &Inode) -> bool {
        !self.is_root() && !self.is_in(inode.gid)
    }
}

#[cfg(test)]
mod tests {
    use weir_types::{Ino, UnixTime};

    use super::*;

    fn file(mode: u32) -> Inode {
        let mut inode = Inode::new(Ino(5), FileKind::Regular, Ino::ROOT, UnixTime(0));
        (inode.mode, inode.uid, inode.gid) = (mode, 10, 20);
        inode
    }

    fn caller(uid: u32, gid: u32, groups: &[u32]) -> Caller {
        Caller { uid, gid, groups: groups.to_vec() }
    }

    #[test]
    fn the_first_class_that_fits_decides() {
        let file = file(0o067);
        assert_eq!(caller(10, 20, &[]).allowed(&file, None), 0, "the owner, whatever others may");
        assert_eq!(caller(11, 20, &[]).allowed(&file, None), 6);
        assert_eq!(caller(11, 1, &[20]).allowed(&file, None), 6);
        assert_eq!(caller(11, 1, &[]).allowed(&file, None), 7);
        assert_eq!(caller(0, 0, &[]).allowed(&file, None), 7);
        let mut plain = file.clone();
        plain.mode = 0o600;
        assert_eq!(caller(0, 0, &[]).allowed(&plain, None), 6, "root runs nothing that nobody may");
    }

    #[test]
    fn a_list_is_obeyed_with_its_mask() {
        let entry = |tag: u16, may: u16, id: u32| {
            [&tag.to_le_bytes()[..], &may.to_le_bytes(), &id.to_le_bytes()].concat()
        };
        let list = [
            2_u32.to_le_bytes().to_vec(),
            entry(1, 6, u32::MAX),
            entry(2, 7, 77),
            entry(4, 4, u32::MAX),
            entry(8, 7, 88),
            entry(16, 6, u32::MAX),
            entry(32, 1, u32::MAX),
        ]
        .concat();
        let file = file(0o661);
        let may = |caller: Caller| caller.allowed(&file, Some(&list));
        assert_eq!(may(caller(77, 1, &[])), 6, "by name, under the mask");
        assert_eq!(may(caller(1, 20, &[])), 4);
        assert_eq!(may(caller(1, 1, &[88])), 6);
        assert_eq!(may(caller(1, 1, &[])), 1);
        assert_eq!(may(caller(10, 1, &[])), 6, "the owner's bits");
    }

    #[test]
    fn only_root_gives_files_away() {
        let file = file(0o644);
        let owner = caller(10, 20, &[30]);
        assert_eq!(owner.may_give(&file, None, Some(30)), Ok(()));
        assert_eq!(owner.may_give(&file, Some(10), Some(20)), Ok(()));
        assert_eq!(owner.may_give(&file, None, Some(31)), Err(Status::PERM));
        assert_eq!(owner.may_give(&file, Some(11), None), Err(Status::PERM));
        assert_eq!(caller(11, 20, &[]).may_give(&file, None, Some(20)), Err(Status::PERM));
        assert_eq!(caller(0, 0, &[]).may_give(&file, Some(1), Some(1)), Ok(()));
    }
}
