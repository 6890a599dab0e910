//! Advisory locks: of the programs of this mount among themselves, and, where several nodes write the
//! volume, of all of them.
//!
//! The table of this mount stands in front: what its programs want of one another is settled there. Where
//! nodes share the volume, what the table has of a file is also said in the file's row of the metadata.
//!
//! What must always hold there:
//! - A lock is in the row before it is in the table, and in the table no longer than in the row, or as long as
//!   it is not known whether it is.
//! - Who has a lock finds what was written under those before it: what is here of the file is brought in step
//!   when a lock is taken, and flushed before one is let go.
//! - One change of a file's locks at a time: whoever has the file's turn.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::sync::oneshot;
use weir_meta::Meta;
use weir_meta::locks::{Lock, LockOwner, LockSpace, LockTable};
use weir_meta::node_locks::{self, NodeLocks};
use weir_meta::node_waits::{FileLock, all_locks};
use weir_meta::sessions::SessionId;
use weir_tier::Tier;
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::data::flush::Flusher;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::{Node, Nodes};
use crate::names::waits::Waits;
use crate::volume::context::Context;
use crate::volume::locks::OwnedMutexGuard;
use crate::volume::together::Together;

/// First time between two looks at a lock of another node, and longest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_millis(500);

/// Looks at a file of which programs here write other bytes all the time.
const TRIES: usize = 8;

/// The advisory locks of a mount.
pub(crate) struct Locks {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) flusher: Arc<Flusher>,
    pub(crate) table: LockTable,
    pub(crate) waits: Arc<Waits>,
}

/// One lock of one file.
#[derive(Clone, Copy, Debug)]
struct Wanted {
    ino: Ino,
    space: LockSpace,
    lock: Lock,
    /// Its owner had it at this session, which has ended.
    claimed: Option<SessionId>,
}

/// The right to change a file's locks.
struct Turn {
    _guard: OwnedMutexGuard,
    /// It is one node as long as somebody has the turn.
    _node: Arc<Node>,
}

/// A lock that is this mount's, and its owner's once it is kept. Dropped before, it is let go.
#[must_use]
pub struct Granted {
    locks: Arc<Locks>,
    wanted: Wanted,
    /// `None` where the owner has it already.
    turn: Option<Turn>,
    is_new: bool,
}

/// What came of one try.
enum Tried {
    Granted(Granted),
    /// Another program of this mount has it.
    TakenHere,
    /// Another node has it.
    TakenElsewhere,
}

impl Granted {
    /// Whether others may have changed the file before: nobody here had the lock.
    pub fn is_new(&self) -> bool {
        self.is_new
    }

    /// Stays the same as long as nobody but this mount changed the file's bytes, as [`OpenFile::epoch`]
    /// does; `None` where nothing of it is here.
    ///
    /// [`OpenFile::epoch`]: crate::OpenFile::epoch
    pub fn epoch(&self) -> Option<u64> {
        self.locks.tier.find(self.wanted.ino).map(|mirror| mirror.epoch())
    }

    /// The owner has it from now on.
    pub fn keep(mut self) {
        // Until it is in the table nobody else has the turn.
        if let Some(_turn) = self.turn.take() {
            let Wanted { ino, space, lock, .. } = self.wanted;
            if self.locks.table.try_lock(ino, space, lock).is_err() {
                tracing::error!(%ino, ?lock, "a lock was granted twice: report this");
            }
        }
    }
}

impl Drop for Granted {
    fn drop(&mut self) {
        if let Some(turn) = self.turn.take() {
            self.locks.take_back(self.wanted, Some(turn));
        }
    }
}

