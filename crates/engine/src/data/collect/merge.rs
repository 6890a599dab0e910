//! Which small segments are worth writing into larger ones.
//!
//! A batch is written into one segment, and only if that is at least [`GROWTH`] times as large as
//! the largest of its parts. So no batch has fewer parts than that, and no byte is rewritten often:
//! from 4 KiB to 1 MiB, which is not small any more, it is three times.

use weir_meta::{SegmentInfo, SegmentUse};

/// A segment is small below this part of a full one.
const SMALL_PART: u64 = 16;
/// No segment of so many bytes is small: a GET of them costs as much time as bytes.
const SMALL_BYTES_MAX: u64 = 1 << 20;
/// How many times as large as each of its parts a merged segment is, at least.
const GROWTH: u64 = 8;
/// Small segments that one look takes at most, the oldest first: its GETs, and its memory.
pub(super) const AT_ONCE: usize = 2_048;
/// Looks after which a segment has settled: what a database has just written may be dead soon.
pub(super) const SETTLE_LOOKS: u64 = 2;

/// Whether a segment is small where full ones have `full_bytes`.
pub(super) fn is_small(info: &SegmentInfo, full_bytes: u64) -> bool {
    info.raw_bytes.max(info.object_bytes) < SMALL_BYTES_MAX.min(full_bytes / SMALL_PART)
}

/// What tells the small segments that are to be merged.
pub(super) struct Small {
    /// Bytes of a full segment.
    pub(super) full_bytes: u64,
    /// Record sizes of the disks whose whole records are objects of their own, for good: one that is
    /// written anew leaves a dead object, and nothing to rewrite.
    pub(super) disk_record_bytes: Vec<u64>,
    /// The time, in milliseconds since 1970.
    pub(super) unix_ms: u64,
    /// Age at which a segment has settled, in milliseconds.
    pub(super) settle_ms: u64,
}

impl Small {
    /// Whether it takes this segment.
    pub(super) fn takes(&self, segment: &SegmentUse) -> bool {
        let info = &segment.info;
        let records = u64::from(info.records);
        let of_disk = self
            .disk_record_bytes
            .iter()
            .any(|bytes| bytes.checked_mul(records) == Some(info.raw_bytes));
        // One of the future is from before the clock was set back: it is young or old, and either is
        // as safe.
        let settled = segment.id.unix_ms().abs_diff(self.unix_ms) >= self.settle_ms;
        settled && !of_disk && is_small(info, self.full_bytes)
    }
}

/// Cuts small segments, in order, into batches of which each becomes one segment of `full_bytes` at
/// most; leaves those for which it is not worth it.
pub(super) fn batches(small: Vec<SegmentUse>, full_bytes: u64) -> Vec<Vec<SegmentUse>> {
    let mut batches = vec![Vec::new()];
    let (mut live, mut stored) = (0, 0);
    for segment in small {
        let (more_live, more_stored) = (live_bytes(&segment), segment.info.object_bytes);
        if live + more_live > full_bytes || stored + more_stored > full_bytes {
            batches.push(Vec::new());
            (live, stored) = (0, 0);
        }
        live += more_live;
        stored += more_stored;
        if let Some(batch) = batches.last_mut() {
            batch.push(segment);
        }
    }
    batches.into_iter().map(worthwhile).filter(|batch| !batch.is_empty()).collect()
}

/// The largest part of a batch, of its smallest segments, that makes one which is large enough.
fn worthwhile(mut batch: Vec<SegmentUse>) -> Vec<SegmentUse> {
    batch.sort_by_key(|segment| segment.info.raw_bytes);
    let mut live: u64 = batch.iter().map(live_bytes).sum();
    while let Some(largest) = batch.last() {
        if live >= GROWTH * largest.info.raw_bytes {
            break;
        }
        live -= live_bytes(largest);
        batch.pop();
    }
    batch
}

/// What of a segment would move: bytes that files share are there once.
fn live_bytes(segment: &SegmentUse) -> u64 {
    segment.live_bytes.min(segment.info.raw_bytes)
}

#[cfg(test)]
mod tests {
    use weir_types::SegmentId;

