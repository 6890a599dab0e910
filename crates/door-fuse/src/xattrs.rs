//! Extended attributes.

use std::sync::atomic::Ordering;

use weir_engine::{ACL_ACCESS, ACL_DEFAULT, SetAttr, XattrMode};
use weir_fuse::{Errno, Reply};
use weir_types::{ErrorKind, Ino};

use crate::door::{DoorState, Served};

/// Most bytes that `listxattr` can return (`XATTR_LIST_MAX`).
const LIST_BYTES_MAX: usize = 65_536;

/// The capabilities that a program gets when it is run.
const CAPABILITY: &[u8] = b"security.capability";

/// What the caller gets: the length it asked for, or the bytes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Value<T> {
    /// The caller asked how long it is.
    Length(u32),
    /// The value itself.
    Bytes(T),
}

impl<T: AsRef<[u8]>> Value<T> {
    /// `bytes` for a caller with room for `room` of them; 0 asks for the length. ERANGE if they do
    /// not fit.
    fn for_room(bytes: T, room: u32) -> Result<Self, Errno> {
        let length = u32::try_from(bytes.as_ref().len()).map_err(|_| Errno(libc::E2BIG))?;
        match room {
            0 => Ok(Self::Length(length)),
            _ if length > room => Err(Errno(libc::ERANGE)),
            _ => Ok(Self::Bytes(bytes)),
        }
    }

    pub(crate) fn answer(self, reply: Reply) {
        match self {
            Self::Length(length) => reply.size(length),
            Self::Bytes(bytes) => reply.bytes(bytes.as_ref()),
        }
    }
}

/// The label of a file for SELinux.
const LABEL: &[u8] = b"security.selinux";

fn is_acl(name: &[u8]) -> bool {
    matches!(name, ACL_ACCESS | ACL_DEFAULT)
}

/// Whether attributes of this name are kept. The kernel has checked who may see `trusted.` ones; the
/// POSIX ACLs are kept only where they are obeyed.
fn check_name(name: &[u8], acl: bool) -> Result<(), Errno> {
    if acl && is_acl(name) {
        return Ok(());
    }
    let kept = [&b"user."[..], b"trusted.", b"security."];
    match kept.iter().any(|space| name.len() > space.len() && name.starts_with(space)) {
        true => Ok(()),
        false => Err(Errno(libc::EOPNOTSUPP)),
    }
}

fn set_mode(flags: i32) -> Result<XattrMode, Errno> {
    match flags {
        0 => Ok(XattrMode::Any),
        libc::XATTR_CREATE => Ok(XattrMode::Create),
        libc::XATTR_REPLACE => Ok(XattrMode::Replace),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// Names as `listxattr` wants them: each ended by a zero byte. `trusted.` ones are for root only.
fn name_list(names: &[Vec<u8>], uid: u32) -> Result<Vec<u8>, Errno> {
    let mut list = Vec::new();
    for name in names.iter().filter(|name| uid == 0 || !name.starts_with(b"trusted.")) {
        list.extend_from_slice(name);
        list.push(0);
    }
    if list.len() > LIST_BYTES_MAX { Err(Errno(libc::E2BIG)) } else { Ok(list) }
}

impl DoorState {
    pub(crate) async fn set_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        flags: i32,
    ) -> Served<()> {
        check_name(name, self.acl)?;
        match self.engine.xattr_set(ino, name, value, set_mode(flags)?).await {
            Err(error) if error.kind() == ErrorKind::TooLarge => Err(Errno(libc::E2BIG).into()),
            done => {
                if name == CAPABILITY {
                    self.capabilities_given.fetch_add(1, Ordering::AcqRel);
                }
                Ok(done?)
            }
        }
    }

    /// Takes set-group-id from a file whose list is set by somebody who is not in its group.
    pub(crate) async fn drop_set_gid(&self, ino: Ino) -> Served<()> {
        if self.engine.getattr(ino).await?.mode & libc::S_ISGID != 0 {
            let set = SetAttr { clear_set_gid: true, ..SetAttr::default() };
            self.engine.setattr(ino, set).await?;
        }
        Ok(())
    }

    pub(crate) async fn drop_capabilities(&self, ino: Ino) -> Served<()> {
        match self.engine.xattr_remove(ino, CAPABILITY).await {
            Err(error) if error.kind() == ErrorKind::NoAttribute => Ok(()),
            done => Ok(done?),
        }
    }

    pub(crate) async fn get_xattr(
        &self,
        ino: Ino,
        name: &[u8],
        room: u32,
    ) -> Served<Value<weir_engine::Bytes>> {
        check_name(name, self.acl)?;
        match self.engine.xattr_get(ino, name).await {
            // `ls -l` asks for the label of each file until it hears that there are none.
            Err(error)
                if error.kind() == ErrorKind::NoAttribute && name == LABEL && !self.labels =>
            {
                Err(Errno(libc::EOPNOTSUPP).into())
            }
            value => Ok(Value::for_room(value?, room)?),
        }
    }

    pub(crate) async fn list_xattrs(
        &self,
        ino: Ino,
        uid: u32,
        room: u32,
    ) -> Served<Value<Vec<u8>>> {
        let names = self.engine.xattr_list(ino).await?;
        Ok(Value::for_room(name_list(&names, uid)?, room)?)
    }

    pub(crate) async fn remove_xattr(&self, ino: Ino, name: &[u8]) -> Served<()> {
        check_name(name, self.acl)?;
        match self.engine.xattr_remove(ino, name).await {
            // A list that is the permission bits is none.
            Err(error) if error.kind() == ErrorKind::NoAttribute && is_acl(name) => Ok(()),
            done => Ok(done?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_learns_the_length_and_too_little_room_is_erange() {
        assert_eq!(Value::for_room(b"abc", 0), Ok(Value::Length(3)));
        assert_eq!(Value::for_room(b"abc", 3), Ok(Value::Bytes(b"abc")));
        assert_eq!(Value::for_room(b"abc", 2), Err(Errno(libc::ERANGE)));
        assert_eq!(Value::for_room(b"", 1), Ok(Value::Bytes(b"")));
    }

    #[test]
    fn unknown_spaces_are_not_kept_and_acls_where_they_are_obeyed() {
        for name in ["user.a", "trusted.a", "security.capability"] {
            assert_eq!(check_name(name.as_bytes(), false), Ok(()), "{name}");
        }
        for name in ["system.posix_acl_access", "system.posix_acl_default", "a", "user.", "userx.a"]
        {
            assert_eq!(check_name(name.as_bytes(), false), Err(Errno(libc::EOPNOTSUPP)), "{name}");
        }
    }

    #[test]
    fn lists_end_each_name_and_hide_trusted_ones() {
        let names = [b"trusted.x".to_vec(), b"user.a".to_vec()];
        assert_eq!(name_list(&names, 0).unwrap(), b"trusted.x\0user.a\0");
        assert_eq!(name_list(&names, 1000).unwrap(), b"user.a\0");
        let many: Vec<_> = (0..300).map(|_| vec![b'n'; 255]).collect();
        assert_eq!(name_list(&many, 0), Err(Errno(libc::E2BIG)));
    }

    #[test]
    fn flags_say_what_must_be_there() {
        assert!(matches!(set_mode(0), Ok(XattrMode::Any)));
        assert!(matches!(set_mode(libc::XATTR_CREATE), Ok(XattrMode::Create)));
        assert!(matches!(set_mode(libc::XATTR_REPLACE), Ok(XattrMode::Replace)));
        assert!(set_mode(7).is_err());
    }
}
