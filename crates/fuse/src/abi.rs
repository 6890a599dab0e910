//! Numbers of the protocol (`linux/fuse.h`), as far as they are spoken of here.

/// The version that is spoken: 7.42. What an older kernel lacks is not asked of it.
pub(crate) const VERSION: (u32, u32) = (7, 42);
/// The oldest minor version with which all messages have the sizes that are read here.
pub(crate) const MINOR_MIN: u32 = 23;

/// Kinds of requests.
pub(crate) mod op {
    pub(crate) const LOOKUP: u32 = 1;
    pub(crate) const FORGET: u32 = 2;
    pub(crate) const GETATTR: u32 = 3;
    pub(crate) const SETATTR: u32 = 4;
    pub(crate) const READLINK: u32 = 5;
    pub(crate) const SYMLINK: u32 = 6;
    pub(crate) const MKNOD: u32 = 8;
    pub(crate) const MKDIR: u32 = 9;
    pub(crate) const UNLINK: u32 = 10;
    pub(crate) const RMDIR: u32 = 11;
    pub(crate) const RENAME: u32 = 12;
    pub(crate) const LINK: u32 = 13;
    pub(crate) const OPEN: u32 = 14;
    pub(crate) const READ: u32 = 15;
    pub(crate) const WRITE: u32 = 16;
    pub(crate) const STATFS: u32 = 17;
    pub(crate) const RELEASE: u32 = 18;
    pub(crate) const FSYNC: u32 = 20;
    pub(crate) const SETXATTR: u32 = 21;
    pub(crate) const GETXATTR: u32 = 22;
    pub(crate) const LISTXATTR: u32 = 23;
    pub(crate) const REMOVEXATTR: u32 = 24;
    pub(crate) const FLUSH: u32 = 25;
    pub(crate) const INIT: u32 = 26;
    pub(crate) const OPENDIR: u32 = 27;
    pub(crate) const READDIR: u32 = 28;
    pub(crate) const RELEASEDIR: u32 = 29;
    pub(crate) const FSYNCDIR: u32 = 30;
    pub(crate) const GETLK: u32 = 31;
    pub(crate) const SETLK: u32 = 32;
    pub(crate) const SETLKW: u32 = 33;
    pub(crate) const ACCESS: u32 = 34;
    pub(crate) const CREATE: u32 = 35;
    pub(crate) const INTERRUPT: u32 = 36;
    pub(crate) const DESTROY: u32 = 38;
    pub(crate) const IOCTL: u32 = 39;
    pub(crate) const BATCH_FORGET: u32 = 42;
    pub(crate) const FALLOCATE: u32 = 43;
    pub(crate) const READDIRPLUS: u32 = 44;
    pub(crate) const RENAME2: u32 = 45;
    pub(crate) const LSEEK: u32 = 46;
    pub(crate) const COPY_FILE_RANGE: u32 = 47;
    pub(crate) const STATX: u32 = 52;
}

/// Abilities that kernel and daemon agree on (`FUSE_*` of init).
///
/// What is not here, and why not:
///
/// | flag | what it would do | why nobody asks for it |
/// |---|---|---|
/// | `WRITEBACK_CACHE` | the kernel holds writes back | what was acknowledged must outlive the daemon; it excludes passthrough |
/// | `NO_OPEN_SUPPORT`, `NO_OPENDIR_SUPPORT` | no opens any more, once one got ENOSYS | who has a file open keeps it after its removal, decides how it is read, and is seen by exports; a listing is one copy from its start to its end |
/// | `SECURITY_CTX` | a label comes with what is made | SELinux labels a FUSE mount as a whole, unless its policy says otherwise |
/// | `CREATE_SUPP_GROUP` | a group of the maker's comes with what is made | for set-group-id in directories with it, which the kernel sees to itself since Linux 6.0 |
/// | `HAS_EXPIRE_ONLY` | tells that names may be expired and not dropped | older kernels take one for the other |
/// | `READDIRPLUS_AUTO` | listings with inodes by the kernel's guess | it comes after the whole listing |
/// | `SPLICE_*` | pipes in the place of copies | never faster where it was tried |
/// | `SUBMOUNTS`, `MAP_ALIGNMENT`, `HAS_INODE_DAX` | | no directory here is a mount of its own, no guest maps anything |
/// | `HANDLE_KILLPRIV` | the first version of [`HANDLE_KILLPRIV_V2`](init::HANDLE_KILLPRIV_V2) | it does not say which writes |
/// | `REQUEST_TIMEOUT` | the kernel ends a mount that answers late | a bucket may be away for longer |
pub mod init {
    #![allow(missing_docs, reason = "the kernel's names: linux/fuse.h says what each is")]
    pub const ASYNC_READ: u64 = 1;
    pub const POSIX_LOCKS: u64 = 1 << 1;
    pub const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub const EXPORT_SUPPORT: u64 = 1 << 4;
    pub const BIG_WRITES: u64 = 1 << 5;
    pub const DONT_MASK: u64 = 1 << 6;
    pub const FLOCK_LOCKS: u64 = 1 << 10;
    pub const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub const DO_READDIRPLUS: u64 = 1 << 13;
    pub const ASYNC_DIO: u64 = 1 << 15;
    pub const PARALLEL_DIROPS: u64 = 1 << 18;
    pub const POSIX_ACL: u64 = 1 << 20;
    pub const MAX_PAGES: u64 = 1 << 22;
    pub const CACHE_SYMLINKS: u64 = 1 << 23;
    pub const EXPLICIT_INVAL_DATA: u64 = 1 << 25;
    pub const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub const SETXATTR_EXT: u64 = 1 << 29;
    pub const INIT_EXT: u64 = 1 << 30;
    pub const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
    pub const PASSTHROUGH: u64 = 1 << 37;
    pub const HAS_RESEND: u64 = 1 << 39;
    pub const OVER_IO_URING: u64 = 1 << 41;
}

