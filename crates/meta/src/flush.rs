//! Putting flushed data into the metadata: many small files in one commit.

use weir_types::{Ino, Inode, RecordRef, Result, SegmentId, UnixTime};

use crate::{Meta, SegmentInfo};

/// A record that now holds some bytes of a file, from the record's first byte on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// Offset in the file of the first byte. The piece must not cross a chunk's edge.
    pub offset: u64,
    /// The record.
    pub record: RecordRef,
    /// How many of the record's bytes are meant; at most `record.raw_bytes`.
    pub len: u32,
}

/// The flushed bytes of one file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FileFlush {
    /// The file.
    pub ino: Ino,
    /// What is stored where. Later pieces win over earlier ones. Bytes past the size are dropped.
    pub pieces: Vec<Piece>,
    /// The file's size from now on, exactly; `None` leaves it.
    pub size: Option<u64>,
    /// Last change of the data; `None` leaves it.
    pub mtime: Option<UnixTime>,
    /// Last change of the inode; `None` leaves it.
    pub ctime: Option<UnixTime>,
}

/// Segments that are in the bucket, and the files whose bytes they hold.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlushCommit {
    /// The new segments.
    pub segments: Vec<(SegmentId, SegmentInfo)>,
    /// The files.
    pub files: Vec<FileFlush>,
}

impl Meta {
    /// Makes stored bytes part of their files: each file whole in one commit, many files sharing
    /// one (cut at about 4,000 keys). Returns each file's inode after, `None` for those purged
    /// meanwhile. One read round and one commit for each part.
    pub async fn commit_flush(&self, _flush: FlushCommit) -> Result<Vec<(Ino, Option<Inode>)>> {
        todo!()
    }
}