    use super::*;

    const FULL_BYTES: u64 = 16 << 20;
    const NOW_MS: u64 = 1_800_000_000_000;

    fn segment(bytes: u64) -> SegmentUse {
        let info = SegmentInfo {
            raw_bytes: bytes,
            object_bytes: bytes + 220,
            records: 1,
            created_ms: NOW_MS,
        };
        SegmentUse { id: SegmentId::new(NOW_MS, 1), info, live_bytes: bytes }
    }

    fn rule() -> Small {
        Small {
            full_bytes: FULL_BYTES,
            disk_record_bytes: Vec::new(),
            unix_ms: NOW_MS,
            settle_ms: 600_000,
        }
    }

    #[test]
    fn a_segment_is_taken_by_size_age_and_owner() {
        let young = segment(8192);
        assert!(!rule().takes(&young));
        let at = |unix_ms| Small { unix_ms, ..rule() };
        assert!(at(NOW_MS + 600_000).takes(&young));
        assert!(!at(NOW_MS - 1_000).takes(&young), "the clock was set back a little");
        assert!(at(0).takes(&young), "it was in the future all the time");
        let old = at(NOW_MS + 600_000);
        assert!(!old.takes(&segment(1 << 20)));
        let mut tiny = segment(500);
        tiny.info.object_bytes = 1 << 20;
        assert!(!old.takes(&tiny), "as large as the headers of its records make it");
        let disks = Small { disk_record_bytes: vec![65_536, 8_192], ..at(NOW_MS + 600_000) };
        let mut records = segment(3 * 8_192);
        records.info.records = 3;
        assert!(!disks.takes(&records) && !disks.takes(&segment(65_536)));
        records.info.records = 2;
        assert!(disks.takes(&records) && disks.takes(&segment(4_096)));
    }

    #[test]
    fn a_batch_is_one_segment_and_eight_times_its_largest_part() {
        assert!(batches(vec![segment(8192); 7], FULL_BYTES).is_empty());
        assert_eq!(batches(vec![segment(8192); 8], FULL_BYTES)[0].len(), 8);
        let mut mixed = vec![segment(1_000_000), segment(500_000)];
        mixed.extend(vec![segment(8192); 9]);
        let taken = batches(mixed, FULL_BYTES);
        assert_eq!(taken.iter().map(Vec::len).collect::<Vec<_>>(), [9], "the large ones stay");
        let many = batches(vec![segment(1_000_000); 40], FULL_BYTES);
        assert_eq!(many.iter().map(Vec::len).collect::<Vec<_>>(), [16, 16, 8]);
        let mut half_dead = segment(8192);
        half_dead.live_bytes = 4096;
        assert!(batches(vec![half_dead; 15], FULL_BYTES).is_empty());
        let mut shared = segment(8192);
        shared.live_bytes = 80_000;
        assert!(batches(vec![shared; 7], FULL_BYTES).is_empty(), "shared bytes move once");
    }

    #[test]
    fn under_a_steady_stream_no_byte_is_rewritten_more_than_three_times() {
        for each_look in [1, 3, 10, 25, 100] {
            let (mut small, mut written, mut rewritten, mut next_id) = (Vec::new(), 0, 0, 0);
            let mut new = |bytes| {
                next_id += 1;
                SegmentUse { id: SegmentId::new(NOW_MS, next_id), ..segment(bytes) }
            };
            for _ in 0..2_000 {
                small.extend((0..each_look).map(|_| new(4_096)));
                written += 4_096 * each_look;
                for batch in batches(small.clone(), FULL_BYTES) {
                    let bytes = batch.iter().map(live_bytes).sum();
                    rewritten += bytes;
                    small.retain(|there| batch.iter().all(|merged| merged.id != there.id));
                    small.push(new(bytes));
                }
                small.retain(|segment| is_small(&segment.info, FULL_BYTES));
            }
            assert!(small.len() < 70, "{each_look} a look leave {}", small.len());
            assert!(rewritten <= 3 * written, "{each_look} a look: {rewritten} of {written}");
        }
    }
}
