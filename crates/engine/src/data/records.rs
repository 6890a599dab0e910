//! From extents to bytes: which ranges of which objects to get, and what they decode to.

use std::collections::HashMap;
use std::ops::Range;

use bytes::{Buf, Bytes};
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Semaphore;
use weir_keys::VolumeKeys;
use weir_object::{Component, StripeSet};
use weir_segment::decode_record;
use weir_types::{CHUNK_BYTES, ChunkIndex, Extent, FsError, RecordRef, Result, SegmentId};

/// Bytes between two records that are cheaper to read over than to ask for apart.
const GAP_BYTES: u32 = 64 << 10;

/// A part of one segment that one ranged GET brings.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Run {
    pub(crate) segment: SegmentId,
    pub(crate) start: u32,
    pub(crate) end: u32,
    pub(crate) records: Vec<RecordRef>,
}

impl Run {
    /// How much the GET brings.
    pub(crate) fn bytes(&self) -> u64 {
        u64::from(self.end - self.start)
    }
}

/// The runs that bring all these records, each once, none longer than `max_bytes` and a little for
/// headers, unless a single record is.
pub(crate) fn plan(records: impl Iterator<Item = RecordRef>, max_bytes: u64) -> Vec<Run> {
    plan_over(records, max_bytes, GAP_BYTES)
}

/// The same, reading over no more than `gap_bytes` between two records.
pub(crate) fn plan_over(
    records: impl Iterator<Item = RecordRef>,
    max_bytes: u64,
    gap_bytes: u32,
) -> Vec<Run> {
    let mut records: Vec<_> = records.collect();
    records.sort_unstable_by_key(|r| (r.segment, r.position));
    records.dedup_by_key(|r| (r.segment, r.position));
    let mut runs: Vec<Run> = Vec::new();
    for record in records {
        let end = record.position + record.stored_bytes;
        if let Some(run) = runs.last_mut()
            && run.segment == record.segment
            && record.position <= run.end.saturating_add(gap_bytes)
            && u64::from(end - run.start) <= max_bytes + u64::from(gap_bytes)
        {
            run.end = run.end.max(end);
            run.records.push(record);
            continue;
        }
        let start = record.position;
        runs.push(Run { segment: record.segment, start, end, records: vec![record] });
    }
    runs
}

/// Gets one run and hands out each record, decoded, as soon as it is whole.
pub(crate) async fn get_run(
    buckets: &StripeSet,
    component: Component,
    run: &Run,
    each: &mut (dyn FnMut(RecordRef, Bytes) -> Result<()> + Send),
) -> Result<()> {
    let bucket = buckets.bucket_for(run.segment);
    let range = u64::from(run.start)..u64::from(run.end);
    let mut cutter = Cutter::new(range.start, run.records.iter().map(record_span).collect());
    let mut decode = |at: usize, stored: Bytes| {
        let record = run.records[at];
        each(record, decode_record(buckets.keys(), &record, None, stored)?)
    };
    let mut result = Ok(());
    let mut take = |piece: Bytes| {
        if result.is_ok() {
            result = cutter.take(piece, &mut decode);
        }
    };
    let key = run.segment.object_key();
    bucket.get_pieces(component, &key, range, None, &mut take).await?;
    result
}

/// Where a record is in its segment.
pub(crate) fn record_span(record: &RecordRef) -> Range<u64> {
    let start = u64::from(record.position);
    start..start + u64::from(record.stored_bytes)
}

/// Cuts spans of an object, in order, out of pieces of it that follow one another.
pub(crate) struct Cutter {
    spans: Vec<Range<u64>>,
    /// The span that is wanted next.
    at: usize,
    /// Where in the object the next byte belongs.
    position: u64,
    /// What is there of a span that began in an earlier piece.
    begun: Vec<u8>,
}

impl Cutter {
    pub(crate) fn new(start: u64, spans: Vec<Range<u64>>) -> Self {
        Self { spans, at: 0, position: start, begun: Vec::new() }
    }

    /// Takes a piece in; hands out each span that it completes, by its place among the spans.
    pub(crate) fn take(
        &mut self,
        mut piece: Bytes,
        each: &mut (dyn FnMut(usize, Bytes) -> Result<()> + Send),
    ) -> Result<()> {
        while let Some(span) = self.spans.get(self.at) {
            // Between two spans may lie what nobody wants.
            let gap = span.start.saturating_sub(self.position).min(piece.len() as u64) as usize;
            piece.advance(gap);
            let want = (span.end - span.start) as usize - self.begun.len();
            let part = piece.split_to(want.min(piece.len()));
            self.position += (gap + part.len()) as u64;
            if part.len() < want {
                self.begun.reserve_exact(want);
                self.begun.extend_from_slice(&part);
                return Ok(());
            }
            let whole = match self.begun.is_empty() {
                true => part,
                false => {
                    self.begun.extend_from_slice(&part);
                    Bytes::from(std::mem::take(&mut self.begun))
                }
            };
            each(self.at, whole)?;
            self.at += 1;
        }
        Ok(())
    }
}

