//! Requests of the kernel.

use crate::abi::{OPEN_KILL_SUIDGID, SETXATTR_ACL_KILL_SGID, fattr, op};
use crate::attr::{Time, Timestamp};
use crate::bytes::Input;

/// Bytes of what all requests say.
const HEADER_BYTES: usize = 40;

/// What all requests say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    pub(crate) opcode: u32,
    pub(crate) unique: u64,
    /// The inode that it is for: of a name, the directory.
    pub ino: u64,
    /// Who asks.
    pub uid: u32,
    /// Its group.
    pub gid: u32,
    /// The thread that asks; 0 where it cannot be named here, and where nobody waits.
    pub pid: u32,
}

/// A range of bytes to be locked, and how.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LockRange {
    /// First byte.
    pub start: u64,
    /// Last byte.
    pub end: u64,
    /// `F_RDLCK`, `F_WRLCK` or `F_UNLCK`.
    pub kind: i32,
    /// The process.
    pub pid: u32,
}

/// What a setattr is to set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are those of stat")]
pub struct SetAttr {
    pub mode: Option<u32>,
    pub uid: Option<u32>,
    pub gid: Option<u32>,
    pub size: Option<u64>,
    pub atime: Option<Time>,
    pub mtime: Option<Time>,
    pub ctime: Option<Timestamp>,
    /// Set-user-id and set-group-id are to go: of a change of the size, because the caller lacks
    /// CAP_FSETID. With [`crate::init::HANDLE_KILLPRIV_V2`].
    pub kills_privileges: bool,
}

/// What the messages' layout depends on, as it was agreed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Dialect {
    /// A setxattr has flags of its own behind the system call's.
    pub(crate) setxattr_ext: bool,
}

/// What is asked. Fields are those of the system calls; `fh` is the handle of an open file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "they are the system calls' own")]
pub enum Operation<'a> {
    Lookup {
        name: &'a [u8],
    },
    /// Of one inode or of many; nobody waits for an answer.
    Forget,
    Getattr,
    /// Attributes with the time of birth.
    Statx,
    Setattr(SetAttr),
    Readlink,
    Symlink {
        name: &'a [u8],
        target: &'a [u8],
    },
    Mknod {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        rdev: u32,
    },
    Mkdir {
        name: &'a [u8],
        mode: u32,
        umask: u32,
    },
    Unlink {
        name: &'a [u8],
    },
    Rmdir {
        name: &'a [u8],
    },
    Rename {
        name: &'a [u8],
        to: u64,
        new_name: &'a [u8],
        flags: u32,
    },
    /// `target` gets a name in the request's directory.
    Link {
        target: u64,
        name: &'a [u8],
    },
    Open {
        flags: i32,
        /// Set-user-id and set-group-id are to go: it cuts the file, and the caller lacks CAP_FSETID.
        kills_privileges: bool,
    },
    Create {
        name: &'a [u8],
        mode: u32,
        umask: u32,
        flags: i32,
        /// As of an open, where the file is there already.
        kills_privileges: bool,
    },
    Read {
        fh: u64,
        offset: u64,
        size: u32,
    },
    Write {
        fh: u64,
        offset: u64,
        write_flags: u32,
        flags: i32,
        data: &'a [u8],
    },
    Statfs,
    Release {
        fh: u64,
        release_flags: u32,
        lock_owner: u64,
    },
    Fsync {
        fh: u64,
    },
    Setxattr {
        name: &'a [u8],
        value: &'a [u8],
        flags: i32,
        /// Set-group-id is to go with it.
        kills_set_gid: bool,
    },
    Getxattr {
        name: &'a [u8],
        size: u32,
    },
    Listxattr {
        size: u32,
    },
    Removexattr {
        name: &'a [u8],
    },
    Flush {
        lock_owner: u64,
    },
    Opendir,
    Readdir {
        fh: u64,
        offset: u64,
        size: u32,
    },
    Readdirplus {
        fh: u64,
        offset: u64,
        size: u32,
    },
    Releasedir {
        fh: u64,
    },
    Fsyncdir,
    Getlk {
        owner: u64,
        lock: LockRange,
        lk_flags: u32,
    },
    Setlk {
        owner: u64,
        lock: LockRange,
        lk_flags: u32,
        wait: bool,
    },
    Access,
    Ioctl,
    Fallocate {
        offset: u64,
        len: u64,
        mode: i32,
    },
    Lseek {
        offset: i64,
        whence: i32,
    },
    CopyFileRange {
        offset: u64,
        to: u64,
        to_offset: u64,
        len: u64,
        /// The answer is [`crate::Reply::copied`], else [`crate::Reply::size`], which has less than
        /// 4 GiB.
        wide: bool,
    },
    /// The request `unique` is to be ended.
    Interrupt {
        unique: u64,
    },
    Destroy,
    /// What is not spoken here.
    Other,
}