/// How the kernel is to treat an open file (`FOPEN_*`).
pub mod open {
    #![allow(missing_docs, reason = "the kernel's names: linux/fuse.h says what each is")]
    pub const DIRECT_IO: u32 = 1;
    pub const KEEP_CACHE: u32 = 1 << 1;
    pub const CACHE_DIR: u32 = 1 << 3;
    pub const NOFLUSH: u32 = 1 << 5;
    pub const PARALLEL_DIRECT_WRITES: u32 = 1 << 6;
    pub const PASSTHROUGH: u32 = 1 << 7;
}

/// What a write is (`FUSE_WRITE_*`).
pub mod write {
    /// Of a page that was stored into through a mapping.
    pub const CACHE: u32 = 1;
    /// Set-user-id and set-group-id are to go.
    pub const KILL_SUIDGID: u32 = 1 << 2;
}

/// What goes with the end of an open file (`FUSE_RELEASE_*`).
pub mod release {
    /// It may have locks of the whole file.
    pub const FLOCK_UNLOCK: u32 = 1 << 1;
}

/// What a lock is (`FUSE_LK_*`).
pub mod lock {
    /// Of the whole file, by `flock`.
    pub const FLOCK: u32 = 1;
}

/// `FUSE_SETXATTR_ACL_KILL_SGID`: whoever sets this list is not in the file's group.
pub(crate) const SETXATTR_ACL_KILL_SGID: u32 = 1;

/// What is known of a statx (`STATX_BASIC_STATS | STATX_BTIME`).
pub(crate) const STATX_KNOWN: u32 = 0xfff;

/// Which attributes a setattr is for.
pub(crate) mod fattr {
    pub(crate) const MODE: u32 = 1;
    pub(crate) const UID: u32 = 1 << 1;
    pub(crate) const GID: u32 = 1 << 2;
    pub(crate) const SIZE: u32 = 1 << 3;
    pub(crate) const ATIME: u32 = 1 << 4;
    pub(crate) const MTIME: u32 = 1 << 5;
    pub(crate) const ATIME_NOW: u32 = 1 << 7;
    pub(crate) const MTIME_NOW: u32 = 1 << 8;
    pub(crate) const CTIME: u32 = 1 << 10;
}

/// Notifications.
pub(crate) mod notify {
    pub(crate) const INVAL_INODE: i32 = 2;
    pub(crate) const INVAL_ENTRY: i32 = 3;
    /// Of an entry: it is asked for again, and not dropped. Kernels that lack it do not look at flags.
    pub(crate) const EXPIRE_ONLY: u32 = 1;
    pub(crate) const RESEND: i32 = 7;
    pub(crate) const INC_EPOCH: i32 = 8;
}

/// Requests over io_uring.
pub(crate) mod uring {
    /// A command: an entry for the kernel to put requests into.
    pub(crate) const REGISTER: u32 = 1;
    /// A command: the answer to an entry's request, and the entry for the next one.
    pub(crate) const COMMIT_AND_FETCH: u32 = 2;
    /// Bytes of `struct fuse_uring_req_header`.
    pub(crate) const HEADERS_BYTES: usize = 288;
    /// In it, behind the message's header, the numbers of a request: its first argument.
    pub(crate) const NUMBERS_AT: usize = 128;
    /// In it, `struct fuse_uring_ent_in_out`: flags, commit id, bytes of the payload.
    pub(crate) const ENTRY_AT: usize = 256;
}
