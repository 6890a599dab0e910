//! Segments: which there are, how much of each is alive, who uses them, and how they end.

use serde::{Deserialize, Serialize};
use weir_types::{ChunkIndex, Extent, Ino, RecordRef, Result, SegmentId};

use crate::Meta;

/// What is known of a segment since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    /// File bytes its records hold, decoded.
    pub raw_bytes: u64,
    /// Size of the object.
    pub object_bytes: u64,
    /// Records in it.
    pub records: u32,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
}

/// A segment and how much of it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentUse {
    /// Its name.
    pub id: SegmentId,
    /// What it is.
    pub info: SegmentInfo,
    /// File bytes that extents have in it; bytes shared by two files count twice.
    pub live_bytes: u64,
}

/// A chunk that uses a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The file.
    pub ino: Ino,
    /// The chunk.
    pub chunk: ChunkIndex,
    /// Those of its extents that lie in the segment.
    pub extents: Vec<Extent>,
}

impl Meta {
    /// Up to `limit` segments after `after`, oldest first. Two read rounds.
    pub async fn segments(
        &self,
        _after: Option<SegmentId>,
        _limit: usize,
    ) -> Result<Vec<SegmentUse>> {
        todo!()
    }

    /// Which of these are segments of the volume. One read round.
    pub async fn segment_known(&self, _ids: &[SegmentId]) -> Result<Vec<bool>> {
        todo!()
    }

    /// The chunks that use `segment` now: those of `owners` (all chunks that the segment's own
    /// index names) that still do, and those that came to share its records.
    pub async fn references(
        &self,
        _segment: SegmentId,
        _owners: &[(Ino, ChunkIndex)],
    ) -> Result<Vec<Reference>> {
        todo!()
    }

    /// Lets a chunk use copies of records: each extent in an old record points at the same bytes
    /// of the new one. The new record's owner in its segment's index must be the old one's. No
    /// byte of the file changes, so its generation stays. `false`: the chunk uses none of them (any
    /// more), and nothing was done. One read round and one commit.
    pub async fn relocate(
        &self,
        _ino: Ino,
        _chunk: ChunkIndex,
        _moves: &[(RecordRef, RecordRef)],
        _segments: &[(SegmentId, SegmentInfo)],
    ) -> Result<bool> {
        todo!()
    }

    /// Forgets a segment that nothing uses; `false` if something does. Its object may be deleted
    /// afterwards.
    pub async fn forget_segment(&self, _id: SegmentId) -> Result<bool> {
        todo!()
    }
}
