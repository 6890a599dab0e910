//! Inodes, times and modes between Weir's words and FUSE's.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{Errno, FileAttr, FileType, INodeNo};
use weir_engine::RenameMode;
use weir_types::{FileKind, Ino, Inode, UnixTime};

/// `st_blksize`. Programs size their buffers by it, also those that seek: with 1 MiB, a `fseek`
/// and a small `fread` would read 1 MiB. 4 KiB is what local file systems say; those who copy
/// (`cp`, `cat`, `tar`) use more on their own, and the kernel's read-ahead makes requests large.
const BLOCK_BYTES: u32 = 4096;

/// The unit of `st_blocks`, whatever `st_blksize` is.
const STAT_BLOCK_BYTES: u64 = 512;

/// The FUSE number of an inode is its number.
pub(crate) fn node(ino: Ino) -> INodeNo {
    INodeNo(ino.0)
}

/// The inode that a FUSE number names.
pub(crate) fn ino(node: INodeNo) -> Ino {
    Ino(node.0)
}

pub(crate) fn file_type(kind: FileKind) -> FileType {
    match kind {
        FileKind::Regular => FileType::RegularFile,
        FileKind::Directory => FileType::Directory,
        FileKind::Symlink => FileType::Symlink,
        FileKind::Fifo => FileType::NamedPipe,
        FileKind::CharDevice => FileType::CharDevice,
        FileKind::BlockDevice => FileType::BlockDevice,
        FileKind::Socket => FileType::Socket,
    }
}

/// The kind in `mode` of a `mknod`; EINVAL for what `mknod` does not make.
pub(crate) fn node_kind(mode: u32) -> Result<FileKind, Errno> {
    match mode & libc::S_IFMT {
        0 | libc::S_IFREG => Ok(FileKind::Regular),
        libc::S_IFIFO => Ok(FileKind::Fifo),
        libc::S_IFCHR => Ok(FileKind::CharDevice),
        libc::S_IFBLK => Ok(FileKind::BlockDevice),
        libc::S_IFSOCK => Ok(FileKind::Socket),
        _ => Err(Errno::EINVAL),
    }
}

