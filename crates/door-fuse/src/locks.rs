//! Locks, of records (`fcntl`) and of whole files (`flock`), where they are the daemon's: a mount
//! that is not alone with its volume.

use fuser::Errno;
use weir_engine::{Lock, LockOwner, LockSpace};
use weir_types::Ino;

use crate::door::{DoorState, Served};

/// The last byte of a file to the kernel, whose offsets are signed.
const KERNEL_END: u64 = i64::MAX as u64;

/// A lock as the kernel speaks of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct KernelLock {
    pub(crate) owner: u64,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) typ: i32,
    pub(crate) pid: u32,
    pub(crate) space: LockSpace,
}

impl KernelLock {
    /// The engine's lock, whose open end is another number.
    fn lock(self) -> Lock {
        Lock {
            owner: LockOwner(self.owner),
            start: self.start,
            last: if self.end >= KERNEL_END { u64::MAX } else { self.end },
            exclusive: self.typ == libc::F_WRLCK,
            pid: self.pid,
        }
    }

    fn from_lock(lock: Lock, space: LockSpace) -> Self {
        Self {
            space,
            owner: lock.owner.0,
            start: lock.start,
            end: lock.last.min(KERNEL_END),
            typ: if lock.exclusive { libc::F_WRLCK } else { libc::F_RDLCK },
            pid: lock.pid,
        }
    }
}

impl DoorState {
    /// The lock that is in the way of `wanted`; one of type `F_UNLCK` if there is none.
    pub(crate) fn test_lock(&self, ino: Ino, wanted: KernelLock) -> KernelLock {
        match self.engine.locks().test(ino, wanted.space, wanted.lock()) {
            Some(held) => KernelLock::from_lock(held, wanted.space),
            None => KernelLock { typ: libc::F_UNLCK, ..wanted },
        }
    }

    /// Takes or lets go of a lock. With `wait` it waits until it has it; who drops it gives up.
    pub(crate) async fn set_lock(&self, ino: Ino, wanted: KernelLock, wait: bool) -> Served<()> {
        let locks = self.engine.locks();
        let (lock, space) = (wanted.lock(), wanted.space);
        if wanted.typ == libc::F_UNLCK {
            locks.unlock(ino, space, lock.owner, lock.start, lock.last);
            return Ok(());
        }
        if !wait {
            return locks.try_lock(ino, space, lock).map_err(|_| Errno::EAGAIN.into());
        }
        Ok(locks.lock_wait(ino, space, lock).await?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POSIX: LockSpace = LockSpace::Posix;

    #[test]
    fn the_open_end_is_the_open_end_on_both_sides() {
        let kernel =
            KernelLock { owner: 9, start: 10, end: KERNEL_END, typ: libc::F_WRLCK, pid: 3, space: POSIX };
        let lock = kernel.lock();
        assert_eq!((lock.start, lock.last, lock.exclusive), (10, u64::MAX, true));
        assert_eq!(KernelLock::from_lock(lock, POSIX), kernel);
    }

    #[test]
    fn a_range_keeps_its_last_byte() {
        let kernel = KernelLock { owner: 9, start: 0, end: 99, typ: libc::F_RDLCK, pid: 3, space: POSIX };
        let lock = kernel.lock();
        assert_eq!((lock.last, lock.exclusive), (99, false));
        assert_eq!(KernelLock::from_lock(lock, POSIX), kernel);
    }
}
