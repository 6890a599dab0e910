//! What the metadata knows of one file.

use crate::ByteRange;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{CHUNK_BYTES, ChunkIndex, Extent, Ino, LinkId, TreeId};

/// A point in time: nanoseconds since 1970, before it negative. Reaches from 1677 to 2262.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct UnixTime(pub i64);

impl UnixTime {
    /// From seconds and nanoseconds; times outside the range become its ends.
    pub fn from_parts(secs: i64, nanos: u32) -> Self {
        Self(secs.saturating_mul(1_000_000_000).saturating_add(i64::from(nanos)))
    }

    /// Whole seconds (rounded down) and the nanoseconds after them.
    pub fn parts(self) -> (i64, u32) {
        (self.0.div_euclid(1_000_000_000), self.0.rem_euclid(1_000_000_000) as u32)
    }
}

/// What kind of thing an inode is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
pub enum FileKind {
    /// A regular file.
    Regular,
    /// A directory.
    Directory,
    /// A symbolic link.
    Symlink,
    /// A named pipe.
    Fifo,
    /// A character device.
    CharDevice,
    /// A block device.
    BlockDevice,
    /// A Unix socket.
    Socket,
}

/// The last change of a file's extents; lets a mirror file tell whether it missed one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DataChange {
    /// Counts the changes of this file's extents, from 0 for a file that never had any.
    pub generation: u64,
    /// The byte range (start, end) whose earlier local bytes this change made void: what a
    /// truncation cut off, a hole, a copied range. `None` for a flush, which changes no byte.
    pub dropped: Option<ByteRange>,
}

/// The object of a linked bucket that a file is, or once was. A directory of a link has one too, to
/// say where it is: its key is the directory's path below the link with a slash behind it, empty for
/// the link's own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Native {
    /// The link whose bucket it is in.
    pub link: LinkId,
    /// Its key below the link's URL.
    pub key: String,
    /// Its bytes: changes whenever the object does. Some stores have none.
    pub etag: Option<String>,
    /// Length of the object in bytes.
    pub object_bytes: u64,
    /// The file's bytes below this offset are those of the object, but for chunks that have
    /// extents of their own; at most `object_bytes`.
    pub end: u64,
    /// The file was changed here since: the object is not the file any more.
    pub changed: bool,
    /// The object was found to be gone, or another: what is not here cannot be had.
    pub lost: bool,
    /// The object is another file's by now, or nobody's: this one only reads what it left of it.
    pub detached: bool,
    /// Changes of the file, or of the directory's entries, are noted for the export.
    pub exports: bool,
    /// Of a directory: the names that the bucket has in it were not imported yet.
    pub unlisted: bool,
}

impl Native {
    /// Of a directory of a link; the key of the link's own is empty.
    pub fn directory(link: LinkId, key: String, exports: bool, unlisted: bool) -> Self {
        Self {
            link,
            key,
            etag: None,
            object_bytes: 0,
            end: 0,
            changed: false,
            lost: false,
            detached: false,
            exports,
            unlisted,
        }
    }

    /// What a chunk without extents of its own holds: one extent, or none past the end.
    pub fn extents(&self, chunk: ChunkIndex) -> Vec<Extent> {
        let base = chunk * CHUNK_BYTES;
        let len = self.end.saturating_sub(base).min(CHUNK_BYTES) as u32;
        if len == 0 { Vec::new() } else { vec![Extent::native(0, len)] }
    }
}

/// Whose quotas an inode counts for. What is made in a directory counts for those that it counts for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Account {
    /// The quota of the tree that it is in.
    pub tree: Option<TreeId>,
    /// The quotas of its owner and of its group.
    pub owners: bool,
}

/// One inode as stored.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Inode {
    /// Its number.
    pub ino: Ino,
    /// What it is.
    pub kind: FileKind,
    /// Permission bits with set-uid, set-gid and sticky: the low 12 bits of `st_mode`.
    pub mode: u32,
    /// Owner.
    pub uid: u32,
    /// Group.
    pub gid: u32,
    /// Names that lead here; for a directory 2 + its subdirectories; 0 when removed but open.
    pub nlink: u32,
    /// Bytes of a regular file or of a symlink's target; 0 for all else.
    pub size: u64,
    /// Device number, for device nodes.
    pub rdev: u32,
    /// Last access.
    pub atime: UnixTime,
    /// Last change of the data (of a directory: of its entries).
    pub mtime: UnixTime,
    /// Last change of the inode.
    pub ctime: UnixTime,
    /// When it was made.
    pub btime: UnixTime,
    /// The directory that holds this directory; for all else the one it was made in or moved to last.
    pub parent: Ino,
    /// Last change of the extents.
    pub data: DataChange,
    /// Bytes (of the file's own address space) that records of segments cover.
    pub stored_bytes: u64,
    /// A symlink's target.
    pub target: Option<Vec<u8>>,
    /// Whose quotas it counts for. Stored before the rest, and only if there are any.
    #[serde(skip)]
    pub account: Account,
    /// The object that the file is, in a link, or where in the link the directory is. Stored behind the rest, and only if there is one.
    #[serde(skip)]
    pub native: Option<Native>,
}

impl Inode {
    /// One that is made now and holds nothing: one name, no permission, owned by root.
    pub fn new(ino: Ino, kind: FileKind, parent: Ino, now: UnixTime) -> Self {
        Self {
            ino,
            kind,
            mode: 0,
            uid: 0,
            gid: 0,
            nlink: 1,
            size: 0,
            rdev: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            parent,
            data: DataChange::default(),
            stored_bytes: 0,
            target: None,
            account: Account::default(),
            native: None,
        }
    }
}
