//! Reading stored bytes without storing them here.

use std::ops::Range;

use async_trait::async_trait;
use bytes::Bytes;
use weir_object::Component;
use weir_types::{
    ByteRange, CHUNK_BYTES, ChunkIndex, ErrorKind, Extent, FsError, Ino, Result, chunk_range,
};

use super::Fetcher;
use crate::data::records::{extent_bytes, get_all};
use crate::data::upward::StoredBytes;
use crate::volume::context::Counts;

/// Looks at the extents before bytes are given up: the collector may move a record between the look
/// and the GET.
const TRIES: usize = 5;

impl Fetcher {
    /// The bytes of this range as the bucket has them; holes are zeros. One GET for each object that
    /// they are in, or for each 8 MiB.
    pub(crate) async fn read_stored(&self, ino: Ino, range: Range<u64>) -> Result<Bytes> {
        let mut tries = 1;
        loop {
            match self.try_read_stored(ino, range.clone()).await {
                Err(error) if error.kind() == ErrorKind::NotFound && tries < TRIES => {
                    tries += 1;
                    self.mirrors.look_again(ino).await;
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let at = range.start;
                    let text = format!("its bytes at {at} cannot be had; run `weir fsck`");
                    return Err(FsError::new(ErrorKind::Corrupt, text).with_source(error));
                }
                result => return result,
            }
        }
    }

    async fn try_read_stored(&self, ino: Ino, Range { start, end }: Range<u64>) -> Result<Bytes> {
        let chunks = self.mirrors.chunks(ino, chunk_range(start, end)).await?;
        let in_range = chunks.list.iter().flat_map(|(chunk, extents)| {
            let base = chunk * CHUNK_BYTES;
            let low = start.saturating_sub(base).min(CHUNK_BYTES) as u32;
            let high = (end - base).min(CHUNK_BYTES) as u32;
            extents.iter().filter_map(move |e| Some((*chunk, e.slice(low, high)?)))
        });
        let wanted: Vec<(ChunkIndex, Extent)> = in_range.collect();
        let extents = wanted.iter().map(|(_, extent)| *extent);
        let most = self.context.settings.fetch_bytes.0;
        let mut decoded =
            get_all(&self.buckets, Component::Data, extents, most, &self.demand).await?;
        if let Some(native) = &chunks.native {
            decoded.extend(self.get_all_native(ino, native, &wanted, most).await?);
        }
        let fetched = wanted.iter().map(|(_, extent)| u64::from(extent.record.stored_bytes)).sum();
        Counts::add(&self.context.counts.bytes_fetched, fetched);
        let bug = || FsError::new(ErrorKind::Bug, "an extent reaches past its record");
        let place = |chunk: ChunkIndex, extent: &Extent| {
            let base = chunk * CHUNK_BYTES;
            base + u64::from(extent.start)..base + u64::from(extent.end())
        };
        // Whole records of disks are this: nothing is copied.
        if let [(chunk, extent)] = &wanted[..]
            && place(*chunk, extent) == (start..end)
        {
            return extent_bytes(*chunk, extent, &decoded).ok_or_else(bug);
        }
        let mut whole = vec![0; (end - start) as usize];
        for (chunk, extent) in wanted {
            let bytes = extent_bytes(chunk, &extent, &decoded).ok_or_else(bug)?;
            let at = (place(chunk, &extent).start - start) as usize;
            whole[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(whole.into())
    }
}

#[async_trait]
impl StoredBytes for Fetcher {
    async fn read_stored(&self, ino: Ino, range: ByteRange) -> Result<Bytes> {
        Self::read_stored(self, ino, range.start..range.end).await
    }
}
