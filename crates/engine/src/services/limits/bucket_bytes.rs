//! What the volume's segments take in their buckets, looked up now and then.

use std::time::Duration;

use parking_lot::Mutex;
use weir_meta::{Meta, SegmentBytes};

/// How old a sum may be, in milliseconds: of no segment, and at most.
const FRESH_MS: u64 = 1_000;
const FRESH_MS_MAX: u64 = 600_000;
/// A look takes the longer the more there are, and may be a small part of the time only: each two
/// segments let it be a millisecond older. 20,000, which are a third of a TiB, are counted every
/// 11 s.
const SEGMENTS_PER_MS: u64 = 2;

/// The last sum, and when it was made.
#[derive(Default)]
pub(crate) struct BucketBytes(Mutex<Option<Looked>>);

#[derive(Clone, Copy)]
struct Looked {
    at_ms: u64,
    found: SegmentBytes,
}

impl BucketBytes {
    /// The bytes of all segments; those of the last look where there cannot be one now, or it takes
    /// longer than `patience`. `None` where there was none yet.
    pub(crate) async fn get(
        &self,
        meta: &Meta,
        now_ms: u64,
        patience: Duration,
    ) -> Option<SegmentBytes> {
        let last = *self.0.lock();
        if let Some(last) = last.filter(|last| last.is_fresh(now_ms)) {
            return Some(last.found);
        }
        match tokio::time::timeout(patience, meta.segment_bytes()).await {
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
        let fresh_ms = (FRESH_MS + self.found.segments / SEGMENTS_PER_MS).min(FRESH_MS_MAX);
        now_ms.saturating_sub(self.at_ms) < fresh_ms
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_more_there_are_the_less_often_they_are_counted() {
        let found = |segments| SegmentBytes { segments, ..SegmentBytes::default() };
        let looked = |segments| Looked { at_ms: 5_000, found: found(segments) };
        for (segments, fresh_ms) in [(0, 1_000), (20_000, 11_000), (1 << 30, 600_000)] {
            assert!(looked(segments).is_fresh(5_000 + fresh_ms - 1), "{segments}");
            assert!(!looked(segments).is_fresh(5_000 + fresh_ms), "{segments}");
        }
        assert!(looked(0).is_fresh(1), "a clock that was set back");
    }
}
