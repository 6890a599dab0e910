//! Room: how much the tier may hold. Three things run out, whichever is first: bytes, inodes of the
//! disk's file system, and memory, of which each file in the tier takes some.
//!
//! The tier is as large as it was told to be or as its disk lets it be. The disk is asked, because
//! others use it too; a part of it is left free, for the logs and for what comes in between two
//! looks.

use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::Result;

use crate::space::{Amount, Asked, DiskSpace, FLOOR_PART, MIRROR_BYTES};
use crate::tier::Tier;

/// How old an answer of the disk may be, in milliseconds.
const SPACE_AGE_MS: u64 = 100;
/// Inodes that are left free on a large disk.
const FLOOR_FILES: u64 = 8_192;

/// What the tier holds, and what it may.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Usage {
    /// Room that the mirror files were given.
    pub tier_bytes: u64,
    /// Of that, what their disk can give by now: it has other users.
    pub limit_bytes: u64,
    /// Room that they take.
    pub used_bytes: u64,
    /// Of that, bytes that are not in the bucket yet.
    pub dirty_bytes: u64,
    /// Files in the tier.
    pub mirrors: u64,
    /// Most files that may be in it, by the inodes of its disk and by memory.
    pub limit_files: u64,
    /// Memory that is taken by what is known of these files.
    pub memory_bytes: u64,
    /// Free bytes on the disk.
    pub free_bytes: u64,
    /// Free inodes on the disk.
    pub free_files: u64,
}

impl Usage {
    /// Whether more files are kept out by memory, not by the disk.
    pub fn limits_files_by_memory(&self) -> bool {
        self.limit_files < self.mirrors.saturating_add(self.free_files) / 2
    }
}

impl Tier {
    /// What the tier holds, and what it may.
    pub fn usage(&self) -> Result<Usage> {
        let (limit, space) = (self.limit()?, self.space()?);
        Ok(Usage {
            tier_bytes: self.options.tier_bytes,
            limit_bytes: limit.bytes,
            used_bytes: self.held().bytes,
            dirty_bytes: self.dirty_bytes(),
            mirrors: self.all().len() as u64,
            limit_files: limit.files,
            memory_bytes: self.shared.memory_bytes.load(Ordering::Relaxed),
            free_bytes: space.free_bytes,
            free_files: space.free_files,
        })
    }

    fn held(&self) -> Amount {
        let load = |of: &AtomicU64| of.load(Ordering::Relaxed);
        Amount { bytes: load(&self.shared.used_bytes), files: load(&self.shared.files) }
    }

    /// The disk's space, asked for at most every 100 ms. What came and went since is reckoned in:
    /// much can come in within that time.
    pub(crate) fn space(&self) -> Result<DiskSpace> {
        let (now_ms, held) = (self.shared.now_ms(), self.held());
        let mut last = self.asked.lock();
        let asked = match *last {
            Some(asked) if now_ms <= asked.at_ms + SPACE_AGE_MS => asked,
            _ => {
                let space = (self.options.ask_space)(&self.options.directory)?;
                *last.insert(Asked { at_ms: now_ms, space, held })
            }
        };
        let by_now = |free: u64, then: u64, now: u64| free.saturating_add(then).saturating_sub(now);
        Ok(DiskSpace {
            free_bytes: by_now(asked.space.free_bytes, asked.held.bytes, held.bytes),
            free_files: by_now(asked.space.free_files, asked.held.files, held.files),
            ..asked.space
        })
    }

    /// The disk was found to be full: what it said before is void.
    pub fn look_anew(&self) {
        *self.asked.lock() = None;
    }

    /// What the tier may hold now: what it was given, or what its disk and its memory can give.
    pub fn limit(&self) -> Result<Amount> {
        let (space, held) = (self.space()?, self.held());
        let floor = self.floor(&space);
        let memory = self.shared.memory_bytes.load(Ordering::Relaxed);
        let known = (held.files * MIRROR_BYTES).saturating_add(self.options.memory_bytes);
        Ok(Amount {
            bytes: held.bytes.saturating_add(space.free_bytes).saturating_sub(floor.bytes),
            files: held.files.saturating_add(space.free_files).saturating_sub(floor.files),
        }
        .least(&Amount {
            bytes: self.options.tier_bytes,
            files: known.saturating_sub(memory) / MIRROR_BYTES,
        }))
    }

    /// What may come in before the tier, its disk or its memory is full.
    pub fn room(&self) -> Result<Amount> {
        self.room_below(100)
    }

    /// What may come in before the high-water mark.
    pub fn room_below_high_water(&self) -> Result<Amount> {
        self.room_below(self.options.high_water_percent)
    }

    fn room_below(&self, percent: u8) -> Result<Amount> {
        let (limit, space) = (self.limit()?.percent(percent), self.space()?);
        let on_disk = space.free_bytes.saturating_sub(self.floor(&space).bytes);
        let room = limit.less(&self.taken());
        Ok(Amount { bytes: room.bytes.min(on_disk), ..room })
    }

    /// What is taken and can be made free.
    pub(crate) fn taken(&self) -> Amount {
        Amount { bytes: self.shared.used_bytes(), files: self.held().files }
    }

    fn floor(&self, space: &DiskSpace) -> Amount {
        Amount {
            bytes: space.floor_bytes(self.options.free_floor_bytes),
            files: (space.files / FLOOR_PART).min(FLOOR_FILES),
        }
    }
}