impl Locks {
    /// Takes a lock, replacing what its owner holds in its range. `None` where another is in the way; with
    /// `wait` it waits until none is, as [`LockTable::lock_wait`] does. Who drops it gives up.
    pub(crate) async fn lock(
        self: &Arc<Self>,
        (ino, space): (Ino, LockSpace),
        lock: Lock,
        wait: bool,
    ) -> Result<Option<Granted>> {
        let wanted = Wanted { ino, space, lock, claimed: None };
        let _waits = wait.then(|| self.waits.begin((ino, space, lock)));
        let Some(together) = self.others(ino) else {
            if wait {
                self.table.lock_wait(ino, space, lock).await?;
            } else if self.table.try_lock(ino, space, lock).is_err() {
                return Ok(None);
            }
            return Ok(Some(Granted { locks: self.clone(), wanted, turn: None, is_new: false }));
        };
        let mut pause = PAUSE;
        loop {
            if wait {
                self.table.wait_until_free(ino, space, lock).await?;
            }
            match self.take_to_its_end(together, wanted).await? {
                Tried::Granted(granted) => return Ok(Some(granted)),
                Tried::TakenHere | Tried::TakenElsewhere if !wait => return Ok(None),
                Tried::TakenHere => {}
                Tried::TakenElsewhere => {
                    tokio::time::sleep(pause).await;
                    pause = PAUSE_MAX.min(pause * 2);
                }
            }
        }
    }

    /// Takes a lock that its owner had at a session that has ended, and whose locks outlive it. `None` where another
    /// is in the way, `Conflict` where that session did not have it.
    pub(crate) async fn claim(
        self: &Arc<Self>,
        (ino, space): (Ino, LockSpace),
        lock: Lock,
        of: SessionId,
    ) -> Result<Option<Granted>> {
        let wanted = Wanted { ino, space, lock, claimed: Some(of) };
        let Some(together) = &self.context.together else { return Ok(None) };
        match self.take_to_its_end(together, wanted).await? {
            Tried::Granted(granted) => Ok(Some(granted)),
            Tried::TakenHere | Tried::TakenElsewhere => Ok(None),
        }
    }

    /// What was begun is known to its end, also when nobody waits for it any more.
    async fn take_to_its_end(
        self: &Arc<Self>,
        together: &Arc<Together>,
        wanted: Wanted,
    ) -> Result<Tried> {
        let (locks, together, (tell, told)) = (self.clone(), together.clone(), oneshot::channel());
        tokio::spawn(async move {
            let tried = locks.take(&together, wanted).await;
            // Nobody waits: it is let go as it is dropped.
            drop(tell.send(tried));
        });
        let ended = |_| FsError::new(ErrorKind::Bug, "taking a lock ended without an answer");
        told.await.map_err(ended)?
    }

    async fn take(self: &Arc<Self>, together: &Together, wanted: Wanted) -> Result<Tried> {
        let Wanted { ino, space, lock, claimed } = wanted;
        let turn = self.turn(ino).await;
        if self.table.test(ino, space, lock).is_some() {
            return Ok(Tried::TakenHere);
        }
        let is_new = !self.table.is_covered(ino, space, lock);
        let own = self.table.held_with(ino, space, lock);
        let said = NodeLocks {
            session: together.id(),
            ino,
            own: &own,
            wanted: Some((space, lock)),
            claimed,
            anew: false,
        };
        match node_locks::say(&**self.meta.kv(), said).await {
            Ok(None) => {}
            Ok(Some(_)) => return Ok(Tried::TakenElsewhere),
            Err(error) => {
                // It may be in the row.
                self.take_back(wanted, Some(turn));
                return Err(error);
            }
        }
        let granted = Granted { locks: self.clone(), wanted, turn: Some(turn), is_new };
        if is_new {
            self.catch_up(ino).await?;
        }
        Ok(Tried::Granted(granted))
    }

    /// Brings what is here of a file in step with what was written under locks before: that is in the
    /// metadata.
    async fn catch_up(&self, ino: Ino) -> Result<()> {
        for _ in 0..TRIES {
            self.mirrors.known(ino).await?;
            let stale = self.tier.find(ino).is_some_and(|mirror| mirror.is_stale_in_part());
            if !stale {
                break;
            }
            // Under locks of other bytes: these pages are read anew once it has left.
            self.flush(ino).await?;
        }
        Ok(())
    }

