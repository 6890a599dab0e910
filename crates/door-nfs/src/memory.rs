//! What requests under way and their answers may take of memory: those of all clients, and those of one.
//!
//! Who has room for a request may wait for room for its answer, and who has that waits for the client alone, so
//! nobody waits in a circle.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// Permits are of this many bytes.
const UNIT_BYTES: usize = 4 << 10;

/// The memory of all for one thing, and the share of it that one client may have.
#[derive(Clone)]
pub(crate) struct Memory {
    all: Units,
    share: Units,
}

#[derive(Clone)]
struct Units {
    free: Arc<Semaphore>,
    count: u32,
}

/// What a request has, or an answer.
pub(crate) struct Room {
    _share: OwnedSemaphorePermit,
    _all: OwnedSemaphorePermit,
}

impl Units {
    fn new(bytes: usize) -> Self {
        let count = bytes.div_ceil(UNIT_BYTES).clamp(1, Semaphore::MAX_PERMITS.min(1 << 30));
        Self { free: Arc::new(Semaphore::new(count)), count: count as u32 }
    }

    /// So many bytes in permits; more than there is are all.
    fn permits(&self, bytes: usize) -> u32 {
        (bytes.div_ceil(UNIT_BYTES).max(1) as u32).min(self.count)
    }
}

impl Memory {
    /// So many bytes for all, a quarter of it for one client. What is largest fits always.
    pub(crate) fn new(bytes: u64, largest: usize) -> Self {
        let all = Units::new((bytes as usize).max(largest));
        let share = Units::new((bytes as usize / 4).max(largest));
        Self { all, share }
    }

    /// The same memory, with a share for another client.
    pub(crate) fn of_another(&self) -> Self {
        let share = Units::new(self.share.count as usize * UNIT_BYTES);
        Self { all: self.all.clone(), share }
    }

    /// Takes room from the client's share first, and then from what all have; waits where there is none. Who
    /// waits is served in turn.
    pub(crate) async fn take(&self, bytes: usize) -> Option<Room> {
        let share = self.share.free.clone().acquire_many_owned(self.share.permits(bytes)).await;
        let all = self.all.free.clone().acquire_many_owned(self.all.permits(bytes)).await;
        Some(Room { _share: share.ok()?, _all: all.ok()? })
    }

    /// The same where there is room now.
    pub(crate) fn try_take(&self, bytes: usize) -> Option<Room> {
        let share = self.share.free.clone().try_acquire_many_owned(self.share.permits(bytes));
        let all = self.all.free.clone().try_acquire_many_owned(self.all.permits(bytes));
        Some(Room { _share: share.ok()?, _all: all.ok()? })
    }

    /// Whether any connection has this share still, besides who remembers it.
    pub(crate) fn is_used(&self) -> bool {
        Arc::strong_count(&self.share.free) > 1
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_client_leaves_room_for_the_others() {
        let one = Memory::new(1 << 20, 64 << 10);
        let two = one.of_another();
        let mut has = Vec::new();
        for _ in 0..4 {
            has.push(one.take(64 << 10).await);
        }
        let fifth = tokio::time::timeout(Duration::from_secs(1), one.take(1)).await;
        assert!(fifth.is_err(), "a quarter is taken");
        assert!(one.try_take(1).is_none() && two.try_take(64 << 10).is_some());
        has.pop();
        assert!(one.try_take(64 << 10).is_some());
    }

    #[tokio::test]
    async fn what_is_largest_fits_always() {
        let memory = Memory::new(0, 1 << 20);
        assert!(memory.take(1 << 20).await.is_some());
        assert!(memory.take(1 << 30).await.is_some(), "all of it is enough for what is too much");
    }
}
