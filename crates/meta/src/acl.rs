//! POSIX access control lists, as Linux hands them over: a version, and eight bytes an entry
//! (`linux/posix_acl_xattr.h`; what they mean is in `acl(5)`).
//!
//! A list that says no more than the nine permission bits is not kept: the bits are it. Of one that is
//! kept they show the owner's, the mask's and the others' entries.

use bytes::{BufMut, Bytes};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result};

use crate::kv::Key;
use crate::op::Tx;
use crate::{Meta, keys};

/// Who may do what with an inode, beyond its permission bits.
pub const ACL_ACCESS: &[u8] = b"system.posix_acl_access";
/// What is made in a directory gets this one.
pub const ACL_DEFAULT: &[u8] = b"system.posix_acl_default";

const VERSION: u32 = 2;
const PERMISSIONS: u32 = 0o777;
/// The id of an entry that is nobody's by name.
const NOBODY: u32 = u32::MAX;

const OWNER: u16 = 1;
const USER: u16 = 2;
const GROUP: u16 = 4;
const OTHER_GROUP: u16 = 8;
const MASK: u16 = 16;
const OTHERS: u16 = 32;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Entry {
    tag: u16,
    may: u16,
    id: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Acl(Vec<Entry>);

impl Acl {
    /// `None` for a list without entries, which means none at all; `Invalid` for what is none.
    pub(crate) fn decode(value: &[u8]) -> Result<Option<Self>> {
        let no_list = |why: &str| {
            let text = format!("an access control list {why}: set it with setfacl");
            FsError::new(ErrorKind::Invalid, text)
        };
        let Some((version, rest)) = value.split_first_chunk() else {
            return Err(no_list("is cut short"));
        };
        let (entries, cut) = rest.as_chunks::<8>();
        if u32::from_le_bytes(*version) != VERSION || !cut.is_empty() {
            return Err(no_list("is not of version 2"));
        }
        let list = Self(entries.iter().map(Entry::decode).collect());
        match list.0.is_empty() {
            true => Ok(None),
            false if list.is_sound() => Ok(Some(list)),
            false => Err(no_list("is not sound")),
        }
    }

    pub(crate) fn encode(&self) -> Bytes {
        let mut out = Vec::with_capacity(4 + 8 * self.0.len());
        out.put_u32_le(VERSION);
        for Entry { tag, may, id } in &self.0 {
            out.put_u16_le(*tag);
            out.put_u16_le(*may);
            out.put_u32_le(*id);
        }
        out.into()
    }

    /// One entry each for the owner, the group and the others, and a mask where any is by name; in
    /// the order of their tags, and the named ones by their numbers.
    fn is_sound(&self) -> bool {
        let count = |tag| self.0.iter().filter(|entry| entry.tag == tag).count();
        let tags = [OWNER, USER, GROUP, OTHER_GROUP, MASK, OTHERS];
        [OWNER, GROUP, OTHERS].iter().all(|tag| count(*tag) == 1)
            && count(MASK) <= 1
            && (count(MASK) == 1 || count(USER) + count(OTHER_GROUP) == 0)
            && self.0.is_sorted_by_key(|entry| entry.tag)
            && self.0.iter().all(|entry| entry.may <= 7 && tags.contains(&entry.tag))
    }

    /// The entries that the permission bits show: the owner's, the group's or, where there is one,
    /// the mask's, and the others'.
    fn shown(&mut self) -> [(u32, Option<&mut Entry>); 3] {
        let class = if self.says_more() { MASK } else { GROUP };
        let mut all: Vec<_> = self.0.iter_mut().collect();
        let mut take =
            |tag| all.iter().position(|entry| entry.tag == tag).map(|at| all.swap_remove(at));
        [(6, take(OWNER)), (3, take(class)), (0, take(OTHERS))]
    }

    /// Whether it is more than permission bits.
    pub(crate) fn says_more(&self) -> bool {
        self.0.iter().any(|entry| entry.tag == MASK)
    }

    /// `mode` with the permission bits that show this list.
    pub(crate) fn mode(&mut self, mode: u32) -> u32 {
        let bits = |(shift, entry): (u32, Option<&mut Entry>)| {
            entry.map_or(0, |entry| u32::from(entry.may)) << shift
        };
        (mode & !PERMISSIONS) | self.shown().into_iter().map(bits).sum::<u32>()
    }

    /// Gives it the permission bits of `mode`, as `chmod` does.
    pub(crate) fn set_mode(&mut self, mode: u32) {
        for (shift, entry) in self.shown() {
            if let Some(entry) = entry {
                entry.may = ((mode >> shift) & 7) as u16;
            }
        }
    }

    /// `mode` with what the group itself may in the place of the mask.
    fn mode_of_group(&mut self, mode: u32) -> u32 {
        let mode = self.mode(mode);
        let group = self.0.iter().find(|entry| entry.tag == GROUP).map_or(0, |entry| entry.may);
        mode & (!0o070 | u32::from(group) << 3)
    }

    /// What is made with `mode` in a directory whose default list this is: its own list, where that
    /// says more than its mode, and its mode.
    fn inherited(&self, mode: u32) -> (Option<Self>, u32) {
        let mut list = self.clone();
        for (shift, entry) in list.shown() {
            if let Some(entry) = entry {
                entry.may &= ((mode >> shift) & 7) as u16;
            }
        }
        let mode = list.mode(mode);
        (list.says_more().then_some(list), mode)
    }
}

impl Entry {
    fn decode(bytes: &[u8; 8]) -> Self {
        let [a, b, c, d, id @ ..] = *bytes;
        let (tag, may) = (u16::from_le_bytes([a, b]), u16::from_le_bytes([c, d]));
        let id = if matches!(tag, USER | OTHER_GROUP) { u32::from_le_bytes(id) } else { NOBODY };
        Self { tag, may, id }
    }
}

/// Sets an attribute that is a list, or any other. `inode` gets the mode that shows the list.
pub(crate) fn put(
    tx: &mut Tx,
    key: Key,
    inode: &mut Inode,
    name: &[u8],
    value: &[u8],
) -> Result<()> {
    let list = match name {
        ACL_ACCESS | ACL_DEFAULT => Acl::decode(value)?,
        _ => {
            tx.put(key, Bytes::copy_from_slice(value));
            return Ok(());
        }
    };
    if inode.kind == FileKind::Symlink || (name == ACL_DEFAULT && inode.kind != FileKind::Directory)
    {
        let text = format!("inode {} can have no such access control list", inode.ino);
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    tx.put(keys::ACLS.to_vec(), Bytes::from_static(&[1]));
    match list {
        Some(mut list) => {
            let is_access = name == ACL_ACCESS;
            if is_access {
                inode.mode = list.mode(inode.mode);
            }
            match is_access && !list.says_more() {
                true => tx.delete(key),
                false => tx.put(key, list.encode()),
            }
        }
        None => tx.delete(key),
    }
    Ok(())
}

/// What a directory's default list gives to `inode`, which is being made in it: rows, and the mode.
pub(crate) fn inherit(tx: &mut Tx, inode: &mut Inode, default: &[u8]) -> Result<()> {
    let Some(list) = Acl::decode(default)? else { return Ok(()) };
    let (own, mode) = list.inherited(inode.mode);
    inode.mode = mode;
    if let Some(own) = own {
        tx.put(keys::xattr(inode.ino, ACL_ACCESS), own.encode());
    }
    if inode.kind == FileKind::Directory {
        tx.put(keys::xattr(inode.ino, ACL_DEFAULT), list.encode());
    }
    Ok(())
}

/// The list of an inode that gets another mode.
pub(crate) fn change_mode(tx: &mut Tx, ino: Ino, value: &[u8], mode: u32) -> Result<()> {
    if let Some(mut list) = Acl::decode(value)? {
        list.set_mode(mode);
        tx.put(keys::xattr(ino, ACL_ACCESS), list.encode());
    }
    Ok(())
}

impl Meta {
    /// Whether any inode of the volume ever had an access control list. One read round.
    pub async fn has_acls(&self) -> Result<bool> {
        Ok(self.get(&[keys::ACLS.to_vec()]).await?[0].is_some())
    }

    /// An inode as it is to be shown where its list does not go: its permission bits give its group
    /// no more than the list does. One read round.
    pub async fn without_acl(&self, mut inode: Inode) -> Result<Inode> {
        let found = self.get(&[keys::xattr(inode.ino, ACL_ACCESS)]).await?;
        if let Some(found) = &found[0]
            && let Some(mut list) = Acl::decode(&found.value)?
        {
            inode.mode = list.mode_of_group(inode.mode);
        }
        Ok(inode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(entries: &[(u16, u16, u32)]) -> Acl {
        Acl(entries.iter().map(|&(tag, may, id)| Entry { tag, may, id }).collect())
    }

    /// `u::rwx,u:7:rw-,g::r-x,m::rwx,o::r--`
    fn named() -> Acl {
        let none = NOBODY;
        list(&[
            (OWNER, 7, none),
            (USER, 6, 7),
            (GROUP, 5, none),
            (MASK, 7, none),
            (OTHERS, 4, none),
        ])
    }

    fn may(list: &Acl, tag: u16) -> Option<u16> {
        list.0.iter().find(|entry| entry.tag == tag).map(|entry| entry.may)
    }

    #[test]
    fn the_bytes_are_those_of_linux() {
        let plain = list(&[(OWNER, 6, NOBODY), (GROUP, 4, NOBODY), (OTHERS, 0, NOBODY)]);
        let bytes = b"\x02\0\0\0\x01\0\x06\0\xff\xff\xff\xff\x04\0\x04\0\xff\xff\xff\xff\x20\0\0\0\xff\xff\xff\xff";
        assert_eq!(plain.encode(), &bytes[..]);
        assert_eq!(Acl::decode(bytes).expect("sound"), Some(plain));
        assert_eq!(Acl::decode(&bytes[..4]).expect("empty"), None);
        assert_eq!(Acl::decode(&named().encode()).expect("sound"), Some(named()));
    }

    #[test]
    fn what_is_no_list_is_refused() {
        let broken = [
            list(&[(OWNER, 6, NOBODY), (GROUP, 4, NOBODY)]),
            list(&[
                (OWNER, 6, NOBODY),
                (OWNER, 6, NOBODY),
                (GROUP, 4, NOBODY),
                (OTHERS, 0, NOBODY),
            ]),
            list(&[(OWNER, 6, NOBODY), (USER, 6, 1), (GROUP, 4, NOBODY), (OTHERS, 0, NOBODY)]),
            list(&[(OWNER, 8, NOBODY), (GROUP, 4, NOBODY), (OTHERS, 0, NOBODY)]),
            list(&[(GROUP, 4, NOBODY), (OWNER, 6, NOBODY), (OTHERS, 0, NOBODY)]),
            list(&[(OWNER, 6, NOBODY), (GROUP, 4, NOBODY), (OTHERS, 0, NOBODY), (64, 0, 0)]),
        ];
        for list in broken {
            let error = Acl::decode(&list.encode()).expect_err("not sound");
            assert_eq!(error.kind(), ErrorKind::Invalid, "{list:?}");
        }
        for bytes in [&b""[..], b"\x02\0\0", b"\x01\0\0\0", b"\x02\0\0\0\x01"] {
            assert_eq!(Acl::decode(bytes).expect_err("no list").kind(), ErrorKind::Invalid);
        }
    }

    #[test]
    fn bits_show_the_mask_and_change_it() {
        let mut list = named();
        assert_eq!(list.mode(0o102_000), 0o102_774);
        list.set_mode(0o640);
        assert_eq!(list.mode(0), 0o640);
        assert_eq!(may(&list, GROUP), Some(5), "behind the mask");
        assert_eq!(list.mode_of_group(0), 0o640, "as far as the mask lets it");
        assert_eq!(named().mode_of_group(0), 0o754, "the mask says more than the group may");
        let mut plain = self::list(&[(OWNER, 6, NOBODY), (GROUP, 4, NOBODY), (OTHERS, 0, NOBODY)]);
        plain.set_mode(0o777);
        assert_eq!((plain.mode(0), plain.says_more()), (0o777, false));
    }

    #[test]
    fn what_is_made_gets_no_more_than_it_asks() {
        let (own, mode) = named().inherited(0o100_640);
        assert_eq!(mode, 0o100_640);
        let own = own.expect("it says more");
        assert_eq!(may(&own, MASK), Some(4));
        assert_eq!(may(&own, USER), Some(6), "the mask holds it");
        let plain = list(&[(OWNER, 7, NOBODY), (GROUP, 0, NOBODY), (OTHERS, 0, NOBODY)]);
        assert_eq!(plain.inherited(0o666), (None, 0o600), "bits are enough");
    }
}
