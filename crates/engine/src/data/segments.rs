//! Segments on their way to the bucket, whoever makes them.

use std::collections::HashSet;
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_object::{Component, StripeSet};
use weir_segment::{SealedSegment, SegmentBuilder};
use weir_types::{Result, SegmentId};

use crate::volume::context::{Context, Counts};

/// Memory of one permit to upload.
pub(crate) const PERMIT_BYTES: u64 = 1 << 20;

/// A segment on its way: its object may be there before the metadata names it, and the collector
/// must not take it for one that nothing names.
pub(crate) struct InFlight {
    all: Arc<Mutex<HashSet<SegmentId>>>,
    pub(crate) id: SegmentId,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

/// Makes segments and sends them.
pub(crate) struct Segments {
    context: Arc<Context>,
    buckets: StripeSet,
    /// Segments that are being packed, sent or committed.
    in_flight: Arc<Mutex<HashSet<SegmentId>>>,
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
        Self { context, buckets, in_flight: Arc::default(), permits, permits_max }
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
        let id = SegmentId::new(self.context.unix_ms(), (self.context.clock.random)());
        self.in_flight().insert(id);
        let builder =
            SegmentBuilder::new(id, self.context.format.codec, self.context.format.segment_bytes);
        (InFlight { all: self.in_flight.clone(), id }, builder)
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
