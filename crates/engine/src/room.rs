//! Room in the tier for what comes in: made by letting go of what is clean, waited for where that
//! takes a flush, and refused with the true reason where neither helps.

use std::sync::Arc;
use std::time::Duration;

use weir_tier::{Amount, Mirror};
use weir_types::{Bytes, ErrorKind, FsError, Result};

use crate::background::blocking;
use crate::engine::{Core, Counts};

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

impl Core {
    /// What may still come in, beside what is on its way.
    pub(crate) fn room(&self) -> Result<Amount> {
        let room = self.tier.room()?;
        Ok(Amount { bytes: room.bytes.saturating_sub(self.fetcher.coming_bytes()), ..room })
    }

    /// Whether there is room for what nobody asked for, beside what hydrations asked for.
    pub(crate) fn room_to_spare(&self, wanted: Amount) -> bool {
        let all = wanted.plus(&self.actions.reserved());
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
        let core = self.clone();
        blocking(move || core.release(wanted)).await?;
        Ok(self.room()?.covers(&wanted))
    }

    /// Lets go of what was used longest ago, down to the low-water mark and until there is room for
    /// `wanted`. What hydrations brought goes only where nothing else makes that room.
    pub(crate) fn release(&self, wanted: Amount) -> Result<u64> {
        let wanted = Amount { bytes: wanted.bytes + self.fetcher.coming_bytes(), ..wanted };
        let since = self.actions.hydrating_since();
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
        Counts::add(&self.counts.bytes_released, bytes);
        if bytes > 0 {
            self.fetcher.came.forget();
        }
        self.room_made.notify_waiters();
    }

    /// Waits until `wanted` fits. Dirty data makes room only by leaving for the bucket, so this
    /// takes as long as the bucket does, up to the bucket's time limit without any progress.
    pub(crate) async fn wait_for_room(self: &Arc<Self>, wanted: Amount) -> Result<()> {
        let mut waited_since = self.now_ms();
        let mut dirty_before = u64::MAX;
        while !self.make_room(wanted).await? {
            self.check_writable()?;
            self.check_pins(wanted.bytes)?;
            let dirty = self.tier.dirty_bytes();
            if dirty < dirty_before {
                (dirty_before, waited_since) = (dirty, self.now_ms());
            }
            let most_ms = match dirty > 0 || self.fetcher.coming_bytes() > 0 {
                true => self.settings.bucket_timeout_ms,
                false => HOPELESS_MS.min(self.settings.bucket_timeout_ms),
            };
            if self.now_ms() - waited_since > most_ms {
                return Err(self.why_full(wanted)?);
            }
            self.flush_wanted.notify_one();
            let _ =
                tokio::time::timeout(Duration::from_millis(50), self.room_made.notified()).await;
        }
        Ok(())
    }

    /// The disk was full though it had told of room: a quota, or others who were faster. Makes what
    /// room there can be made.
    pub(crate) async fn disk_was_full(self: &Arc<Self>) -> Result<()> {
        self.tier.look_anew();
        let core = self.clone();
        let pinned = move |mirror: &Mirror| core.is_pinned(mirror);
        let core = self.clone();
        let released = blocking(move || core.tier.release_oldest(FULL_BYTES, pinned)).await?;
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
            let memory = self.settings.memory_bytes;
            let text = format!(
                "the tier holds {files} files, as many as a --memory of {memory} allows, and all of \
                 them are {held}: mount with more --memory"
            );
            return Ok(FsError::new(ErrorKind::NoSpace, text));
        }
        if usage.dirty_bytes > 0 {
            let text = format!(
                "the tier is full of {} that the bucket does not take: see `weir status`; nothing \
                 is lost, and writing works again when the bucket does",
                Bytes(usage.dirty_bytes)
            );
            return Ok(FsError::new(ErrorKind::Retry, text));
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
        Ok(FsError::new(ErrorKind::NoSpace, text))
    }
}
