//! Room in the tier for what comes in: made by letting go of what is clean, waited for where that
//! takes a flush, and refused with the true reason where neither helps.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_tier::{Amount, Mirror, Tier};
use weir_types::{Bytes, ErrorCode, ErrorKind, FsError, Result};

use super::fetch::recent::RecentFetches;
use super::pins::Pins;
use crate::volume::context::{Context, Counts, blocking};

/// How long somebody waits for room, in milliseconds, where nothing is under way that could make
/// any: a program may close what it has open.
const HOPELESS_MS: u64 = 5_000;
/// Bytes that go when the disk turns out to be full before it said so.
const FULL_BYTES: u64 = 64 << 20;
/// The share of its limit below which room is short: bytes while much is dirty, and files.
const SHORT_BYTES: u64 = 4;
const SHORT_FILES: u64 = 32;

/// What `bytes` of a file take.
pub(crate) fn amount_for(mirror: &Mirror, bytes: u64) -> Amount {
    Amount { bytes, files: u64::from(mirror.is_new()) }
}

/// What the tier has room for, and who makes it.
pub(crate) struct Space {
    context: Arc<Context>,
    pub(super) tier: Arc<Tier>,
    pub(crate) pins: Pins,
    /// What came of late: forgotten when anything is released.
    pub(crate) recent: RecentFetches,
    /// Bytes that fetches under way will bring at most.
    coming_bytes: AtomicU64,
    /// What hydrations have room for and that is not here yet.
    reserved: Mutex<Amount>,
    /// When those hydrations began that run, in the tier's time of uses.
    hydrating: Mutex<BTreeSet<u64>>,
    /// Wakes the background flush: dirty data passed its mark, or room is needed.
    pub(crate) flush_wanted: Notify,
    /// Wakes writers who wait for room.
    pub(crate) made: Notify,
}

impl Space {
    pub(crate) fn new(context: Arc<Context>, tier: Arc<Tier>) -> Self {
        Self {
            context,
            tier,
            pins: Pins::default(),
            recent: RecentFetches::default(),
            coming_bytes: AtomicU64::new(0),
            reserved: Mutex::default(),
            hydrating: Mutex::default(),
            flush_wanted: Notify::new(),
            made: Notify::new(),
        }
    }

    /// Bytes that fetches under way will bring at most.
    pub(crate) fn coming_bytes(&self) -> u64 {
        self.coming_bytes.load(Ordering::Relaxed)
    }