    /// A lock that would be in the way. One of another node has the pid 0.
    pub(crate) async fn test(
        &self,
        ino: Ino,
        space: LockSpace,
        lock: Lock,
    ) -> Result<Option<Lock>> {
        let here = self.table.test(ino, space, lock);
        let Some(together) = self.context.together.as_ref().filter(|_| here.is_none()) else {
            return Ok(here);
        };
        node_locks::in_the_way(&**self.meta.kv(), together.id(), ino, (space, lock)).await
    }

    /// Lets go of the bytes `start..=last`, of the whole file for `Flock`, once others find what was written
    /// here. Where that fails they are kept. `Fenced` where others may have had the lock meanwhile: it is let go, and
    /// what was read under it may not hold.
    pub(crate) async fn unlock(
        self: &Arc<Self>,
        (ino, space): (Ino, LockSpace),
        owner: LockOwner,
        (start, last): (u64, u64),
    ) -> Result<()> {
        let let_go = move |table: &LockTable| table.unlock(ino, space, owner, start, last);
        if self.others(ino).is_none() {
            let_go(&self.table);
            return Ok(());
        }
        if self.table.holds(ino, space, owner, (start, last)) {
            self.flush(ino).await?;
            return self.let_go(ino, let_go).await;
        }
        Ok(())
    }

    /// Those who may lock the same file; none of one in a snapshot, which nobody changes: each node has locks of its own.
    fn others(&self, ino: Ino) -> Option<&Arc<Together>> {
        self.context.together.as_ref().filter(|_| !ino.is_past())
    }

    /// Whether an owner holds anything of a file.
    pub(crate) fn holds_any(&self, ino: Ino, owner: LockOwner) -> bool {
        let spaces = [LockSpace::Posix, LockSpace::Flock];
        spaces.iter().any(|space| self.table.holds(ino, *space, owner, (0, u64::MAX)))
    }

    /// Lets go of all that the owner holds in this file, once others find what was written here. Where that
    /// fails the caller is told, and they are kept until it does not any more.
    pub(crate) async fn release_owner(self: &Arc<Self>, ino: Ino, owner: LockOwner) -> Result<()> {
        let let_go = move |table: &LockTable| table.release_owner(ino, owner);
        if self.others(ino).is_none() {
            let_go(&self.table);
            return Ok(());
        }
        if !self.holds_any(ino, owner) {
            return Ok(());
        }
        let flushed = self.flush(ino).await;
        match &flushed {
            Err(error) if is_passing(error) => {
                let locks = self.clone();
                tokio::spawn(async move {
                    locks.flush_at_last(ino).await;
                    drop(locks.let_go(ino, let_go).await);
                });
                flushed
            }
            _ => flushed.and(self.let_go(ino, let_go).await),
        }
    }

    /// Goes on with locks that the mount before this one had.
    pub(crate) async fn restore(
        self: &Arc<Self>,
        (ino, space): (Ino, LockSpace),
        lock: Lock,
    ) -> Result<()> {
        match self.lock((ino, space), lock, false).await? {
            Some(granted) => granted.keep(),
            None => tracing::error!(%ino, ?lock,
                "a lock that a program holds was taken by another one while this mount was replaced"),
        }
        Ok(())
    }

    /// All locks that are held or waited for, on all nodes; of those that wait elsewhere, as of the last beat of
    /// their node. None of a mount that is alone: there the kernel keeps them.
    pub(crate) async fn all(&self) -> Result<Vec<FileLock>> {
        let Some(together) = &self.context.together else { return Ok(Vec::new()) };
        let session = together.id();
        let mut found = all_locks(&**self.meta.kv()).await?;
        found.retain(|lock| !(lock.waits && lock.session == session));
        let waiting = |(ino, space, lock)| FileLock { session, ino, space, lock, waits: true };
        found.extend(self.waits.all().into_iter().map(waiting));
        Ok(found)
    }