impl Request {
    /// The header, and what follows it.
    pub(crate) fn parse(message: &[u8]) -> Option<(Self, Input<'_>)> {
        let (request, len) = Self::header(message)?;
        Some((request, Input::new(message.get(HEADER_BYTES..len)?)))
    }

    /// The same where header, numbers, and names and bytes lie apart. Of the numbers as many count
    /// as the header says.
    pub(crate) fn parse_parts<'a>(
        header: &[u8],
        numbers: &'a [u8],
        payload: &'a [u8],
    ) -> Option<(Self, Input<'a>)> {
        let (request, len) = Self::header(header)?;
        let count = len.checked_sub(HEADER_BYTES + payload.len())?;
        Some((request, Input::in_parts(numbers.get(..count)?, payload)))
    }

    fn header(message: &[u8]) -> Option<(Self, usize)> {
        let mut input = Input::new(message);
        let len = input.u32()? as usize;
        let opcode = input.u32()?;
        let (unique, ino) = (input.u64()?, input.u64()?);
        let (uid, gid, pid) = (input.u32()?, input.u32()?, input.u32()?);
        input.skip(4)?;
        Some((Self { opcode, unique, ino, uid, gid, pid }, len))
    }
}

impl<'a> Operation<'a> {
    /// What a message asks; `None` where it is shorter than its kind.
    pub(crate) fn parse(dialect: Dialect, opcode: u32, mut input: Input<'a>) -> Option<Self> {
        let i = &mut input;
        Some(match opcode {
            op::LOOKUP => Self::Lookup { name: i.name()? },
            op::FORGET | op::BATCH_FORGET => Self::Forget,
            op::GETATTR => Self::Getattr,
            op::STATX => Self::Statx,
            op::SETATTR => Self::Setattr(set_attr(i)?),
            op::READLINK => Self::Readlink,
            op::SYMLINK => Self::Symlink { name: i.name()?, target: i.name()? },
            op::UNLINK => Self::Unlink { name: i.name()? },
            op::RMDIR => Self::Rmdir { name: i.name()? },
            op::LINK => Self::Link { target: i.u64()?, name: i.name()? },
            op::OPEN => {
                let flags = i.u32()? as i32;
                Self::Open { flags, kills_privileges: i.u32()? & OPEN_KILL_SUIDGID != 0 }
            }
            op::STATFS => Self::Statfs,
            op::FSYNC => Self::Fsync { fh: i.u64()? },
            op::REMOVEXATTR => Self::Removexattr { name: i.name()? },
            op::OPENDIR => Self::Opendir,
            op::RELEASEDIR => Self::Releasedir { fh: i.u64()? },
            op::FSYNCDIR => Self::Fsyncdir,
            op::ACCESS => Self::Access,
            op::IOCTL => Self::Ioctl,
            op::INTERRUPT => Self::Interrupt { unique: i.u64()? },
            op::DESTROY => Self::Destroy,
            op::MKNOD | op::MKDIR | op::CREATE | op::RENAME | op::RENAME2 => names(opcode, i)?,
            op::SETXATTR => set_xattr(dialect, i)?,
            op::GETXATTR | op::LISTXATTR => xattr(opcode, i)?,
            op::GETLK | op::SETLK | op::SETLKW => lock(opcode, i)?,
            _ => return file(opcode, i),
        })
    }
}

fn names<'a>(opcode: u32, i: &mut Input<'a>) -> Option<Operation<'a>> {
    Some(match opcode {
        op::MKNOD => {
            let (mode, rdev, umask) = (i.u32()?, i.u32()?, i.u32()?);
            i.skip(4)?;
            Operation::Mknod { name: i.name()?, mode, umask, rdev }
        }
        op::MKDIR => {
            let (mode, umask) = (i.u32()?, i.u32()?);
            Operation::Mkdir { name: i.name()?, mode, umask }
        }
        op::CREATE => {
            let (flags, mode, umask) = (i.u32()? as i32, i.u32()?, i.u32()?);
            let kills_privileges = i.u32()? & OPEN_KILL_SUIDGID != 0;
            Operation::Create { name: i.name()?, mode, umask, flags, kills_privileges }
        }
        _ => {
            let to = i.u64()?;
            let flags = if opcode == op::RENAME2 { i.u32()? } else { 0 };
            i.skip(if opcode == op::RENAME2 { 4 } else { 0 })?;
            Operation::Rename { name: i.name()?, to, new_name: i.name()?, flags }
        }
    })
}