/// The bytes of a run as they are stored.
pub(crate) async fn get_stored(
    buckets: &StripeSet,
    component: Component,
    run: &Run,
) -> Result<Bytes> {
    let bucket = buckets.bucket_for(run.segment);
    let range = u64::from(run.start)..u64::from(run.end);
    bucket.get_range(component, &run.segment.object_key(), range).await
}

/// The records of a run, given its stored bytes.
pub(crate) fn decode_run(
    keys: &VolumeKeys,
    run: &Run,
    stored: &Bytes,
) -> Result<Vec<(RecordRef, Bytes)>> {
    let decode = |record: RecordRef| {
        let at = (record.position - run.start) as usize;
        let bytes = stored.slice(at..at + record.stored_bytes as usize);
        Ok((record, decode_record(keys, &record, None, bytes)?))
    };
    run.records.iter().copied().map(decode).collect()
}

/// Where stored bytes are: a segment and a position in it, or, for the file's native object, an
/// offset in that.
pub(crate) type Place = (SegmentId, u64);

/// Decoded records, and pieces of native objects, by where they are.
pub(crate) type Decoded = HashMap<Place, Bytes>;

pub(crate) fn record_place(record: &RecordRef) -> Place {
    (record.segment, u64::from(record.position))
}

/// Where the bytes of an extent of a chunk are.
pub(crate) fn place(chunk: ChunkIndex, extent: &Extent) -> Place {
    match extent.is_native() {
        true => (SegmentId::NATIVE, chunk * CHUNK_BYTES + u64::from(extent.start)),
        false => record_place(&extent.record),
    }
}

/// Gets all records that these extents use, at most as many runs at once as `permits` has.
pub(crate) async fn get_all(
    buckets: &StripeSet,
    component: Component,
    extents: impl Iterator<Item = Extent>,
    max_bytes: u64,
    permits: &Semaphore,
) -> Result<Decoded> {
    let runs = plan(extents.filter(|e| !e.is_native()).map(|e| e.record), max_bytes);
    let mut getting: FuturesUnordered<_> = runs
        .into_iter()
        .map(|run| async move {
            let _permit = permits.acquire().await;
            let mut records = Vec::with_capacity(run.records.len());
            let mut each = |record, bytes| {
                records.push((record, bytes));
                Ok(())
            };
            get_run(buckets, component, &run, &mut each).await?;
            Ok::<_, FsError>(records)
        })
        .collect();
    let mut decoded = Decoded::new();
    while let Some(records) = getting.next().await {
        decoded.extend(records?.into_iter().map(|(r, bytes)| (record_place(&r), bytes)));
    }
    Ok(decoded)
}

/// The bytes of an extent.
pub(crate) fn extent_bytes(chunk: ChunkIndex, extent: &Extent, decoded: &Decoded) -> Option<Bytes> {
    let record = decoded.get(&place(chunk, extent))?;
    let (from, to) = (extent.skip as usize, (extent.skip + extent.len) as usize);
    (to <= record.len()).then(|| record.slice(from..to))
}

