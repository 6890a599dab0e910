//! The engine itself: what it is made of, and how it ends.

use std::collections::HashSet;
use std::ops::Deref;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore};
use tokio::task::JoinSet;
use weir_meta::Meta;
use weir_meta::locks::LockTable;
use weir_object::{Meter, StripeSet};
use weir_tier::{AskSpace, Tier};
use weir_types::{
    ErrorKind, FsError, Ino, Inode, Result, SegmentId, Settings, UnixTime, VolumeFormat,
};

use crate::actions::Actions;
use crate::aside::Asides;
use crate::disks::Disks;
use crate::fetch::Fetcher;
use crate::flush::{Flusher, PERMIT_BYTES};
use crate::journal::Journal;
use crate::links::Links;
use crate::mount::MountReport;
use crate::nodes::Nodes;
use crate::pace::Pace;
use crate::throughput::Throughput;

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

/// A mounted volume. Doors hold it in an [`Arc`]; all methods take `&self`.
pub struct Engine {
    pub(crate) core: Arc<Core>,
    pub(crate) tasks: tokio::sync::Mutex<JoinSet<()>>,
}

/// What the engine's own tasks share with it: what the mount put together, and what is under way.
pub(crate) struct Core {
    mounted: Mounted,
    pub(crate) nodes: Nodes,
    pub(crate) fetcher: Fetcher,
    pub(crate) flusher: Flusher,
    pub(crate) actions: Actions,
    pub(crate) disks: Disks,
    pub(crate) locks: LockTable,
    /// Wakes the background flush: dirty data passed its mark, or room is needed.
    pub(crate) flush_wanted: Notify,
    /// Wakes writers who wait for room.
    pub(crate) room_made: Notify,
    pub(crate) pace: Pace,
    pub(crate) throughput: Throughput,
    /// Memory of segments on their way, and all of it that there is, in [`PERMIT_BYTES`].
    pub(crate) upload_permits: Arc<Semaphore>,
    pub(crate) upload_permits_most: usize,
    pub(crate) stopping: AtomicBool,
    fenced: AtomicBool,
    pub(crate) counts: Counts,
    pub(crate) segments_in_flight: Arc<Mutex<HashSet<SegmentId>>>,
}

impl Deref for Core {
    type Target = Mounted;

    fn deref(&self) -> &Mounted {
        &self.mounted
    }
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
    pub(crate) fsyncs: AtomicU64,
}

impl Counts {
    pub(crate) fn add(counter: &AtomicU64, value: u64) {
        counter.fetch_add(value, Ordering::Relaxed);
    }
}

/// What a mount puts together.
pub(crate) struct Mounted {
    pub(crate) format: VolumeFormat,
    pub(crate) url: String,
    pub(crate) settings: Settings,
    pub(crate) read_only: bool,
    pub(crate) clock: Clock,
    pub(crate) meter: Meter,
    pub(crate) meta: Meta,
    pub(crate) tier: Tier,
    pub(crate) buckets: StripeSet,
    pub(crate) journal: Option<Arc<Journal>>,
    pub(crate) report: MountReport,
    pub(crate) lease: Option<crate::claim::Lease>,
    pub(crate) links: Links,
    pub(crate) aside: Asides,
    pub(crate) ask_space: AskSpace,
}

impl Core {
    pub(crate) fn new(mounted: Mounted) -> Arc<Self> {
        let segment_bytes = mounted.format.segment_bytes;
        let uploads = mounted.settings.memory().uploads.max(segment_bytes);
        let uploads = uploads.min(segment_bytes * mounted.settings.flush_parallel as u64);
        let uploads = uploads.div_ceil(PERMIT_BYTES) as usize;
        let throughput = Throughput::default();
        Arc::new(Self {
            nodes: Nodes::default(),
            fetcher: Fetcher::new(&mounted.settings, throughput.purse.clone()),
            flusher: Flusher::default(),
            actions: Actions::default(),
            disks: Disks::new(&mounted.settings),
            locks: LockTable::new(),
            flush_wanted: Notify::new(),
            room_made: Notify::new(),
            pace: Pace::default(),
            throughput,
            upload_permits: Arc::new(Semaphore::new(uploads)),
            upload_permits_most: uploads,
            stopping: AtomicBool::new(false),
            fenced: AtomicBool::new(false),
            counts: Counts::default(),
            segments_in_flight: Arc::default(),
            mounted,
        })
    }

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

