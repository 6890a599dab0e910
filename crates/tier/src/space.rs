//! What runs out: room on a disk, and memory.

use std::path::Path;
use std::sync::Arc;

use rustix::fs::{StatVfs, statvfs};
use weir_types::{FsError, Result};

/// The share of a disk that is left free, where the setting is more: one part of so many.
pub(crate) const FLOOR_PART: u64 = 20;
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
    pub(crate) at_ms: u64,
    pub(crate) space: DiskSpace,
    pub(crate) held: Amount,
}
