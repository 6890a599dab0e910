//! Room: how much the tier may hold. Three things run out, whichever is first: bytes, inodes of the
//! disk's file system, and memory, of which each file in the tier takes some.
//!
//! The tier is as large as it was told to be or as its disk lets it be. The disk is asked, because
//! others use it too; a part of it is left free, for the logs and for what comes in between two
//! looks.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{StatVfs, statvfs};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::{FsError, Result};

use crate::tier::Tier;

/// How old an answer of the disk may be, in milliseconds.
const SPACE_AGE_MS: u64 = 100;
/// The share of a disk that is left free, where the setting is more: one part of so many.
const FLOOR_PART: u64 = 20;
/// Inodes that are left free on a large disk.
const FLOOR_FILES: u64 = 8_192;
/// Memory that one file in the tier takes: its mirror, with the maps that lead to it.
pub(crate) const MIRROR_BYTES: u64 = 1_024;
/// Ranges that are among it, as one node of their map; and memory of each one more.
pub(crate) const FEW_RANGES: usize = 11;
pub(crate) const RANGE_BYTES: u64 = 48;

/// What the file system below a directory has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskSpace {
    /// Its size in bytes.
    pub bytes: u64,
    /// Of these, bytes that we may still take.
    pub free_bytes: u64,
    /// Its inodes.
    pub files: u64,
    /// Of these, inodes that we may still take.
    pub free_files: u64,
}

/// Who knows the space below a directory: the kernel, or a test.
pub type AskSpace = Arc<dyn Fn(&Path) -> Result<DiskSpace> + Send + Sync>;

impl DiskSpace {
    /// Asks the kernel.
    pub fn ask(directory: &Path) -> Result<Self> {
        let StatVfs { f_bavail, f_blocks, f_frsize, f_files, f_favail, .. } = statvfs(directory)
            .map_err(|e| FsError::local_io(format!("statvfs {}", directory.display()), e.into()))?;
        // Some file systems make inodes as they need them and tell of none.
        let (files, free_files) =
            if f_files == 0 { (u64::MAX, u64::MAX) } else { (f_files, f_favail) };
        Ok(Self { bytes: f_blocks * f_frsize, free_bytes: f_bavail * f_frsize, files, free_files })
    }

    /// The kernel's answers.
    pub fn kernel() -> AskSpace {
        Arc::new(Self::ask)
    }

    /// Bytes of the disk to leave free: `wanted`, but no more than a small disk can spare.
    pub fn floor_bytes(&self, wanted: u64) -> u64 {
        wanted.min(self.bytes / FLOOR_PART)
    }
}

/// An amount of what runs out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Amount {
    /// Bytes of mirror files.
    pub bytes: u64,
    /// Mirror files: each takes an inode, and memory.
    pub files: u64,
}

impl Amount {
    /// Bytes alone.
    pub fn bytes(bytes: u64) -> Self {
        Self { bytes, files: 0 }
    }

    /// Whether this is at least as much of everything.
    pub fn covers(&self, other: &Self) -> bool {
        self.bytes >= other.bytes && self.files >= other.files
    }

    /// Both together.
    #[must_use]
    pub fn plus(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_add(other.bytes),
            files: self.files.saturating_add(other.files),
        }
    }

    /// What is left without the other, at least nothing.
    #[must_use]
    pub fn less(&self, other: &Self) -> Self {
        Self {
            bytes: self.bytes.saturating_sub(other.bytes),
            files: self.files.saturating_sub(other.files),
        }
    }

    pub(crate) fn least(&self, other: &Self) -> Self {
        Self { bytes: self.bytes.min(other.bytes), files: self.files.min(other.files) }
    }

    pub(crate) fn most(&self, other: &Self) -> Self {
        Self { bytes: self.bytes.max(other.bytes), files: self.files.max(other.files) }
    }

    /// A share of it.
    #[must_use]
    pub fn percent(&self, percent: u8) -> Self {
        let of = |all: u64| (u128::from(all) * u128::from(percent) / 100) as u64;
        Self { bytes: of(self.bytes), files: of(self.files) }
    }
}

/// The disk's last answer, and what the tier held then.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Asked {
    at_ms: u64,
    space: DiskSpace,
    held: Amount,
}

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