    /// Segments that are being packed, sent or committed.
    pub(crate) fn in_flight(&self) -> MutexGuard<'_, HashSet<SegmentId>> {
        self.segments_in_flight.lock()
    }

    /// Refuses what changes the volume where it must not be changed.
    pub(crate) fn check_writable(&self) -> Result<()> {
        if self.read_only {
            let text = "the volume is mounted read-only: mount it without --read-only to change it";
            return Err(FsError::new(ErrorKind::ReadOnly, text));
        }
        if self.fenced.load(Ordering::Acquire) {
            return Err(fenced_error(&self.url));
        }
        Ok(())
    }

    /// Notices that another writer has the volume, whichever call met it first.
    pub(crate) fn seen<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind() == ErrorKind::Fenced
            && !self.fenced.swap(true, Ordering::AcqRel)
        {
            tracing::error!(
                volume = %self.url,
                "another writer took the volume over: this mount serves what it has and writes no \
                 more; unmount it"
            );
        }
        result
    }

    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// The inode as stored.
    pub(crate) async fn stored(&self, ino: Ino) -> Result<Inode> {
        self.seen(self.meta.inode(ino).await)
    }
}

pub(crate) fn fenced_error(url: &str) -> FsError {
    let text = format!("another writer took {url} over: unmount here, then mount again");
    FsError::new(ErrorKind::Fenced, text)
}

impl Engine {
    /// Whether the volume is mounted read-only.
    pub fn read_only(&self) -> bool {
        self.core.read_only
    }

    /// The advisory locks of the volume's files.
    pub fn locks(&self) -> &LockTable {
        &self.core.locks
    }

    /// Where requests, bytes and latencies are counted.
    pub fn meter(&self) -> &Meter {
        &self.core.meter
    }

    /// Flushes everything, makes it durable, and ends. Doors must have stopped. On an error (the
    /// bucket is away) the tier keeps what could not leave, and the next mount goes on with it.
    pub async fn shutdown(&self) -> Result<()> {
        let core = &self.core;
        core.stopping.store(true, Ordering::Release);
        self.tasks.lock().await.shutdown().await;
        // The last flush waits for no budget.
        core.throughput.purse.end();
        let flushed = if core.read_only || core.is_fenced() { Ok(()) } else { core.finish().await };
        core.give_waiting_up();
        let closed = core.meta.close().await;
        // A clean end says that nothing has to come back from the journal but what is in it: so
        // all of it must be on its disk. Dirty pages may stay in the tier, which is synced too.
        let synced = match core.journal.as_ref().filter(|j| j.durable) {
            Some(journal) => journal.sync().await,
            None => Ok(()),
        };
        core.tier.close(synced.is_ok())?;
        flushed.and(core.seen(closed)).and(synced)
    }
}

impl Core {
    /// The writer's last words: all data, all metadata, an empty log, and the lease given back.
    async fn finish(self: &Arc<Self>) -> Result<()> {
        self.disks.settle().await;
        self.purge_all_closed().await;
        if let Err(error) = self.store_credits().await {
            tracing::warn!(%error, "the burst credits were not stored");
        }
        self.flush_all().await?;
        if let Some(left) = self.tier.news().first() {
            let text = format!("inode {} was written while the volume was unmounted", left.ino());
            return Err(FsError::new(ErrorKind::Retry, text));
        }
        if let Some(lease) = &self.lease {
            lease.end_cleanly(&self.meta).await?;
        }
        if let Some(journal) = &self.journal {
            journal.clear()?;
        }
        if let Some(lease) = &self.lease {
            lease.give_back(&self.buckets).await?;
        }
        Ok(())
    }
}
