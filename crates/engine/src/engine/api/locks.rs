//! Advisory locks of files.

use weir_meta::locks::{Lock, LockOwner, LockSpace};
use weir_types::{Ino, Result};

use crate::engine::Engine;
use crate::names::locks::Granted;
use crate::volume::boxed::{Boxed, boxed};
use crate::volume::locked::{LockView, views};

impl Engine {
    /// Takes a lock, replacing what its owner holds in its range. `None` where another is in the way; with
    /// `wait` it waits until none is, and `Deadlock` says that one of its holders here waits for this owner.
    /// Who drops it gives up. Where nodes share the volume: two reads and one commit, and one more read where
    /// another node holds something of the file.
    pub fn lock(
        &self,
        file: (Ino, LockSpace),
        lock: Lock,
        wait: bool,
    ) -> Boxed<'_, Result<Option<Granted>>> {
        boxed(self.locks.lock(file, lock, wait))
    }

    /// A lock that would be in the way of this one, if any. One of another node has the pid 0.
    pub fn test_lock(
        &self,
        (ino, space): (Ino, LockSpace),
        lock: Lock,
    ) -> Boxed<'_, Result<Option<Lock>>> {
        boxed(self.locks.test(ino, space, lock))
    }

    /// Lets go of bytes, first and last one given, of the whole file for `Flock`. Other nodes find what was
    /// written here before they can have the lock; where that fails it is kept.
    pub fn unlock(
        &self,
        file: (Ino, LockSpace),
        owner: LockOwner,
        range: (u64, u64),
    ) -> Boxed<'_, Result<()>> {
        boxed(self.locks.unlock(file, owner, range))
    }

    /// Lets go of all that the owner holds in this file, of both kinds, as [`Engine::unlock`] does. Where that
    /// fails it is let go when the reason has passed.
    pub fn release_locks(&self, ino: Ino, owner: LockOwner) -> Boxed<'_, Result<()>> {
        boxed(self.locks.release_owner(ino, owner))
    }

    /// Does it as [`Engine::release_locks`] does, if that waits for nothing; `false`, and nothing is done, if it
    /// has to. Costs nothing.
    pub fn try_release_locks(&self, ino: Ino, owner: LockOwner) -> bool {
        let waits = self.is_shared() && self.locks.holds_any(ino, owner);
        if !waits {
            self.locks.table.release_owner(ino, owner);
        }
        !waits
    }

    /// All locks that are held here.
    pub fn held_locks(&self) -> Vec<(Ino, LockSpace, Lock)> {
        self.locks.table.all()
    }

    /// All locks that are held or waited for, for people: of all nodes where some share the volume. Some four
    /// reads then, and a few for each file that is locked.
    pub fn all_locks(&self) -> Boxed<'_, Result<Vec<LockView>>> {
        boxed(async move { views(&**self.data.meta.kv(), self.locks.all().await?).await })
    }

    /// Goes on with a lock that the mount before this one had.
    pub fn restore_lock(&self, file: (Ino, LockSpace), lock: Lock) -> Boxed<'_, Result<()>> {
        boxed(self.locks.restore(file, lock))
    }
}
