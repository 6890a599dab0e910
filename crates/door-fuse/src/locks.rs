//! Locks, of records (`fcntl`) and of whole files (`flock`), where they are the daemon's: a mount
//! that is not alone with its volume.

use std::sync::Arc;

use weir_engine::{Granted, Lock, LockOwner, LockSpace};
use weir_fuse::{Errno, LockRange};
use weir_types::Ino;

use crate::door::{DoorState, Served};
use crate::faces::Known;

/// The last byte of a file to the kernel, whose offsets are signed.
const KERNEL_END: u64 = i64::MAX as u64;

/// A lock as the kernel speaks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelLock {
    pub(crate) owner: u64,
    pub(crate) range: LockRange,
    pub(crate) space: LockSpace,
}

impl KernelLock {
    /// By the flags that go with it.
    pub(crate) fn new(owner: u64, range: LockRange, lk_flags: u32) -> Self {
        let whole = lk_flags & weir_fuse::lock::FLOCK != 0;
        Self { owner, range, space: if whole { LockSpace::Flock } else { LockSpace::Posix } }
    }

    /// The engine's lock, whose open end is another number.
    fn lock(self) -> Lock {
        let LockRange { start, end, kind, pid } = self.range;
        Lock {
            owner: LockOwner(self.owner),
            start,
            last: if end >= KERNEL_END { u64::MAX } else { end },
            exclusive: kind == libc::F_WRLCK,
            pid,
        }
    }
}

fn range(lock: Lock) -> LockRange {
    LockRange {
        start: lock.start,
        end: lock.last.min(KERNEL_END),
        kind: if lock.exclusive { libc::F_WRLCK } else { libc::F_RDLCK },
        pid: lock.pid,
    }
}

impl DoorState {
    /// The lock that is in the way of `wanted`; one of kind `F_UNLCK` if there is none. The process of
    /// one on another node is 0, as it is on NFS.
    pub(crate) async fn test_lock(&self, ino: Ino, wanted: KernelLock) -> Served<LockRange> {
        let held = self.engine.test_lock((ino, wanted.space), wanted.lock()).await?;
        Ok(held.map_or(LockRange { kind: libc::F_UNLCK, ..wanted.range }, range))
    }

    /// Takes or lets go of a lock. With `wait` it waits until it has it; who drops it gives up. ESTALE where
    /// others changed the file before, and the kernel reads it for this one as it was: who opens it again
    /// finds what they wrote.
    pub(crate) async fn set_lock(
        self: &Arc<Self>,
        known: Known,
        wanted: KernelLock,
        wait: bool,
    ) -> Served<()> {
        let ino = known.ino();
        let (lock, file) = (wanted.lock(), (ino, wanted.space));
        if wanted.range.kind == libc::F_UNLCK {
            return Ok(self.engine.unlock(file, lock.owner, (lock.start, lock.last)).await?);
        }
        let Some(granted) = self.engine.lock(file, lock, wait).await? else {
            return Err(Errno(libc::EAGAIN).into());
        };
        if granted.is_new() {
            self.see_others(ino, &granted).await;
        }
        self.engine.is_locked(ino);
        let lent = self.passthrough.modes().lent(known);
        if lent.is_some_and(|lent| !self.engine.lends(ino, lent.lending)) {
            return Err(Errno(libc::ESTALE).into());
        }
        granted.keep();
        Ok(())
    }

    /// Has the kernel forget what others may have changed of a file before its lock came here. It waits for
    /// those who read a page, and these for nothing that waits for the lock.
    async fn see_others(self: &Arc<Self>, ino: Ino, granted: &Granted) {
        self.forget_attributes(ino);
        let epoch = granted.epoch();
        if epoch.is_some_and(|epoch| self.cached.is_of(ino, epoch)) {
            return;
        }
        let door = self.clone();
        drop(tokio::task::spawn_blocking(move || door.drop_pages_of(ino, 0, 0)).await);
        // Only now: who opens the file meanwhile must not keep what was there.
        if let Some(epoch) = epoch {
            self.cached.dropped(ino, epoch);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn kernel(start: u64, end: u64, kind: i32, lk_flags: u32) -> KernelLock {
        KernelLock::new(9, LockRange { start, end, kind, pid: 3 }, lk_flags)
    }

    #[test]
    fn the_open_end_is_the_open_end_on_both_sides() {
        let kernel = kernel(10, KERNEL_END, libc::F_WRLCK, 0);
        let lock = kernel.lock();
        assert_eq!((lock.start, lock.last, lock.exclusive), (10, u64::MAX, true));
        assert_eq!(range(lock), kernel.range);
    }

    #[test]
    fn a_range_keeps_its_last_byte() {
        let kernel = kernel(0, 99, libc::F_RDLCK, 0);
        let lock = kernel.lock();
        assert_eq!((lock.last, lock.exclusive), (99, false));
        assert_eq!(range(lock), kernel.range);
    }

    #[test]
    fn locks_of_whole_files_are_apart() {
        assert_eq!(kernel(0, 9, libc::F_RDLCK, 0).space, LockSpace::Posix);
        assert_eq!(kernel(0, 9, libc::F_RDLCK, weir_fuse::lock::FLOCK).space, LockSpace::Flock);
    }
}
