//! Copying a range of a file by sharing its extents.

use weir_types::{Ino, Inode, Result, UnixTime};

use crate::Meta;

/// What to copy where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ShareRange {
    /// The file to copy from.
    pub src: Ino,
    /// Offset of the first byte in it.
    pub src_offset: u64,
    /// The file to copy to; may be the same, where the ranges do not overlap.
    pub dst: Ino,
    /// Offset of the first byte in it.
    pub dst_offset: u64,
    /// Bytes.
    pub len: u64,
    /// The target's size afterwards, exactly, but never less than the end of the copy.
    pub dst_size: u64,
}

impl Meta {
    /// Copies without moving a byte: the target's extents point at the source's records; holes are
    /// copied as holes. Only stored bytes are copied: flush the source before. Sets the target's
    /// mtime and ctime to `now`. One commit for about 500 chunks.
    pub async fn share(&self, _range: ShareRange, _now: UnixTime) -> Result<Inode> {
        todo!()
    }
}
