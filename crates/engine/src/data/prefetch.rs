//! Small files lie side by side in a segment, in the order in which they were written. Who wants
//! one mostly wants the next, and a request costs the same for 16 KiB as for 1 MiB. So a small
//! fetch brings what follows it, and puts that into the mirrors of the files it belongs to.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;
use weir_segment::{IndexEntry, decode_record, records_from};
use weir_tier::{Amount, Mirror};
use weir_types::{CHUNK_BYTES, ChunkIndex, Ino, RecordRef, Result, SegmentId};

use crate::data::fetch::{Claim, Fetcher};
use crate::data::records::{Decoded, Run, record_place};
use crate::volume::context::Counts;

/// A fetch of no more than this brings its neighbours along.
pub(crate) const SMALL_BYTES: u32 = 256 << 10;
/// Bytes that such a fetch gets in all, and records that it may be taken to bring: each is a file in the tier, which takes
/// time to be made, too, and who reads some of a million tiny ones does not want ten thousand more with each.
const WINDOW_BYTES: u32 = 1 << 20;
const WINDOW_RECORDS: u32 = 512;
/// Room that the tier must have for what nobody asked for.
const ROOM: Amount = Amount { bytes: 16 << 20, files: 512 };

impl Fetcher {
    /// Gets a small run with the records behind it up to `end`, which go to their files while the
    /// run's own are handed out.
    pub(crate) async fn get_batch(
        self: &Arc<Self>,
        run: &Run,
        end: u32,
    ) -> Result<Vec<(RecordRef, Bytes)>> {
        let wide = Run { end, ..run.clone() };
        self.space.recent.note(&wide);
        let (stored, records) = self.get_window(&wide).await?;
        let rest = stored.slice((run.end - run.start) as usize..);
        let found = records_from(run.segment, u64::from(run.end), &rest);
        // Claimed before the caller goes on: its next read waits for these instead of asking.
        let claimed = self.claim_batch(&found);
        let (fetcher, first) = (self.clone(), run.end);
        tokio::spawn(async move {
            for (claim, chunk) in claimed {
                fetcher.fill_batched(claim, chunk, &found, &rest, first).await;
            }
        });
        Ok(records)
    }

    /// Where the window of a small run ends, if it is to bring anything along.
    pub(crate) async fn window_end(&self, run: &Run) -> Option<u32> {
        let room = self.space.room_to_spare(ROOM);
        if run.end - run.start > SMALL_BYTES || !room {
            return None;
        }
        let before = SegmentId(run.segment.0.wrapping_sub(1));
        let segments = self.meta.segments(Some(before), 1).await.ok()?;
        let segment = segments.into_iter().find(|s| s.id == run.segment)?;
        let object_bytes = segment.info.object_bytes.min(u64::from(u32::MAX)) as u32;
        let end = run.start.saturating_add(window_bytes(run)).min(object_bytes);
        let end = self.space.recent.next(run.segment, run.end, end);
        (end > run.end).then_some(end)
    }

    /// Claims the chunks that these records belong to, but for those that are here or coming.
    fn claim_batch(self: &Arc<Self>, found: &[IndexEntry]) -> Vec<(Claim, ChunkIndex)> {
        let chunks = found.iter().map(|e| (e.owner.ino, e.owner.offset / CHUNK_BYTES));
        let mut chunks: Vec<(Ino, ChunkIndex)> = chunks.collect();
        chunks.dedup();
        let wanted = chunks.into_iter().filter(|(ino, chunk)| {
            let (start, end) = (chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES);
            self.tier.find(*ino).is_none_or(|m| !m.missing(start, end).is_empty())
        });
        // Their bytes are here in a moment, and room was looked at.
        let claim = |ino, chunk| Claim::one(self, ino, chunk, 0, Arc::default());
        wanted.filter_map(|(ino, chunk)| Some((claim(ino, chunk)?, chunk))).collect()
    }

    /// Fills a chunk from a window, if its extents still name what lies there and nothing else.
    /// What fails is fetched by whoever wants it.
    async fn fill_batched(
        &self,
        mut claim: Claim,
        chunk: ChunkIndex,
        found: &[IndexEntry],
        window: &Bytes,
        first: u32,
    ) {
        if let Err(error) = self.try_batched(&mut claim, chunk, found, window, first).await {
            tracing::debug!(ino = %claim.ino, %error, "a chunk of a batch was not filled");
        }
        claim.end();
    }

    async fn try_batched(
        &self,
        claim: &mut Claim,
        chunk: ChunkIndex,
        found: &[IndexEntry],
        window: &Bytes,
        first: u32,
    ) -> Result<()> {
        let node = self.nodes.get(claim.ino);
        let mirror = self.mirrors.open_mirror(&node).await?;
        let filled = self.fill_from(&mirror, claim, chunk, found, window, first).await;
        if !self.nodes.is_open(claim.ino) {
            mirror.idle();
        }
        filled
    }

    async fn fill_from(
        &self,
        mirror: &Mirror,
        claim: &mut Claim,
        chunk: ChunkIndex,
        found: &[IndexEntry],
        window: &Bytes,
        first: u32,
    ) -> Result<()> {
        let stamp = mirror.stamp();
        let stored = self.mirrors.chunks(claim.ino, chunk..chunk + 1).await?;
        let extents =
            stored.list.into_iter().next().map(|(_, extents)| extents).unwrap_or_default();
        let here: BTreeMap<u32, RecordRef> = found
            .iter()
            .filter(|e| e.owner.ino == claim.ino)
            .map(|e| (e.record.position, e.record))
            .collect();
        let mut decoded = Decoded::new();
        for extent in &extents {
            if here.get(&extent.record.position) != Some(&extent.record) {
                return Ok(());
            }
            let at = (extent.record.position - first) as usize;
            let bytes = window.slice(at..at + extent.record.stored_bytes as usize);
            let place = record_place(&extent.record);
            decoded.insert(place, decode_record(self.buckets.keys(), &extent.record, None, bytes)?);
            Counts::add(&self.context.counts.bytes_fetched, u64::from(extent.record.stored_bytes));
        }
        if !extents.is_empty() && self.store_chunk(mirror, chunk, &extents, &decoded, stamp)? {
            claim.done(chunk, Ok(()));
        }
        Ok(())
    }
}

/// What the window of a run is, where those behind it are like its own.
fn window_bytes(run: &Run) -> u32 {
    let records = run.records.len().max(1) as u32;
    let mean = ((run.end - run.start) / records).max(1);
    mean.saturating_mul(WINDOW_RECORDS).min(WINDOW_BYTES)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_has_no_more_records_than_a_tier_makes_files_of_in_a_moment() {
        let record = |stored_bytes| RecordRef {
            segment: SegmentId(1),
            position: 0,
            stored_bytes,
            raw_bytes: stored_bytes,
            checksum: 0,
        };
        let window = |records: usize, bytes: u32| {
            let all = records as u32 * bytes;
            let run = Run {
                segment: SegmentId(1),
                start: 7,
                end: 7 + all,
                records: vec![record(bytes); records],
            };
            window_bytes(&run)
        };
        assert_eq!(window(1, 100), 51_200);
        assert_eq!(window(3, 100), 51_200);
        assert_eq!(window(1, 2_048), WINDOW_BYTES);
        assert_eq!(window(4, 65_536), WINDOW_BYTES);
    }
}
