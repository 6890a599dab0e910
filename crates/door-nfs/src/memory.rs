//! What requests under way may take of memory, all of them and those of one connection.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits are of this many bytes.
const UNIT_BYTES: usize = 4 << 10;

/// The memory of all, or the share of one of them.
#[derive(Clone)]
pub(crate) struct Memory {
    units: Arc<Semaphore>,
    all: u32,
}

/// What a request has.
pub(crate) struct Room {
    _own: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Memory {
    /// So many bytes; one request of the largest size fits always.
    pub(crate) fn new(bytes: u64, request_bytes: usize) -> Self {
        let units = (bytes as usize).max(2 * request_bytes).div_ceil(UNIT_BYTES);
        let all = units.min(Semaphore::MAX_PERMITS).min(u32::MAX as usize);
        Self { units: Arc::new(Semaphore::new(all)), all: all as u32 }
    }

    /// Takes room for a request from the share of its client first and then from what all have; waits where
    /// there is none. Who waits is served in turn. `None` where the server ends.
    pub(crate) async fn take(&self, share: &Memory, bytes: usize) -> Option<Room> {
        let units = bytes.div_ceil(UNIT_BYTES).max(1) as u32;
        let own = share.units.clone().acquire_many_owned(units.min(share.all)).await.ok()?;
        let all = self.units.clone().acquire_many_owned(units.min(self.all)).await.ok()?;
        Some(Room { _own: own, _all: all })
    }
}

impl Memory {
    /// Whether any connection has it still, besides who remembers it.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.units) > 1
    }
}
