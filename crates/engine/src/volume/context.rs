//! What all parts of a mount share: which volume it is, how to run, what time it is, and whether
//! this mount may still change it. No part reaches another one through this.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use weir_cost::ColdUsage;
use weir_object::Meter;
use weir_types::{ErrorKind, FsError, Result, Settings, StorageClass, UnixTime, VolumeFormat};

use super::fence::Fence;
use super::restored::RestoredCounts;
use super::together::Together;

/// Where the engine takes time and chance from, so that tests can hold both still.
#[derive(Clone)]
pub struct Clock {
    /// The wall clock.
    pub now: Arc<dyn Fn() -> UnixTime + Send + Sync>,
    /// Milliseconds on a clock that never goes back.
    pub now_ms: Arc<dyn Fn() -> u64 + Send + Sync>,
    /// 128 random bits.
    pub random: Arc<dyn Fn() -> u128 + Send + Sync>,
}

/// What all parts of a mount share.
pub(crate) struct Context {
    pub(crate) format: VolumeFormat,
    pub(crate) url: String,
    pub(crate) settings: Settings,
    pub(crate) read_only: bool,
    pub(crate) clock: Clock,
    pub(crate) meter: Meter,
    pub(crate) counts: Counts,
    /// The mount ends: nothing new is begun in the background.
    pub(crate) stopping: AtomicBool,
    /// The door obeys access control lists.
    pub(crate) obeys_acls: AtomicBool,
    pub(crate) fence: Arc<Fence>,
    /// The session of a mount that changes the volume together with others.
    pub(crate) together: Option<Arc<Together>>,
}

/// What the engine counts beside the meter.
#[derive(Default)]
pub(crate) struct Counts {
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) bytes_fetched: AtomicU64,
    pub(crate) bytes_flushed: AtomicU64,
    pub(crate) bytes_released: AtomicU64,
    pub(crate) segments_written: AtomicU64,
    pub(crate) segments_collected: AtomicU64,
    pub(crate) segments_merged: AtomicU64,
    pub(crate) fsyncs: AtomicU64,
    /// By storage class, from the second one on.
    pub(crate) cold: [ColdCounts; StorageClass::COLD.len()],
    pub(crate) restored: RestoredCounts,
}

/// What objects in a storage class cost beside being kept.
#[derive(Default)]
pub(crate) struct ColdCounts {
    /// Objects moved into it.
    pub(crate) moved: AtomicU64,
    /// GETs of objects in it.
    pub(crate) requests: AtomicU64,
    /// Bytes that these brought.
    pub(crate) read_bytes: AtomicU64,
    /// Bytes of objects that left it too early, times the days that were left.
    pub(crate) early_byte_days: AtomicU64,
}

impl ColdCounts {
    /// As a bill has it, but for what is kept.
    pub(crate) fn used(&self, class: StorageClass) -> ColdUsage {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        ColdUsage {
            class,
            stored_bytes: 0,
            moved: get(&self.moved),
            gets: get(&self.requests),
            read_bytes: get(&self.read_bytes),
            early_byte_days: get(&self.early_byte_days),
        }
    }
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64, value: u64) {
        counter.fetch_add(value, Ordering::Relaxed);
    }
}

impl Context {
    pub(crate) fn now(&self) -> UnixTime {
        (self.clock.now)()
    }

    pub(crate) fn now_ms(&self) -> u64 {
        (self.clock.now_ms)()
    }

    /// Milliseconds since 1970.
    pub(crate) fn unix_ms(&self) -> u64 {
        (self.now().0 / 1_000_000).max(0).cast_unsigned()
    }

    /// Dirty bytes of one file that was written in one go at which its flush starts: a half of those of
    /// all files, but not less than a segment.
    pub(crate) fn flush_start_of_one(&self) -> u64 {
        let all = self.settings.flush_start_bytes.0;
        (all / 2).max(self.format.segment_bytes).min(all)
    }

    /// Refuses what changes the volume where it must not be changed.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            let text = "the volume is mounted read-only: mount it without --read-only to change it";
            return Err(FsError::new(ErrorKind::ReadOnly, text));
        }
        self.fence.check()
    }

    /// Whether others may change the volume while it is mounted here.
    pub(crate) fn is_shared(&self) -> bool {
        self.together.is_some()
    }

    /// Whether this mount does what one of those that write the volume has to do for all.
    pub(crate) fn is_on_duty(&self) -> bool {
        self.together.as_ref().is_none_or(|together| together.is_on_duty())
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.fence.is_up()
    }
}

/// Runs what blocks on the local disk where it holds nobody up.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(FsError::new(ErrorKind::Bug, format!("background work: {e}"))))
}
