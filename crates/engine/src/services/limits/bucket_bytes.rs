//! What the volume's segments take in their buckets, looked up now and then.

use parking_lot::Mutex;
use weir_meta::Meta;

/// How old a sum may be, in milliseconds: of few segments, and of many.
const FRESH_MS: u64 = 1_000;
const FRESH_OF_MANY_MS: u64 = 600_000;
/// From so many on a look takes long: a third of a TiB.
const MANY: u64 = 20_000;

/// The last sum, and when it was made.
#[derive(Default)]
pub(crate) struct BucketBytes(Mutex<Option<Looked>>);

#[derive(Clone, Copy)]
struct Looked {
    at_ms: u64,
    segments: u64,
    bytes: u64,
}

impl BucketBytes {
    /// The bytes of all segments; those of the last look where there cannot be one now.
    pub(crate) async fn get(&self, meta: &Meta, now_ms: u64) -> u64 {
        let last = *self.0.lock();
        if let Some(last) = last {
            let fresh_ms = if last.segments < MANY { FRESH_MS } else { FRESH_OF_MANY_MS };
            if now_ms.saturating_sub(last.at_ms) < fresh_ms {
                return last.bytes;
            }
        }
        match meta.segment_bytes().await {
            Ok(found) => {
                let (segments, bytes) = (found.segments, found.bytes);
                *self.0.lock() = Some(Looked { at_ms: now_ms, segments, bytes });
                bytes
            }
            Err(_) => last.map_or(0, |last| last.bytes),
        }
    }
}
