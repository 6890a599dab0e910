//! What the door counts while it runs.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::BlockCounts;

/// [`BlockCounts`] as they grow.
#[derive(Debug, Default)]
pub(crate) struct Counts {
    connections: AtomicU64,
    connections_total: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) trims: AtomicU64,
    pub(crate) flushes: AtomicU64,
    pub(crate) errors: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
}

impl Counts {
    /// As they are now.
    pub(crate) fn get(&self) -> BlockCounts {
        BlockCounts {
            connections: self.connections.load(Relaxed),
            connections_total: self.connections_total.load(Relaxed),
            reads: self.reads.load(Relaxed),
            writes: self.writes.load(Relaxed),
            trims: self.trims.load(Relaxed),
            flushes: self.flushes.load(Relaxed),
            errors: self.errors.load(Relaxed),
            bytes_read: self.bytes_read.load(Relaxed),
            bytes_written: self.bytes_written.load(Relaxed),
        }
    }

    /// Counts a connection until what is returned goes.
    pub(crate) fn connected(self: &Arc<Self>) -> Connected {
        self.connections.fetch_add(1, Relaxed);
        self.connections_total.fetch_add(1, Relaxed);
        Connected(self.clone())
    }
}

/// One connection that is open.
pub(crate) struct Connected(Arc<Counts>);

impl Drop for Connected {
    fn drop(&mut self) {
        self.0.connections.fetch_sub(1, Relaxed);
    }
}