fn set_xattr<'a>(dialect: Dialect, i: &mut Input<'a>) -> Option<Operation<'a>> {
    let (size, flags) = (i.u32()? as usize, i.u32()? as i32);
    let more = if dialect.setxattr_ext { i.u32()? } else { 0 };
    i.skip(if dialect.setxattr_ext { 4 } else { 0 })?;
    let kills_set_gid = more & SETXATTR_ACL_KILL_SGID != 0;
    let name = i.name()?;
    Some(Operation::Setxattr { name, value: i.bytes(size)?, flags, kills_set_gid })
}

fn xattr<'a>(opcode: u32, i: &mut Input<'a>) -> Option<Operation<'a>> {
    let size = i.u32()?;
    i.skip(4)?;
    Some(match opcode {
        op::GETXATTR => Operation::Getxattr { name: i.name()?, size },
        _ => Operation::Listxattr { size },
    })
}

fn lock<'a>(opcode: u32, i: &mut Input<'a>) -> Option<Operation<'a>> {
    i.skip(8)?;
    let owner = i.u64()?;
    let (start, end) = (i.u64()?, i.u64()?);
    let (kind, pid) = (i.u32()? as i32, i.u32()?);
    let lk_flags = i.u32()?;
    let lock = LockRange { start, end, kind, pid };
    Some(match opcode {
        op::GETLK => Operation::Getlk { owner, lock, lk_flags },
        _ => Operation::Setlk { owner, lock, lk_flags, wait: opcode == op::SETLKW },
    })
}

/// What is asked of an open file.
fn file<'a>(opcode: u32, i: &mut Input<'a>) -> Option<Operation<'a>> {
    Some(match opcode {
        op::READ | op::READDIR | op::READDIRPLUS => {
            let (fh, offset, size) = (i.u64()?, i.u64()?, i.u32()?);
            match opcode {
                op::READ => Operation::Read { fh, offset, size },
                op::READDIR => Operation::Readdir { fh, offset, size },
                _ => Operation::Readdirplus { fh, offset, size },
            }
        }
        op::WRITE => {
            let (fh, offset) = (i.u64()?, i.u64()?);
            let (size, write_flags) = (i.u32()?, i.u32()?);
            i.skip(8)?;
            let flags = i.u32()? as i32;
            i.skip(4)?;
            let data = i.bytes(size as usize)?;
            Operation::Write { fh, offset, write_flags, flags, data }
        }
        op::RELEASE => {
            let fh = i.u64()?;
            i.skip(4)?;
            Operation::Release { fh, release_flags: i.u32()?, lock_owner: i.u64()? }
        }
        op::FLUSH => {
            i.skip(16)?;
            Operation::Flush { lock_owner: i.u64()? }
        }
        op::FALLOCATE => {
            i.skip(8)?;
            Operation::Fallocate { offset: i.u64()?, len: i.u64()?, mode: i.u32()? as i32 }
        }
        op::LSEEK => {
            i.skip(8)?;
            Operation::Lseek { offset: i.u64()? as i64, whence: i.u32()? as i32 }
        }
        op::COPY_FILE_RANGE | op::COPY_FILE_RANGE_64 => {
            i.skip(8)?;
            let (offset, to) = (i.u64()?, i.u64()?);
            i.skip(8)?;
            let (to_offset, len) = (i.u64()?, i.u64()?);
            let wide = opcode == op::COPY_FILE_RANGE_64;
            Operation::CopyFileRange { offset, to, to_offset, len, wide }
        }
        _ => Operation::Other,
    })
}

fn set_attr(i: &mut Input<'_>) -> Option<SetAttr> {
    let valid = i.u32()?;
    i.skip(12)?;
    let size = i.u64()?;
    i.skip(8)?;
    // The kernel writes signed numbers.
    let secs = [i.u64()? as i64, i.u64()? as i64, i.u64()? as i64];
    let nanos = [i.u32()?, i.u32()?, i.u32()?];
    let mode = i.u32()?;
    i.skip(4)?;
    let (uid, gid) = (i.u32()?, i.u32()?);
    let is = |bit| valid & bit != 0;
    let at = |n: usize| Timestamp { secs: secs[n], nanos: nanos[n] };
    let time = |n, set, now| match (is(set), is(now)) {
        (false, _) => None,
        (true, true) => Some(Time::Now),
        (true, false) => Some(Time::At(at(n))),
    };
    Some(SetAttr {
        mode: is(fattr::MODE).then_some(mode),
        uid: is(fattr::UID).then_some(uid),
        gid: is(fattr::GID).then_some(gid),
        size: is(fattr::SIZE).then_some(size),
        atime: time(0, fattr::ATIME, fattr::ATIME_NOW),
        mtime: time(1, fattr::MTIME, fattr::MTIME_NOW),
        ctime: is(fattr::CTIME).then(|| at(2)),
        kills_privileges: is(fattr::KILL_SUIDGID),
    })
}

#[cfg(test)]
mod tests;