    async fn turn(&self, ino: Ino) -> Turn {
        let node = self.nodes.get(ino);
        Turn { _guard: node.locks.lock_owned().await, _node: node }
    }

    async fn flush(&self, ino: Ino) -> Result<()> {
        let waits = self.tier.find(ino).is_some_and(|mirror| mirror.has_unflushed());
        if waits { self.flusher.flush_file(ino).await } else { Ok(()) }
    }

    async fn flush_at_last(&self, ino: Ino) {
        let mut pause = PAUSE;
        while !self.has_ended() {
            match self.flush(ino).await {
                Err(error) if is_passing(&error) => {}
                Ok(()) => return,
                Err(error) => {
                    tracing::warn!(%ino, %error,
                        "locks of a closed file are let go, and other nodes do not find all that was written");
                    return;
                }
            }
            tokio::time::sleep(pause).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    /// Lets go of locks, here and in the row. It is done whoever waits for it. `Fenced` where they were not this
    /// mount's any more; what fails otherwise is said again.
    async fn let_go(
        self: &Arc<Self>,
        ino: Ino,
        let_go: impl FnOnce(&LockTable) + Send + 'static,
    ) -> Result<()> {
        let (locks, node) = (self.clone(), self.nodes.get(ino));
        // At once, if nobody has the turn: who comes for the lock next is to find it free.
        let turn =
            node.locks.try_lock_owned().ok().map(|guard| Turn { _guard: guard, _node: node });
        let done = tokio::spawn(async move {
            let turn = match turn {
                Some(turn) => turn,
                None => locks.turn(ino).await,
            };
            let_go(&locks.table);
            match locks.say(ino, false).await {
                Err(error) if error.kind() == ErrorKind::Fenced => return Err(error),
                Err(error) => {
                    tracing::debug!(%ino, %error, "that a lock was let go is said again");
                    locks.say_again(ino, Some(turn));
                }
                Ok(()) => {}
            }
            Ok(())
        });
        done.await.unwrap_or(Ok(()))
    }

    /// Says in the row what the table has, which is no more than what was said before.
    async fn say(&self, ino: Ino, anew: bool) -> Result<()> {
        let Some(together) = &self.context.together else { return Ok(()) };
        let own = self.table.held(ino);
        let said =
            NodeLocks { session: together.id(), ino, own: &own, wanted: None, claimed: None, anew };
        node_locks::say(&**self.meta.kv(), said).await.map(drop)
    }

    /// A lock that is in the row, or may be, is nobody's.
    fn take_back(self: &Arc<Self>, Wanted { ino, space, lock, .. }: Wanted, turn: Option<Turn>) {
        self.table.weaken(ino, space, lock);
        self.say_again(ino, turn);
    }

    /// Says it until it is known to be in the row. The session of a mount that ends takes its locks along.
    fn say_again(self: &Arc<Self>, ino: Ino, mut turn: Option<Turn>) {
        let locks = self.clone();
        tokio::spawn(async move {
            let mut pause = PAUSE;
            while !locks.has_ended() {
                let _turn = match turn.take() {
                    Some(turn) => turn,
                    None => locks.turn(ino).await,
                };
                let Err(error) = locks.say(ino, true).await else { return };
                drop(_turn);
                tracing::debug!(%ino, %error, "what is locked is said again");
                tokio::time::sleep(pause).await;
                pause = PAUSE_MAX.min(pause * 2);
            }
        });
    }

    fn has_ended(&self) -> bool {
        self.context.is_fenced() || self.context.stopping.load(Ordering::Acquire)
    }
}

fn is_passing(error: &FsError) -> bool {
    matches!(error.kind(), ErrorKind::Retry | ErrorKind::NoSpace)
}
