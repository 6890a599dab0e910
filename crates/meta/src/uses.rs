//! What has bytes in some segments.

use std::collections::HashSet;

use weir_types::{ChunkIndex, Extent, Ino, Result, SegmentId};

use crate::codec::{decode, last_key};
use crate::kv::Key;
use crate::{Meta, keys};

/// Rows read at once.
const PAGE: usize = 2_000;

/// Bytes of a file that are in a segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Use {
    /// The file.
    pub ino: Ino,
    /// Its chunk.
    pub chunk: ChunkIndex,
    /// Which bytes of the chunk, and which record has them.
    pub extent: Extent,
}

impl Meta {
    /// All that has bytes in these segments, whatever their own indexes say. Reads the extents of all files: one read for
    /// each 2,000 chunks.
    pub async fn uses(&self, segments: &HashSet<SegmentId>) -> Result<Vec<Use>> {
        let (mut uses, mut after): (_, Option<Key>) = (Vec::new(), None);
        loop {
            let page = self.kv.scan(&[keys::EXTENTS], after.as_deref(), PAGE).await?;
            for (key, found) in &page {
                let (Some(ino), Some(chunk)) = (keys::parse_ino(key), keys::parse_chunk(key))
                else {
                    continue;
                };
                let extents: Vec<Extent> = decode(key, &found.value)?;
                let wanted = extents.into_iter().filter(|e| segments.contains(&e.record.segment));
                uses.extend(wanted.map(|extent| Use { ino, chunk, extent }));
            }
            if page.len() < PAGE {
                return Ok(uses);
            }
            after = last_key(&page);
        }
    }
}
