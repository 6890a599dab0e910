//! Segments on their way to the bucket, whoever makes them.

use std::collections::HashSet;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_object::{Component, StripeSet};
use weir_segment::{SealedSegment, SegmentBuilder};
use weir_types::{Result, SegmentId};

use crate::volume::context::{Context, Counts};
use crate::volume::together::Together;

/// Memory of one permit to upload.
pub(crate) const PERMIT_BYTES: u64 = 1 << 20;
/// Segments from this length on use memory of others.
const SPARE_BYTES: u64 = 1 << 20;

/// A segment on its way: its object may be there before the metadata names it, and the collector
/// must not take it for one that nothing names.
pub(crate) struct InFlight {
    all: Arc<Mutex<HashSet<SegmentId>>>,
    spare: Arc<Spare>,
    together: Option<Arc<Together>>,
    pub(crate) id: SegmentId,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if let Some(together) = &self.together {
            together.segment_done(self.id);
        }
        let last = {
            let mut all = self.all.lock();
            all.remove(&self.id);
            all.is_empty()
        };
        if last {
            self.spare.forget();
        }
    }
}

/// Memory of segments that are in the bucket, for the next ones: the kernel makes zeros of what is given
/// back to it and taken anew, page by page. It goes when no segment is on its way, so that there is never
/// more of it than segments were at once.
#[derive(Default)]
struct Spare(Mutex<Vec<Vec<u8>>>);

impl Spare {
    fn take(&self) -> Vec<u8> {
        self.0.lock().pop().unwrap_or_default()
    }

    fn keep(&self, bytes: Bytes) {
        // Whoever sent them may hold them yet.
        if let Ok(mut bytes) = bytes.try_into_mut() {
            // All that is to be kept is the memory.
            bytes.clear();
            self.0.lock().push(bytes.into());
        }
    }

    fn forget(&self) {
        drop(std::mem::take(&mut *self.0.lock()));
    }
}

/// Makes segments and sends them.
pub(crate) struct Segments {
    context: Arc<Context>,
    buckets: StripeSet,
    /// Segments that are being packed, sent or committed.
    in_flight: Arc<Mutex<HashSet<SegmentId>>>,
    spare: Arc<Spare>,
    /// Memory of segments on their way, and all of it that there is, in [`PERMIT_BYTES`].
    permits: Arc<Semaphore>,
    permits_max: usize,
}

impl Segments {
    pub(crate) fn new(context: Arc<Context>, buckets: StripeSet) -> Self {
        let (segment_bytes, settings) = (context.format.segment_bytes, &context.settings);
        let uploads = settings.memory().uploads.max(segment_bytes);
        let uploads = uploads.min(segment_bytes * settings.flush_parallel as u64);
        let permits_max = uploads.div_ceil(PERMIT_BYTES) as usize;
        let permits = Arc::new(Semaphore::new(permits_max));
        Self {
            context,
            buckets,
            in_flight: Arc::default(),
            spare: Arc::default(),
            permits,
            permits_max,
        }
    }

    /// Segments that are being packed, sent or committed.
    pub(crate) fn in_flight(&self) -> MutexGuard<'_, HashSet<SegmentId>> {
        self.in_flight.lock()
    }

    /// Waits for memory for a segment of so many bytes, or for all there is; `None` only when the
    /// engine is gone.
    pub(crate) async fn memory(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let wanted = (bytes.div_ceil(PERMIT_BYTES) as usize).min(self.permits_max);
        self.permits.clone().acquire_many_owned(wanted as u32).await.ok()
    }

    /// A new segment, in flight until the guard goes.
    pub(crate) fn new_segment(&self) -> (InFlight, SegmentBuilder) {
        self.new_segment_of(0)
    }

    /// The same, for about so many bytes.
    pub(crate) fn new_segment_of(&self, bytes: u64) -> (InFlight, SegmentBuilder) {
        let format = &self.context.format;
        // After all that the volume shares with others, whatever the clock says.
        let least_ms = self.buckets.newest_shared().map_or(0, |newest| newest.unix_ms() + 1);
        let unix_ms = self.context.unix_ms().max(least_ms);
        let id = match &self.context.together {
            Some(together) => together.segment_id(unix_ms),
            None => SegmentId::new(unix_ms, (self.context.clock.random)()),
        };
        self.in_flight().insert(id);
        let buffer = if bytes >= SPARE_BYTES { self.spare.take() } else { Vec::new() };
        let builder = SegmentBuilder::in_buffer(id, format.codec, format.segment_bytes, buffer);
        let builder = builder.sealed_by(self.buckets.keys());
        let (all, spare) = (self.in_flight.clone(), self.spare.clone());
        let together = self.context.together.clone();
        (InFlight { all, spare, together, id }, builder)
    }

    /// Takes the memory of a segment that is in the bucket and in flight yet.
    pub(crate) fn keep_memory(&self, sealed: SealedSegment) {
        if sealed.bytes.len() as u64 >= SPARE_BYTES {
            self.spare.keep(sealed.bytes);
        }
    }

    pub(crate) async fn put_segment(
        &self,
        sealed: &SealedSegment,
        component: Component,
    ) -> Result<()> {
        let bucket = self.buckets.bucket_for(sealed.id);
        bucket.put(component, &sealed.id.object_key(), sealed.bytes.clone()).await?;
        Counts::add(&self.context.counts.segments_written, 1);
        Counts::add(&self.context.counts.bytes_flushed, sealed.bytes.len() as u64);
        Ok(())
    }
}

pub(crate) fn segment_info(sealed: &SealedSegment) -> weir_meta::SegmentInfo {
    weir_meta::SegmentInfo {
        raw_bytes: sealed.raw_bytes,
        object_bytes: sealed.bytes.len() as u64,
        records: sealed.records.len() as u32,
        created_ms: sealed.id.unix_ms(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn memory_of_a_segment_is_used_again_once_nobody_holds_its_bytes() {
        let spare = Spare::default();
        let mut sent = Vec::with_capacity(1 << 16);
        sent.extend_from_slice(&[7; 1000]);
        let place = sent.as_ptr();
        let sent = Bytes::from(sent);
        let held = sent.clone();
        spare.keep(sent);
        assert_eq!(spare.take().capacity(), 0, "somebody holds them");
        spare.keep(held);
        let again = spare.take();
        assert_eq!((again.as_ptr(), again.len(), again.capacity()), (place, 0, 1 << 16));
        spare.keep(Bytes::from(vec![1; 100]));
        spare.forget();
        assert_eq!(spare.take().capacity(), 0, "nothing is kept without need");
    }
}
