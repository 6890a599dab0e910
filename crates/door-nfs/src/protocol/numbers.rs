//! Numbers of RFC 5662, 7862 and 8276.

/// Operations.
pub(crate) mod op {
    macro_rules! ops {
        ($($name:ident = $number:literal)*) => {
            $(pub(crate) const $name: u32 = $number;)*

            /// What an operation is called, for people.
            pub(crate) fn name(number: u32) -> &'static str {
                match number {
                    $($number => stringify!($name),)*
                    _ => "ILLEGAL",
                }
            }
        };
    }

    ops! {
        ACCESS = 3
        CLOSE = 4
        COMMIT = 5
        CREATE = 6
        DELEGRETURN = 8
        GETATTR = 9
        GETFH = 10
        LINK = 11
        LOCK = 12
        LOCKT = 13
        LOCKU = 14
        LOOKUP = 15
        LOOKUPP = 16
        NVERIFY = 17
        OPEN = 18
        OPEN_DOWNGRADE = 21
        PUTFH = 22
        PUTPUBFH = 23
        PUTROOTFH = 24
        READ = 25
        READDIR = 26
        READLINK = 27
        REMOVE = 28
        RENAME = 29
        RESTOREFH = 31
        SAVEFH = 32
        SECINFO = 33
        SETATTR = 34
        VERIFY = 37
        WRITE = 38
        BACKCHANNEL_CTL = 40
        BIND_CONN_TO_SESSION = 41
        EXCHANGE_ID = 42
        CREATE_SESSION = 43
        DESTROY_SESSION = 44
        FREE_STATEID = 45
        SECINFO_NO_NAME = 52
        SEQUENCE = 53
        TEST_STATEID = 55
        DESTROY_CLIENTID = 57
        RECLAIM_COMPLETE = 58
        ALLOCATE = 59
        COPY = 60
        DEALLOCATE = 62
        SEEK = 69
        CLONE = 71
        GETXATTR = 72
        SETXATTR = 73
        LISTXATTRS = 74
        REMOVEXATTR = 75
    }

    /// What answers an operation that there is not.
    pub(crate) const ILLEGAL: u32 = 10_044;
}

/// Attributes.
pub(crate) mod attr {
    pub(crate) const SUPPORTED_ATTRS: u32 = 0;
    pub(crate) const TYPE: u32 = 1;
    pub(crate) const FH_EXPIRE_TYPE: u32 = 2;
    pub(crate) const CHANGE: u32 = 3;
    pub(crate) const SIZE: u32 = 4;
    pub(crate) const LINK_SUPPORT: u32 = 5;
    pub(crate) const SYMLINK_SUPPORT: u32 = 6;
    pub(crate) const NAMED_ATTR: u32 = 7;
    pub(crate) const FSID: u32 = 8;
    pub(crate) const UNIQUE_HANDLES: u32 = 9;
    pub(crate) const LEASE_TIME: u32 = 10;
    pub(crate) const RDATTR_ERROR: u32 = 11;
    pub(crate) const ACLSUPPORT: u32 = 13;
    pub(crate) const CANSETTIME: u32 = 15;
    pub(crate) const CASE_INSENSITIVE: u32 = 16;
    pub(crate) const CASE_PRESERVING: u32 = 17;
    pub(crate) const CHOWN_RESTRICTED: u32 = 18;
    pub(crate) const FILEHANDLE: u32 = 19;
    pub(crate) const FILEID: u32 = 20;
    pub(crate) const FILES_AVAIL: u32 = 21;
    pub(crate) const FILES_FREE: u32 = 22;
    pub(crate) const FILES_TOTAL: u32 = 23;
    pub(crate) const HOMOGENEOUS: u32 = 26;
    pub(crate) const MAXFILESIZE: u32 = 27;
    pub(crate) const MAXLINK: u32 = 28;
    pub(crate) const MAXNAME: u32 = 29;
    pub(crate) const MAXREAD: u32 = 30;
    pub(crate) const MAXWRITE: u32 = 31;
    pub(crate) const MODE: u32 = 33;
    pub(crate) const NO_TRUNC: u32 = 34;
    pub(crate) const NUMLINKS: u32 = 35;
    pub(crate) const OWNER: u32 = 36;
    pub(crate) const OWNER_GROUP: u32 = 37;
    pub(crate) const RAWDEV: u32 = 41;
    pub(crate) const SPACE_AVAIL: u32 = 42;
    pub(crate) const SPACE_FREE: u32 = 43;
    pub(crate) const SPACE_TOTAL: u32 = 44;
    pub(crate) const SPACE_USED: u32 = 45;
    pub(crate) const TIME_ACCESS: u32 = 47;
    pub(crate) const TIME_ACCESS_SET: u32 = 48;
    pub(crate) const TIME_CREATE: u32 = 50;
    pub(crate) const TIME_DELTA: u32 = 51;
    pub(crate) const TIME_METADATA: u32 = 52;
    pub(crate) const TIME_MODIFY: u32 = 53;
    pub(crate) const TIME_MODIFY_SET: u32 = 54;
    pub(crate) const MOUNTED_ON_FILEID: u32 = 55;
    pub(crate) const SUPPATTR_EXCLCREAT: u32 = 75;
    pub(crate) const CLONE_BLKSIZE: u32 = 77;
    pub(crate) const CHANGE_ATTR_TYPE: u32 = 79;
    pub(crate) const MODE_UMASK: u32 = 81;
    pub(crate) const XATTR_SUPPORT: u32 = 82;
}

