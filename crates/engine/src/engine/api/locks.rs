//! Advisory locks of files.

use std::time::Duration;

use weir_meta::locks::{Lock, LockOwner, LockSpace};
use weir_meta::reclaims::{self, LockStanding, ReclaimRow};
use weir_meta::sessions::SessionId;
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

    /// Takes a lock that its owner had at another session, whose locks outlive it ([`Engine::locks_outlive`]); `None`
    /// where one of this mount is in the way, `Conflict` where that session did not have it, or nothing of it stands
    /// any more. Three reads and one commit.
    pub fn claim_lock(
        &self,
        file: (Ino, LockSpace),
        lock: Lock,
        of: SessionId,
    ) -> Boxed<'_, Result<Option<Granted>>> {
        boxed(self.locks.claim(file, lock, of))
    }

    /// The name of this mount among those that share the volume; `None` where it is alone with it.
    pub fn session(&self) -> Option<SessionId> {
        self.data.context.together.as_ref().map(|together| together.id())
    }

    /// From now on locks that are held here stand after this session's end, for as long as clients may take to
    /// claim them at another one: for clients that may come back elsewhere. Nothing where the mount is alone; one
    /// commit otherwise.
    pub fn locks_outlive(&self, lease: Duration) -> Boxed<'_, Result<()>> {
        boxed(async move {
            let Some(id) = self.session() else { return Ok(()) };
            let row = ReclaimRow { lease_ms: lease.as_millis() as u64 };
            reclaims::outlive(&**self.data.meta.kv(), id, row).await
        })
    }

    /// Locks of these sessions do not outlive them any more. One commit.
    pub fn locks_outlive_no_more(&self, ids: Vec<SessionId>) -> Boxed<'_, Result<()>> {
        boxed(async move { reclaims::outlive_no_more(&**self.data.meta.kv(), &ids).await })
    }

    /// What becomes of the locks of each of these sessions. One read.
    pub fn standing<'a>(&'a self, ids: &'a [SessionId]) -> Boxed<'a, Result<Vec<LockStanding>>> {
        boxed(async move { reclaims::standing(&**self.data.meta.kv(), ids).await })
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

    /// Forgets all that the owner holds in this file, and tells nobody: other nodes take it for held until this
    /// session has ended, and longer where [`Engine::locks_outlive`] says so. For a session that ends.
    pub fn forget_locks(&self, ino: Ino, owner: LockOwner) {
        self.locks.table.release_owner(ino, owner);
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
