//! Backups: volumes as they were at one moment, in another bucket, whole without the first one.
//!
//! A backup is the rows of a snapshot's metadata, in a form that no metadata engine needs to be there for, and the
//! segments that they name, which backups of one volume share. docs/format.md has each byte. What must always hold:
//!
//! - `backup.json` of a backup is written when all that it names is there, and removed before any of that.
//! - One process at a time changes a place of backups.
//! - What is taken was read whole, and its checksums hold; else the backup says what is damaged.
//! - A volume that is restored is there when all of it is.

mod held;
mod keep;
mod manifest;
mod restore;
mod rows;
mod segments;
mod take;

pub use keep::{Deleted, backups, delete_backups};
pub use manifest::BackupView;
pub use restore::{RestoreVolumeOptions, RestoredVolume, restore_volume};
pub use take::{BackupOptions, BackupReport, Taking};

use std::sync::atomic::{AtomicU64, Ordering};

/// How far a backup or its restoring is; may be read while it goes on.
#[derive(Debug, Default)]
pub struct BackupProgress {
    /// Segments that were looked at.
    pub segments: AtomicU64,
    /// Segments in all, once they are counted.
    pub segments_all: AtomicU64,
    /// Bytes of segments that are there by now.
    pub bytes: AtomicU64,
    /// Bytes of all segments.
    pub bytes_all: AtomicU64,
    /// Rows of metadata that are there by now.
    pub rows: AtomicU64,
}

impl BackupProgress {
    fn segment(&self, bytes: u64) {
        self.segments.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    fn all(&self, segments: u64, bytes: u64) {
        self.segments_all.store(segments, Ordering::Relaxed);
        self.bytes_all.store(bytes, Ordering::Relaxed);
    }
}
