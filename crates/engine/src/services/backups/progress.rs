//! How far a backup is, for who waits for it.

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
    pub(super) fn segment(&self, bytes: u64) {
        self.segments.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    pub(super) fn all(&self, segments: u64, bytes: u64) {
        self.segments_all.store(segments, Ordering::Relaxed);
        self.bytes_all.store(bytes, Ordering::Relaxed);
    }
}
