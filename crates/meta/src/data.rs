//! Where a file's bytes are: reading extents, cutting them off, punching holes.

use std::ops::Range;

use weir_types::{ChunkIndex, Extent, Ino, Inode, Result, UnixTime};

use crate::Meta;

impl Meta {
    /// The extents of those of `range`'s chunks that have any. One read round for each 1,024.
    pub async fn chunks(
        &self,
        _ino: Ino,
        _range: Range<ChunkIndex>,
    ) -> Result<Vec<(ChunkIndex, Vec<Extent>)>> {
        todo!()
    }

    /// The first `limit` ranges (start, end) of the file at or after byte `start` that extents
    /// cover, adjacent ones as one, the first cut at `start`.
    pub async fn stored_ranges(
        &self,
        _ino: Ino,
        _start: u64,
        _limit: usize,
    ) -> Result<Vec<(u64, u64)>> {
        todo!()
    }

    /// Sets the size; what lies past it is gone. Sets mtime and ctime to `now`. Cutting more than
    /// about 2,000 chunks takes several commits, each by itself a truncation to a smaller size.
    pub async fn truncate(&self, _ino: Ino, _size: u64, _now: UnixTime) -> Result<Inode> {
        todo!()
    }

    /// Makes the bytes `range` a hole; the size stays. Sets mtime and ctime to `now`. One commit
    /// for about 2,000 chunks with data.
    pub async fn punch(&self, _ino: Ino, _range: Range<u64>, _now: UnixTime) -> Result<Inode> {
        todo!()
    }
}
