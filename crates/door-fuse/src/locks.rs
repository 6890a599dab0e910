//! Locks, of records (`fcntl`) and of whole files (`flock`), where they are the daemon's: a mount
//! that is not alone with its volume.

use weir_engine::{Lock, LockOwner, LockSpace};
use weir_fuse::{Errno, LockRange};
use weir_types::Ino;

use crate::door::{DoorState, Served};

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
    /// The lock that is in the way of `wanted`; one of kind `F_UNLCK` if there is none.
    pub(crate) fn test_lock(&self, ino: Ino, wanted: KernelLock) -> LockRange {
        match self.engine.locks().test(ino, wanted.space, wanted.lock()) {
            Some(held) => range(held),
            None => LockRange { kind: libc::F_UNLCK, ..wanted.range },
        }
    }

    /// Takes or lets go of a lock. With `wait` it waits until it has it; who drops it gives up.
    pub(crate) async fn set_lock(&self, ino: Ino, wanted: KernelLock, wait: bool) -> Served<()> {
        let locks = self.engine.locks();
        let (lock, space) = (wanted.lock(), wanted.space);
        if wanted.range.kind == libc::F_UNLCK {
            locks.unlock(ino, space, lock.owner, lock.start, lock.last);
            return Ok(());
        }
        if !wait {
            return locks.try_lock(ino, space, lock).map_err(|_| Errno(libc::EAGAIN).into());
        }
        Ok(locks.lock_wait(ino, space, lock).await?)
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
