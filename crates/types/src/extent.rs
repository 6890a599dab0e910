//! Where a file's bytes are.
//!
//! A file is cut into chunks of 1 MiB. No record crosses a chunk's edge, so that the extents of
//! one chunk are one small value of the metadata, found by number and replaced in one piece.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::SegmentId;

/// Length of a chunk in bytes: 1 MiB, which is also the largest record.
pub const CHUNK_BYTES: u64 = 1 << 20;

/// Number of a chunk in its file: offset / [`CHUNK_BYTES`].
pub type ChunkIndex = u64;

/// The chunks that the bytes `start..end` touch.
pub fn chunk_range(start: u64, end: u64) -> std::ops::Range<ChunkIndex> {
    if start >= end {
        return 0..0;
    }
    start / CHUNK_BYTES..end.div_ceil(CHUNK_BYTES)
}

/// How a record's bytes are stored.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Codec {
    /// As they are.
    None,
    /// LZ4 block format: fast, the default.
    #[default]
    Lz4,
    /// Zstandard: smaller and slower.
    Zstd,
}

/// Names one record of one segment, and how to check that it is the right one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct RecordRef {
    /// The segment that holds it.
    pub segment: SegmentId,
    /// Where in the segment the stored record starts, in bytes.
    pub position: u32,
    /// Bytes it takes in the segment, header included.
    pub stored_bytes: u32,
    /// Bytes it holds when decoded; at most [`CHUNK_BYTES`].
    pub raw_bytes: u32,
    /// XXH3-64 of the stored record, header included.
    pub checksum: u64,
}

/// A piece of one chunk and the record bytes that fill it. The extents of a chunk are kept sorted
/// by `start` and never overlap; what none covers is a hole and reads as zeros.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub struct Extent {
    /// Offset of the first byte within the chunk.
    pub start: u32,
    /// Length in bytes.
    pub len: u32,
    /// The record that holds the bytes. Its segment is [`SegmentId::NATIVE`] where they are in the
    /// file's native object, at the same offset as in the file.
    pub record: RecordRef,
    /// Offset of the first byte within the decoded record.
    pub skip: u32,
}

impl Extent {
    /// Bytes of the file's native object, from `start` of the chunk on.
    pub fn native(start: u32, len: u32) -> Extent {
        let segment = SegmentId::NATIVE;
        let record = RecordRef { segment, position: 0, stored_bytes: 0, raw_bytes: 0, checksum: 0 };
        Extent { start, len, record, skip: 0 }
    }

    /// Whether the bytes are in the file's native object, and in no segment.
    pub fn is_native(&self) -> bool {
        self.record.segment == SegmentId::NATIVE
    }

    /// Offset within the chunk just past the last byte.
    pub fn end(&self) -> u32 {
        self.start + self.len
    }

    /// The part of this extent inside `start..end` of the chunk, if any.
    pub fn slice(&self, start: u32, end: u32) -> Option<Extent> {
        let (from, to) = (self.start.max(start), self.end().min(end));
        (from < to).then(|| Extent {
            start: from,
            len: to - from,
            skip: if self.is_native() { 0 } else { self.skip + (from - self.start) },
            ..*self
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_of_a_range() {
        assert_eq!(chunk_range(0, 0), 0..0);
        assert_eq!(chunk_range(0, 1), 0..1);
        assert_eq!(chunk_range(CHUNK_BYTES - 1, CHUNK_BYTES + 1), 0..2);
        assert_eq!(chunk_range(CHUNK_BYTES, 2 * CHUNK_BYTES), 1..2);
    }

    #[test]
    fn slices_keep_pointing_at_the_same_bytes() {
        let record = RecordRef {
            segment: SegmentId(7),
            position: 0,
            stored_bytes: 100,
            raw_bytes: 50,
            checksum: 1,
        };
        let extent = Extent { start: 10, len: 50, record, skip: 0 };
        let part = extent.slice(20, 30).expect("overlaps");
        assert_eq!((part.start, part.len, part.skip), (20, 10, 10));
        assert_eq!(extent.slice(60, 70), None);
    }
}