/// What a client may ask to do (`ACCESS`).
pub(crate) mod access {
    pub(crate) const READ: u32 = 0x01;
    pub(crate) const LOOKUP: u32 = 0x02;
    pub(crate) const MODIFY: u32 = 0x04;
    pub(crate) const EXTEND: u32 = 0x08;
    pub(crate) const DELETE: u32 = 0x10;
    pub(crate) const EXECUTE: u32 = 0x20;
    pub(crate) const XAREAD: u32 = 0x40;
    pub(crate) const XAWRITE: u32 = 0x80;
    pub(crate) const XALIST: u32 = 0x100;
}

/// Opening.
pub(crate) mod open {
    pub(crate) const READ: u32 = 1;
    pub(crate) const WRITE: u32 = 2;
    pub(crate) const BOTH: u32 = 3;
    /// What of the access is about delegations.
    pub(crate) const WANT_MASK: u32 = WANT_KIND | 0x30000 | 0x100000;
    /// Which one is wanted.
    pub(crate) const WANT_KIND: u32 = 0xff00;
    pub(crate) const WANT_ANYTHING: u32 = 0;
    pub(crate) const WANT_READ: u32 = 0x100;
    pub(crate) const WANT_ANY: u32 = 0x300;
    pub(crate) const WANT_NONE: u32 = 0x400;
    pub(crate) const WANT_CANCEL: u32 = 0x500;
    pub(crate) const CREATE: u32 = 1;
    pub(crate) const UNCHECKED: u32 = 0;
    pub(crate) const GUARDED: u32 = 1;
    pub(crate) const EXCLUSIVE: u32 = 2;
    pub(crate) const EXCLUSIVE4_1: u32 = 3;
    pub(crate) const CLAIM_NULL: u32 = 0;
    pub(crate) const CLAIM_PREVIOUS: u32 = 1;
    pub(crate) const CLAIM_DELEGATE_CUR: u32 = 2;
    pub(crate) const CLAIM_DELEGATE_PREV: u32 = 3;
    pub(crate) const CLAIM_FH: u32 = 4;
    pub(crate) const CLAIM_DELEG_CUR_FH: u32 = 5;
    pub(crate) const CLAIM_DELEG_PREV_FH: u32 = 6;
    /// Locks work as POSIX has it.
    pub(crate) const RESULT_LOCKTYPE_POSIX: u32 = 4;
    pub(crate) const DELEGATE_NONE: u32 = 0;
    pub(crate) const DELEGATE_READ: u32 = 1;
    /// None, and why.
    pub(crate) const DELEGATE_NONE_EXT: u32 = 3;
    pub(crate) const NOT_WANTED: u32 = 0;
    /// Somebody writes the file, or did of late.
    pub(crate) const CONTENTION: u32 = 1;
    /// There is no room, or no way to ask for it back.
    pub(crate) const RESOURCE: u32 = 2;
    pub(crate) const NO_WRITE_DELEGATIONS: u32 = 4;
    pub(crate) const CANCELLED: u32 = 7;
}

