//! What the volume's segments take in their buckets, and objects of its links in theirs, looked up now and then.

use std::time::Duration;

use parking_lot::Mutex;
use weir_meta::{LinkedBytes, Meta, SegmentBytes};
use weir_types::FsError;

/// How old a sum may be, in milliseconds: of no segment, and at most.
const FRESH_MS: u64 = 1_000;
const FRESH_MS_MAX: u64 = 600_000;
/// A look takes the longer the more there are, and may be a small part of the time only: each two
/// segments, or objects of links of which something is noted, let it be a millisecond older. 20,000
/// segments, which are a third of a TiB, are counted every 11 s.
const ROWS_PER_MS: u64 = 2;

/// The last sum, and when it was made.
#[derive(Default)]
pub(crate) struct BucketBytes(Mutex<Option<Looked>>);

#[derive(Clone, Copy)]
struct Looked {
    at_ms: u64,
    found: Found,
}

/// What a look found.
#[derive(Clone, Copy, Default)]
pub(super) struct Found {
    pub(super) segments: SegmentBytes,
    pub(super) linked: LinkedBytes,
}

impl BucketBytes {
    /// The bytes of all segments and of all objects of links; those of the last look where there cannot
    /// be one now, or it takes longer than `patience`. `None` where there was none yet.
    pub(crate) async fn get(&self, meta: &Meta, now_ms: u64, patience: Duration) -> Option<Found> {
        let last = *self.0.lock();
        if let Some(last) = last.filter(|last| last.is_fresh(now_ms)) {
            return Some(last.found);
        }
        let looking = async {
            let (segments, linked) = (meta.segment_bytes().await?, meta.linked_bytes().await?);
            Ok::<_, FsError>(Found { segments, linked })
        };
        match tokio::time::timeout(patience, looking).await {
            Ok(Ok(found)) => {
                *self.0.lock() = Some(Looked { at_ms: now_ms, found });
                Some(found)
            }
            _ => last.map(|last| last.found),
        }
    }
}

impl Looked {
    fn is_fresh(&self, now_ms: u64) -> bool {
        let rows = self.found.segments.segments + self.found.linked.noted;
        let fresh_ms = (FRESH_MS + rows / ROWS_PER_MS).min(FRESH_MS_MAX);
        now_ms.saturating_sub(self.at_ms) < fresh_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_there_are_the_less_often_they_are_counted() {
        let looked = |segments, noted| {
            let segments = SegmentBytes { segments, ..SegmentBytes::default() };
            let linked = LinkedBytes { noted, ..LinkedBytes::default() };
            Looked { at_ms: 5_000, found: Found { segments, linked } }
        };
        let all = [((0, 0), 1_000), ((12_000, 8_000), 11_000), ((0, 1 << 30), 600_000)];
        for ((segments, noted), fresh_ms) in all {
            let looked = looked(segments, noted);
            assert!(looked.is_fresh(5_000 + fresh_ms - 1), "{segments} {noted}");
            assert!(!looked.is_fresh(5_000 + fresh_ms), "{segments} {noted}");
        }
        assert!(looked(0, 0).is_fresh(1), "a clock that was set back");
    }
}