/// A chunk put together from its extents: page-aligned pieces (start in the chunk, bytes), in
/// order; what lies between them is zeros. A piece may end in the middle of a page.
pub(crate) fn assemble(
    chunk: ChunkIndex,
    extents: &[Extent],
    decoded: &Decoded,
) -> Option<Vec<(u64, Bytes)>> {
    const PAGE: u64 = weir_tier::PAGE_BYTES;
    // The usual chunk is one record or a row of page-aligned ones: no copy.
    let aligned = extents.iter().enumerate().all(|(i, e)| {
        let ends_aligned = u64::from(e.end()).is_multiple_of(PAGE) || i + 1 == extents.len();
        u64::from(e.start).is_multiple_of(PAGE) && ends_aligned
    });
    if aligned {
        return extents
            .iter()
            .map(|e| Some((u64::from(e.start), extent_bytes(chunk, e, decoded)?)))
            .collect();
    }
    let end = extents.last().map_or(0, |e| weir_tier::page_ceil(u64::from(e.end())));
    let mut whole = vec![0; end.min(CHUNK_BYTES) as usize];
    let mut pages = vec![false; whole.len() / PAGE as usize];
    for extent in extents {
        let bytes = extent_bytes(chunk, extent, decoded)?;
        whole[extent.start as usize..extent.end() as usize].copy_from_slice(&bytes);
        let last = weir_tier::page_ceil(u64::from(extent.end())) / PAGE;
        pages[(u64::from(extent.start) / PAGE) as usize..last as usize].fill(true);
    }
    let whole = Bytes::from(whole);
    let mut pieces = Vec::new();
    let mut at = 0;
    for row in pages.chunk_by(|a, b| a == b) {
        let (start, end) = (at * PAGE as usize, (at + row.len()) * PAGE as usize);
        if row[0] {
            pieces.push((start as u64, whole.slice(start..end)));
        }
        at += row.len();
    }
    Some(pieces)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(segment: u128, position: u32, stored_bytes: u32) -> RecordRef {
        let segment = SegmentId(segment);
        RecordRef { segment, position, stored_bytes, raw_bytes: stored_bytes, checksum: 0 }
    }

    #[test]
    fn neighbours_share_a_get_and_each_record_comes_once() {
        let records = [record(1, 100, 50), record(1, 0, 100), record(1, 0, 100), record(2, 0, 10)];
        let runs = plan(records.into_iter(), 1 << 20);
        assert_eq!(runs.len(), 2);
        assert_eq!((runs[0].start, runs[0].end, runs[0].records.len()), (0, 150, 2));
        let large = |n: u32| record(1, n * ((1 << 20) + 40), (1 << 20) + 40);
        let runs = plan((0..16).map(large), 8 << 20);
        assert_eq!(runs.iter().map(|r| r.records.len()).collect::<Vec<_>>(), [8, 8]);
        let far = [record(1, 0, 10), record(1, 1 << 20, 10)];
        assert_eq!(plan(far.into_iter(), 8 << 20).len(), 2, "a wide gap is not read");
    }

    #[test]
    fn records_are_cut_out_of_pieces_of_any_size() {
        let id = SegmentId(7);
        let mut builder = weir_segment::SegmentBuilder::new(id, weir_types::Codec::None, 1 << 20);
        let mut records = Vec::new();
        for n in 1..=20_u8 {
            let owner = weir_segment::Owner { ino: weir_types::Ino(1), offset: u64::from(n) << 20 };
            records.push(builder.push(owner, &vec![n; 100 * usize::from(n)]).expect("fits"));
        }
        let whole = builder.finish().bytes;
        // Two are not wanted: what lies between is passed over.
        let wanted: Vec<_> = records.iter().copied().filter(|r| r.raw_bytes % 700 != 0).collect();
        let run = plan(wanted.iter().copied(), 1 << 20).remove(0);
        for step in [1, 7, 100, 1000, 1 << 20] {
            let spans = run.records.iter().map(record_span).collect();
            let mut cutter = Cutter::new(u64::from(run.start), spans);
            let mut got = Vec::new();
            let mut each = |at: usize, stored: Bytes| {
                let record = run.records[at];
                let bytes = decode_record(&VolumeKeys::none(), &record, None, stored)?;
                assert!(bytes.iter().all(|b| u32::from(*b) * 100 == record.raw_bytes));
                got.push(record);
                Ok(())
            };
            for piece in whole[run.start as usize..run.end as usize].chunks(step) {
                cutter.take(Bytes::copy_from_slice(piece), &mut each).expect("sound");
            }
            assert_eq!(got, wanted, "in pieces of {step}");
        }
    }

    #[test]
    fn unaligned_extents_become_whole_pages() {
        let rec = record(1, 0, 5000);
        let decoded = Decoded::from([((rec.segment, 0), Bytes::from(vec![7; 5000]))]);
        let extents = [
            Extent { start: 100, len: 1000, record: rec, skip: 0 },
            Extent { start: 12288, len: 1, record: rec, skip: 4999 },
        ];
        let pieces = assemble(0, &extents, &decoded).expect("all records are there");
        assert_eq!(pieces.len(), 2);
        assert_eq!((pieces[0].0, pieces[0].1.len()), (0, 4096));
        assert_eq!((pieces[0].1[99], pieces[0].1[100], pieces[0].1[1100]), (0, 7, 0));
        assert_eq!((pieces[1].0, pieces[1].1[0], pieces[1].1[1]), (12288, 7, 0));
    }
}