    /// A fetch that will bring so many bytes begins.
    pub(crate) fn expect(&self, bytes: u64) {
        self.coming_bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The fetch of so many bytes ended.
    pub(crate) fn arrived(&self, bytes: u64) {
        self.coming_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    /// Room that hydrations keep for what is not here yet.
    pub(crate) fn reserved(&self) -> Amount {
        *self.reserved.lock()
    }

    /// Keeps room for a hydration.
    pub(crate) fn reserve(&self, amount: Amount) {
        let mut reserved = self.reserved.lock();
        *reserved = reserved.plus(&amount);
    }

    /// Gives back what [`Space::reserve`] kept.
    pub(crate) fn unreserve(&self, amount: Amount) {
        let mut reserved = self.reserved.lock();
        *reserved = reserved.less(&amount);
    }

    /// A hydration begins: what is used from now on it brought, or somebody needs. Answers when
    /// that was, for [`Space::hydration_ended`].
    pub(crate) fn hydration_begins(&self) -> u64 {
        let since = self.tier.tick();
        self.hydrating.lock().insert(since);
        since
    }

    pub(crate) fn hydration_ended(&self, since: u64) {
        self.hydrating.lock().remove(&since);
    }

    /// Whether anything is hydrated now. Cheap.
    pub(crate) fn is_hydrating(&self) -> bool {
        !self.hydrating.lock().is_empty()
    }

    /// When the first of the hydrations that run began.
    pub(crate) fn hydrating_since(&self) -> u64 {
        self.hydrating.lock().first().copied().unwrap_or(u64::MAX)
    }

    /// What may still come in, beside what is on its way.
    pub(crate) fn room(&self) -> Result<Amount> {
        let room = self.tier.room()?;
        Ok(Amount { bytes: room.bytes.saturating_sub(self.coming_bytes()), ..room })
    }

    /// Whether there is room for what nobody asked for, beside what hydrations asked for.
    pub(crate) fn room_to_spare(&self, wanted: Amount) -> bool {
        let all = wanted.plus(&self.reserved());
        self.room().is_ok_and(|room| room.covers(&all))
    }

    /// Whether so little room is left that dirty data should leave.
    pub(crate) fn room_is_short(&self) -> bool {
        let (Ok(room), Ok(limit)) = (self.tier.room(), self.tier.limit()) else { return true };
        room.bytes < limit.bytes / SHORT_BYTES || room.files < limit.files / SHORT_FILES
    }

    /// Releases clean pages if there is no room for `wanted`. Answers whether there is now.
    pub(crate) async fn make_room(self: &Arc<Self>, wanted: Amount) -> Result<bool> {
        if self.room()?.covers(&wanted) {
            return Ok(true);
        }
        let space = self.clone();
        blocking(move || space.release(wanted)).await?;
        Ok(self.room()?.covers(&wanted))
    }

    /// Lets go of what was used longest ago, down to the low-water mark and until there is room for
    /// `wanted`. What hydrations brought goes only where nothing else makes that room.
    pub(crate) fn release(&self, wanted: Amount) -> Result<u64> {
        let wanted = Amount { bytes: wanted.bytes + self.coming_bytes(), ..wanted };
        let since = self.hydrating_since();
        let keep = |mirror: &Mirror| mirror.last_used() >= since || self.is_pinned(mirror);
        let mut released = self.tier.release_to_low_water(wanted, keep)?;
        if since < u64::MAX && !self.tier.room()?.covers(&wanted) {
            // Some more, so that not each write has to look for its own.
            let wanted = wanted.plus(&self.tier.limit()?.percent(1));
            released += self.tier.release_for(wanted, |mirror| self.is_pinned(mirror))?;
        }
        self.released(released);
        Ok(released)
    }

    /// Tells of room that was made.
    pub(crate) fn released(&self, bytes: u64) {
        Counts::add(&self.context.counts.bytes_released, bytes);
        if bytes > 0 {
            self.recent.forget();
        }
        self.made.notify_waiters();
    }

    /// Waits until `wanted` fits. Dirty data makes room only by leaving for the bucket, so this
    /// takes as long as the bucket does, up to the bucket's time limit without any progress.
    pub(crate) async fn wait_for_room(self: &Arc<Self>, wanted: Amount) -> Result<()> {
        let mut waited_since = self.context.now_ms();
        let mut dirty_before = u64::MAX;
        while !self.make_room(wanted).await? {
            self.context.check_writable()?;
            self.check_pins(wanted.bytes)?;
            let dirty = self.tier.dirty_bytes();
            if dirty < dirty_before {
                (dirty_before, waited_since) = (dirty, self.context.now_ms());
            }
            let most_ms = match dirty > 0 || self.coming_bytes() > 0 {
                true => self.context.settings.bucket_timeout_ms,
                false => HOPELESS_MS.min(self.context.settings.bucket_timeout_ms),
            };
            if self.context.now_ms() - waited_since > most_ms {
                return Err(self.why_full(wanted)?);
            }
            self.flush_wanted.notify_one();
            let _ = tokio::time::timeout(Duration::from_millis(50), self.made.notified()).await;
        }
        Ok(())
    }

    /// The disk was full though it had told of room: a quota, or others who were faster. Makes what
    /// room there can be made.
    pub(crate) async fn disk_was_full(self: &Arc<Self>) -> Result<()> {
        self.tier.look_anew();
        let space = self.clone();
        let pinned = move |mirror: &Mirror| space.is_pinned(mirror);
        let space = self.clone();
        let released = blocking(move || space.tier.release_oldest(FULL_BYTES, pinned)).await?;
        self.released(released);
        self.flush_wanted.notify_one();
        Ok(())
    }

    /// Why there is no room for `wanted`, and what to do.
    fn why_full(&self, wanted: Amount) -> Result<FsError> {
        let (usage, room) = (self.tier.usage()?, self.tier.room()?);
        let held = "open or mapped by programs, pinned, or not in the bucket yet";
        let (files, used) = (usage.mirrors, Bytes(usage.used_bytes));
        if room.files < wanted.files && usage.limits_files_by_memory() {
            let memory = self.context.settings.memory_bytes;
            let text = format!(
                "the tier holds {files} files, as many as a --memory of {memory} allows, and all of \
                 them are {held}: mount with more --memory"
            );
            return Ok(FsError::new(ErrorKind::NoSpace, text).coded(ErrorCode::TierFull));
        }
        if usage.dirty_bytes > 0 {
            let text = format!(
                "the tier is full of {} that the bucket does not take: see `weir status`; nothing \
                 is lost, and writing works again when the bucket does",
                Bytes(usage.dirty_bytes)
            );
            return Ok(FsError::new(ErrorKind::Retry, text).coded(ErrorCode::TierFull));
        }
        let text = if room.files < wanted.files {
            format!(
                "the tier's disk has {} inodes left, the {files} files of the tier are {held}, and \
                 all others belong to other users of that disk: remove files there, or make its \
                 file system with more inodes",
                usage.free_files
            )
        } else if usage.limit_bytes < usage.tier_bytes {
            format!(
                "the tier's disk is full: {} are free, of which a part must stay so, and the tier \
                 has {used}, which are {held}; the rest belongs to other users of that disk: make \
                 room there, or name a --tier on a larger disk",
                Bytes(usage.free_bytes)
            )
        } else {
            format!(
                "the tier of {} is full of {used} that are {held}: close or unpin some, or mount \
                 with a larger --tier-size",
                Bytes(usage.tier_bytes)
            )
        };
        Ok(FsError::new(ErrorKind::NoSpace, text).coded(ErrorCode::TierFull))
    }
}

impl Space {
    /// Whether release must leave a mirror alone.
    pub(crate) fn is_pinned(&self, mirror: &Mirror) -> bool {
        self.pins.has(mirror.ino())
    }

    /// Room in the tier that pinned files take.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        let mirrors = self.pins.all().into_iter().filter_map(|ino| self.tier.find(ino));
        mirrors.map(|mirror| mirror.local_bytes()).sum()
    }

    /// Fails when pinned files leave no room for `bytes` more, whatever else goes.
    pub(crate) fn check_pins(&self, bytes: u64) -> Result<()> {
        let (pinned, room) = (self.pinned_bytes(), self.tier.limit()?.bytes);
        if pinned == 0 || pinned + bytes <= room {
            return Ok(());
        }
        let text = format!(
            "pinned files take {} of the {} that the tier can have: unpin some with `weir unpin`, \
             or mount with a larger --tier-size, if its disk has that",
            Bytes(pinned),
            Bytes(room)
        );
        Err(FsError::new(ErrorKind::NoSpace, text).coded(ErrorCode::TierFull))
    }

    /// Lets every clean page of the tier go that is not pinned, as if it were cold. Answers bytes
    /// released.
    pub(crate) async fn release_all(self: &Arc<Self>) -> Result<u64> {
        let space = self.clone();
        blocking(move || {
            let pinned = |mirror: &Mirror| space.is_pinned(mirror);
            space.tier.release_oldest(u64::MAX, pinned).inspect(|bytes| space.released(*bytes))
        })
        .await
    }
}