/// What is asked of clients.
pub(crate) mod callback {
    /// The version of their program.
    pub(crate) const VERSION: u32 = 1;
    pub(crate) const RECALL: u32 = 4;
    pub(crate) const SEQUENCE: u32 = 11;
}

/// What `SEQUENCE` says of a client's state.
pub(crate) mod told {
    /// The client cannot be asked anything.
    pub(crate) const NO_WAY_BACK: u32 = 1;
    pub(crate) const DELEGATIONS_REVOKED: u32 = 0x40;
    /// It has something to claim from before a restart.
    pub(crate) const RECLAIM_NEEDED: u32 = 0x100;
    /// No connection is bound to the session for what is asked.
    pub(crate) const SESSION_NO_WAY_BACK: u32 = 0x200;
}

/// Types of files.
pub(crate) mod ftype {
    pub(crate) const REG: u32 = 1;
    pub(crate) const DIR: u32 = 2;
    pub(crate) const BLK: u32 = 3;
    pub(crate) const CHR: u32 = 4;
    pub(crate) const LNK: u32 = 5;
    pub(crate) const SOCK: u32 = 6;
    pub(crate) const FIFO: u32 = 7;
}

/// How durable a write is.
pub(crate) mod stable {
    pub(crate) const UNSTABLE: u32 = 0;
    pub(crate) const FILE_SYNC: u32 = 2;
}

/// Flags of `EXCHANGE_ID`.
pub(crate) mod exchange {
    pub(crate) const USE_NON_PNFS: u32 = 0x0001_0000;
    pub(crate) const PNFS_MASK: u32 = 0x0007_0000;
    pub(crate) const UPDATE: u32 = 0x4000_0000;
    pub(crate) const CONFIRMED: u32 = 0x8000_0000;
    /// Those that a client may give.
    pub(crate) const KNOWN: u32 = 0x0007_0103 | UPDATE;
}

/// Whether an operation changes files, or what is held of them.
pub(crate) fn changes(number: u32) -> bool {
    matches!(
        number,
        op::CREATE
            | op::REMOVE
            | op::RENAME
            | op::LINK
            | op::SETATTR
            | op::WRITE
            | op::OPEN
            | op::OPEN_DOWNGRADE
            | op::CLOSE
            | op::DELEGRETURN
            | op::LOCK
            | op::LOCKU
            | op::ALLOCATE
            | op::DEALLOCATE
            | op::COPY
            | op::CLONE
            | op::SETXATTR
            | op::REMOVEXATTR
    )
}

/// Whether an operation that succeeded fails when it is done once more.
pub(crate) fn done_once(number: u32) -> bool {
    matches!(
        number,
        op::CREATE | op::REMOVE | op::RENAME | op::LINK | op::SETXATTR | op::REMOVEXATTR
    )
}

/// A record: 1 MiB of data, and what is around it.
pub(crate) const RECORD_BYTES_MAX: usize = (1 << 20) + (64 << 10);
/// Names and attributes.
pub(crate) const NAME_BYTES_MAX: usize = 255;
/// A target of a symlink.
pub(crate) const TARGET_BYTES_MAX: usize = 4_095;
/// A file handle.
pub(crate) const HANDLE_BYTES_MAX: usize = 128;
/// Owners, tags and whatever else clients name.
pub(crate) const OPAQUE_BYTES_MAX: usize = 1_024;
