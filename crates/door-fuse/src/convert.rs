//! Inodes, times and modes between Weir's words and FUSE's.

use weir_engine::RenameMode;
use weir_fuse::{Attr, Errno, Timestamp};
use weir_types::{FileKind, Inode, UnixTime};

/// `st_blksize`. Programs size their buffers by it, also those that seek: with 1 MiB, a `fseek`
/// and a small `fread` would read 1 MiB. 4 KiB is what local file systems say; those who copy
/// (`cp`, `cat`, `tar`) use more on their own, and the kernel's read-ahead makes requests large.
const BLOCK_BYTES: u32 = 4096;

/// The unit of `st_blocks`, whatever `st_blksize` is.
const STAT_BLOCK_BYTES: u64 = 512;

/// The type in `st_mode`.
pub(crate) fn file_type(kind: FileKind) -> u32 {
    match kind {
        FileKind::Regular => libc::S_IFREG,
        FileKind::Directory => libc::S_IFDIR,
        FileKind::Symlink => libc::S_IFLNK,
        FileKind::Fifo => libc::S_IFIFO,
        FileKind::CharDevice => libc::S_IFCHR,
        FileKind::BlockDevice => libc::S_IFBLK,
        FileKind::Socket => libc::S_IFSOCK,
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
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// The mode of a rename by its `renameat2` flags.
pub(crate) fn rename_mode(flags: u32) -> Result<RenameMode, Errno> {
    match flags {
        0 => Ok(RenameMode::Replace),
        libc::RENAME_NOREPLACE => Ok(RenameMode::NoReplace),
        libc::RENAME_EXCHANGE => Ok(RenameMode::Exchange),
        _ => Err(Errno(libc::EINVAL)),
    }
}

/// The attributes of an inode as `stat` shows them.
pub(crate) fn attr(inode: &Inode) -> Attr {
    Attr {
        ino: inode.ino.0,
        size: match inode.kind {
            // Some programs take an empty directory file for an empty directory.
            FileKind::Directory => u64::from(BLOCK_BYTES),
            _ => inode.size,
        },
        blocks: inode.stored_bytes.div_ceil(STAT_BLOCK_BYTES),
        atime: timestamp(inode.atime),
        mtime: timestamp(inode.mtime),
        ctime: timestamp(inode.ctime),
        mode: file_type(inode.kind) | inode.mode & 0o7777,
        nlink: inode.nlink,
        uid: inode.uid,
        gid: inode.gid,
        rdev: inode.rdev,
        blksize: BLOCK_BYTES,
    }
}

pub(crate) fn timestamp(time: UnixTime) -> Timestamp {
    let (secs, nanos) = time.parts();
    Timestamp { secs, nanos }
}

/// A time as the kernel gives it.
pub(crate) fn unix_time(time: Timestamp) -> UnixTime {
    UnixTime::from_parts(time.secs, time.nanos)
}

#[cfg(test)]
mod tests {
    use weir_types::Ino;

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
            account: weir_types::Account::default(),
            native: None,
        }
    }

    #[test]
    fn attributes_are_those_of_the_inode() {
        let attr = attr(&inode());
        assert_eq!((attr.ino, attr.size, attr.nlink), (7, 5000, 2));
        assert_eq!((attr.uid, attr.gid, attr.mode), (10, 20, 0o104_755));
        assert_eq!(attr.blocks, 9, "4097 bytes touch nine blocks of 512");
        assert_eq!(attr.mtime, Timestamp { secs: -1, nanos: 999_999_999 });
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
            let kernel = timestamp(time);
            assert!(kernel.nanos < 1_000_000_000);
            assert_eq!(unix_time(kernel), time, "{nanos}");
        }
    }

    #[test]
    fn mknod_makes_what_it_should() {
        assert_eq!(node_kind(0o644), Ok(FileKind::Regular));
        assert_eq!(node_kind(libc::S_IFIFO | 0o600), Ok(FileKind::Fifo));
        assert_eq!(node_kind(libc::S_IFSOCK), Ok(FileKind::Socket));
        assert_eq!(node_kind(libc::S_IFCHR), Ok(FileKind::CharDevice));
        assert_eq!(node_kind(libc::S_IFBLK), Ok(FileKind::BlockDevice));
        assert_eq!(node_kind(libc::S_IFDIR), Err(Errno(libc::EINVAL)));
        assert_eq!(node_kind(libc::S_IFLNK), Err(Errno(libc::EINVAL)));
    }

    #[test]
    fn rename_flags_are_one_of_three() {
        assert!(matches!(rename_mode(0), Ok(RenameMode::Replace)));
        assert!(matches!(rename_mode(libc::RENAME_NOREPLACE), Ok(RenameMode::NoReplace)));
        assert!(matches!(rename_mode(libc::RENAME_EXCHANGE), Ok(RenameMode::Exchange)));
        for bad in [libc::RENAME_WHITEOUT, libc::RENAME_EXCHANGE | libc::RENAME_NOREPLACE, 1 << 9] {
            assert!(matches!(rename_mode(bad), Err(Errno(libc::EINVAL))), "{bad}");
        }
    }
}