/// The mode of a rename by its `renameat2` flags.
pub(crate) fn rename_mode(flags: u32) -> Result<RenameMode, Errno> {
    match flags {
        0 => Ok(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Ok(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Ok(RenameMode::Exchange),
        _ => Err(Errno::EINVAL),
    }
}

/// The attributes of an inode as `stat` shows them.
pub(crate) fn attr(inode: &Inode) -> FileAttr {
    FileAttr {
        ino: node(inode.ino),
        size: match inode.kind {
            // Some programs take an empty directory file for an empty directory.
            FileKind::Directory => u64::from(BLOCK_BYTES),
            _ => inode.size,
        },
        blocks: inode.stored_bytes.div_ceil(STAT_BLOCK_BYTES),
        atime: system_time(inode.atime),
        mtime: system_time(inode.mtime),
        ctime: system_time(inode.ctime),
        crtime: system_time(inode.btime),
        kind: file_type(inode.kind),
        perm: (inode.mode & 0o7777) as u16,
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        rdev: inode.rdev,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

/// The attributes that go with number 0: "there is no such name, and you may remember that".
pub(crate) fn no_attr() -> FileAttr {
    FileAttr {
        ino: INodeNo(0),
        size: 0,
        blocks: 0,
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind: FileType::RegularFile,
        perm: 0,
        nlink: 0,
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: BLOCK_BYTES,
        flags: 0,
    }
}

pub(crate) fn system_time(time: UnixTime) -> SystemTime {
    let (secs, nanos) = time.parts();
    let whole = Duration::from_secs(secs.unsigned_abs());
    let start = if secs < 0 { UNIX_EPOCH - whole } else { UNIX_EPOCH + whole };
    start + Duration::from_nanos(u64::from(nanos))
}

/// A time as fuser decodes it from the kernel. For seconds before 1970 it counts the nanoseconds
/// backwards as well: it hands out -2.8 s for (-2 s, 0.8 s), which is -1.2 s. Undone here.
pub(crate) fn time_from_kernel(time: SystemTime) -> UnixTime {
    match time.duration_since(UNIX_EPOCH) {
        Ok(after) => {
            let secs = i64::try_from(after.as_secs()).unwrap_or(i64::MAX);
            UnixTime::from_parts(secs, after.subsec_nanos())
        }
        Err(before) => {
            let before = before.duration();
            let secs = 0_i64.saturating_sub_unsigned(before.as_secs());
            UnixTime::from_parts(secs, before.subsec_nanos())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inode() -> Inode {
        Inode {
            ino: Ino(7),
            kind: FileKind::Regular,
            mode: 0o4755,
            uid: 10,
            gid: 20,
            nlink: 2,
            size: 5000,
            rdev: 0,
            atime: UnixTime(1),
            mtime: UnixTime(-1),
            ctime: UnixTime(3),
            btime: UnixTime(4),
            parent: Ino::ROOT,
            data: weir_types::DataChange::default(),
            stored_bytes: 4097,
            target: None,
            native: None,
        }
    }

    #[test]
    fn attributes_are_those_of_the_inode() {
        let attr = attr(&inode());
        assert_eq!((attr.ino, attr.size, attr.nlink), (INodeNo(7), 5000, 2));
        assert_eq!((attr.uid, attr.gid, attr.perm), (10, 20, 0o4755));
        assert_eq!(attr.blocks, 9, "4097 bytes touch nine blocks of 512");
        assert_eq!(attr.mtime, UNIX_EPOCH - Duration::from_nanos(1));
    }

    #[test]
    fn times_survive_both_ways_of_the_kernel() {
        for nanos in [
            0,
            1,
            999_999_999,
            1_700_000_000_123_456_789,
            -1,
            -1_200_000_000,
            -9_000_000_000_300_000_000,
        ] {
            let time = UnixTime(nanos);
            let (secs, sub) = time.parts();
            let back = system_time(time).duration_since(UNIX_EPOCH);
            match back {
                Ok(after) => assert_eq!(after.as_nanos() as i128, i128::from(nanos)),
                Err(before) => {
                    assert_eq!(-(before.duration().as_nanos() as i128), i128::from(nanos));
                }
            }
            // What fuser makes of (secs, sub).
            let decoded = match secs {
                0.. => UNIX_EPOCH + Duration::new(secs as u64, sub),
                _ => UNIX_EPOCH - Duration::new(secs.unsigned_abs(), sub),
            };
            assert_eq!(time_from_kernel(decoded), time, "{nanos}");
        }
    }

    #[test]
    fn mknod_makes_what_it_should() {
        assert_eq!(node_kind(0o644), Ok(FileKind::Regular));
        assert_eq!(node_kind(libc::S_IFIFO | 0o600), Ok(FileKind::Fifo));
        assert_eq!(node_kind(libc::S_IFSOCK), Ok(FileKind::Socket));
        assert_eq!(node_kind(libc::S_IFCHR), Ok(FileKind::CharDevice));
        assert_eq!(node_kind(libc::S_IFBLK), Ok(FileKind::BlockDevice));
        assert_eq!(node_kind(libc::S_IFDIR), Err(Errno::EINVAL));
        assert_eq!(node_kind(libc::S_IFLNK), Err(Errno::EINVAL));
    }

    #[test]
    fn rename_flags_are_one_of_three() {
        assert!(matches!(rename_mode(0), Ok(RenameMode::Replace)));
        assert!(matches!(rename_mode(libc::RENAME_NOREPLACE), Ok(RenameMode::NoReplace)));
        assert!(matches!(rename_mode(libc::RENAME_EXCHANGE), Ok(RenameMode::Exchange)));
        for bad in [libc::RENAME_WHITEOUT, libc::RENAME_EXCHANGE | libc::RENAME_NOREPLACE, 1 << 9] {
            assert!(matches!(rename_mode(bad), Err(Errno::EINVAL)), "{bad}");
        }
    }
}
