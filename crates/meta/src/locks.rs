//! Advisory locks of this node, in memory: POSIX byte-range locks and whole-file `flock` locks.

use weir_types::{Ino, Result};

/// Who holds or wants a lock: whatever number the door tells its clients' owners apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner(pub u64);

/// The two kinds of locks, which do not see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LockSpace {
    /// `fcntl` record locks: byte ranges, deadlocks detected.
    Posix,
    /// `flock` locks: the whole file (the range given is not looked at).
    Flock,
}

/// A lock held or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Whose.
    pub owner: LockOwner,
    /// First byte.
    pub start: u64,
    /// Last byte, included; `u64::MAX` for all that follows.
    pub last: u64,
    /// A write lock; else a read lock.
    pub exclusive: bool,
    /// The process, told to whoever asks what is in the way.
    pub pid: u32,
}

/// All advisory locks of a node.
#[derive(Debug, Default)]
pub struct LockTable {}

impl LockTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes the lock, replacing what the owner holds in its range, or returns a lock in the way.
    pub fn try_lock(&self, _ino: Ino, _space: LockSpace, _lock: Lock) -> Result<(), Lock> {
        todo!()
    }

    /// A lock that would be in the way of this one, if any (`F_GETLK`).
    pub fn test(&self, _ino: Ino, _space: LockSpace, _lock: Lock) -> Option<Lock> {
        todo!()
    }

    /// Takes the lock, waiting as long as others are in the way. `Deadlock` if one of them waits
    /// (over whatever many others) for this owner; POSIX locks only. Dropping the future gives up.
    pub async fn lock_wait(&self, _ino: Ino, _space: LockSpace, _lock: Lock) -> Result<()> {
        todo!()
    }

    /// Lets go of the bytes `start..=last`; of the whole file for `Flock`.
    pub fn unlock(&self, _ino: Ino, _space: LockSpace, _owner: LockOwner, _start: u64, _last: u64) {
        todo!()
    }

    /// Lets go of all that the owner holds in this file, of both kinds.
    pub fn release_owner(&self, _ino: Ino, _owner: LockOwner) {
        todo!()
    }
}
