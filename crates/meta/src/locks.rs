//! Advisory locks of this node, in memory: POSIX byte-range locks and whole-file `flock` locks.
//!
//! Requests come from the doors; out come locks granted, a lock in the way, or a wait. What an
//! owner holds in one file never overlaps itself, and no exclusive lock overlaps another owner's.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use weir_types::{ErrorKind, FsError, Ino, Result};

/// Who holds or wants a lock: whatever number the door tells its clients' owners apart by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LockOwner(pub u64);

/// The two kinds of locks, which do not see each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LockSpace {
    /// `fcntl` record locks: byte ranges, deadlocks detected.
    Posix,
    /// `flock` locks: the whole file (the range given is not looked at).
    Flock,
}

/// A lock held or wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lock {
    /// Subject.
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

impl Lock {
    /// The lock as its space sees it.
    pub(crate) fn within(mut self, space: LockSpace) -> Self {
        if space == LockSpace::Flock {
            (self.start, self.last) = (0, u64::MAX);
        }
        self
    }
}

/// All advisory locks of a node.
#[derive(Debug, Default)]
pub struct LockTable {
    state: Mutex<LockState>,
}

type FileKey = (Ino, LockSpace);

#[derive(Debug, Default)]
struct LockState {
    files: HashMap<FileKey, FileLocks>,
    /// Who waits for what; an owner may wait with several threads. By ticket, so that each waiter
    /// takes back its own.
    waiting: BTreeMap<u64, (FileKey, Lock)>,
    next_ticket: u64,
}

#[derive(Clone, Debug, Default)]
struct FileLocks {
    /// The locks of each owner by first byte; they do not overlap.
    owners: BTreeMap<LockOwner, BTreeMap<u64, Lock>>,
    /// Told whenever something is let go.
    freed: Arc<Notify>,
    waiters: usize,
}

impl FileLocks {
    fn all(&self) -> impl Iterator<Item = &Lock> {
        self.owners.values().flat_map(BTreeMap::values)
    }

    /// The locks of other owners that are in the way.
    fn in_the_way(&self, lock: Lock) -> impl Iterator<Item = Lock> {
        let others = self.owners.iter().filter(move |(owner, _)| **owner != lock.owner);
        others.flat_map(move |(_, held)| {
            overlapping(held, lock.start, lock.last)
                .filter(move |held| held.exclusive || lock.exclusive)
        })
    }

    /// Adds to an owner's locks; `true` if it held some of these bytes already.
    fn add(&mut self, lock: Lock) -> bool {
        let traded = self.cut(lock.owner, lock.start, lock.last);
        let held = self.owners.entry(lock.owner).or_default();
        let mut merged = lock;
        let same = |other: &Lock| other.exclusive == lock.exclusive && other.pid == lock.pid;
        let before = held.range(..lock.start).next_back().map(|(_, lock)| *lock);
        if let Some(before) =
            before.filter(|b| same(b) && b.last.checked_add(1) == Some(lock.start))
        {
            merged.start = before.start;
        }
        let after = lock.last.checked_add(1).and_then(|next| held.get(&next)).copied();
        if let Some(after) = after.filter(same) {
            held.remove(&after.start);
            merged.last = after.last;
        }
        held.insert(merged.start, merged);
        traded
    }

    /// Lets go of an owner's bytes; `true` if it held any.
    fn cut(&mut self, owner: LockOwner, start: u64, last: u64) -> bool {
        let Some(held) = self.owners.get_mut(&owner) else {
            return false;
        };
        let hit: Vec<_> = overlapping(held, start, last).collect();
        for lock in &hit {
            held.remove(&lock.start);
            if lock.start < start {
                held.insert(lock.start, Lock { last: start - 1, ..*lock });
            }
            if lock.last > last {
                held.insert(last + 1, Lock { start: last + 1, ..*lock });
            }
        }
        if held.is_empty() {
            self.owners.remove(&owner);
        }
        !hit.is_empty()
    }
}

/// Those of one owner's locks that touch `start..=last`.
fn overlapping(
    held: &BTreeMap<u64, Lock>,
    start: u64,
    last: u64,
) -> impl Iterator<Item = Lock> + use<'_> {
    let before = held.range(..start).next_back().map(|(_, lock)| *lock);
    let before = before.filter(move |lock| lock.last >= start);
    // An empty range (last < start) would make `range` panic.
    let inside = held.range(start..=last.max(start)).map(|(_, lock)| *lock);
    before.into_iter().chain(inside)
}

impl LockState {
    fn try_lock(&mut self, file: FileKey, lock: Lock) -> Result<(), Lock> {
        let locks = self.files.entry(file).or_default();
        let held = locks.in_the_way(lock).next();
        match held {
            Some(held) => Err(held),
            None => {
                // Trading an exclusive lock for a shared one may let others in.
                if locks.add(lock) {
                    locks.freed.notify_waiters();
                }
                Ok(())
            }
        }
    }

    fn unlock(&mut self, file: FileKey, owner: LockOwner, start: u64, last: u64) {
        if let Some(locks) = self.files.get_mut(&file) {
            if locks.cut(owner, start, last) {
                locks.freed.notify_waiters();
            }
            self.drop_if_idle(file);
        }
    }

    fn drop_if_idle(&mut self, file: FileKey) {
        let idle = |locks: &FileLocks| locks.owners.is_empty() && locks.waiters == 0;
        if self.files.get(&file).is_some_and(idle) {
            self.files.remove(&file);
        }
    }

    /// Whether those in the way of `lock` wait, over whatever many others, for its owner.
    fn would_deadlock(&self, file: FileKey, lock: Lock) -> bool {
        let blockers = |file: FileKey, lock: Lock| {
            let locks = self.files.get(&file);
            locks.into_iter().flat_map(move |locks| locks.in_the_way(lock)).map(|held| held.owner)
        };
        let mut wanted_by: HashMap<LockOwner, Vec<(FileKey, Lock)>> = HashMap::new();
        for (file, lock) in self.waiting.values() {
            wanted_by.entry(lock.owner).or_default().push((*file, *lock));
        }
        let mut seen: BTreeSet<LockOwner> = blockers(file, lock).collect();
        let mut open: Vec<_> = seen.iter().copied().collect();
        while let Some(owner) = open.pop() {
            if owner == lock.owner {
                return true;
            }
            for (file, wanted) in wanted_by.get(&owner).into_iter().flatten() {
                open.extend(blockers(*file, *wanted).filter(|owner| seen.insert(*owner)));
            }
        }
        false
    }
}

/// A registered wait; takes itself back when it ends or is dropped.
struct Waiting<'a> {
    table: &'a LockTable,
    file: FileKey,
    ticket: u64,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        let mut state = self.table.state();
        state.waiting.remove(&self.ticket);
        if let Some(locks) = state.files.get_mut(&self.file) {
            locks.waiters -= 1;
        }
        state.drop_if_idle(self.file);
    }
}

impl LockTable {
    /// An empty table.
    pub fn new() -> Self {
        Self::default()
    }

    fn state(&self) -> MutexGuard<'_, LockState> {
        // Nothing in here panics half-way through a change.
        self.state.lock()
    }

    /// Takes the lock, replacing what the owner holds in its range, or returns a lock in the way.
    pub fn try_lock(&self, ino: Ino, space: LockSpace, lock: Lock) -> Result<(), Lock> {
        let mut state = self.state();
        let done = state.try_lock((ino, space), lock.within(space));
        state.drop_if_idle((ino, space));
        done
    }

    /// A lock that would be in the way of this one, if any (`F_GETLK`): the one of the lowest owner.
    pub fn test(&self, ino: Ino, space: LockSpace, lock: Lock) -> Option<Lock> {
        let state = self.state();
        let locks = state.files.get(&(ino, space))?;
        locks.in_the_way(lock.within(space)).next()
    }

    /// Takes the lock, waiting as long as others are in the way. `Deadlock` if one of them waits
    /// (over whatever many others) for this owner; POSIX locks only. Dropping the future gives up.
    pub async fn lock_wait(&self, ino: Ino, space: LockSpace, lock: Lock) -> Result<()> {
        self.wait((ino, space), lock, |state, lock| state.try_lock((ino, space), lock).is_ok())
            .await
    }

    /// The same, but takes nothing: returns when nobody is in the way any more.
    pub async fn wait_until_free(&self, ino: Ino, space: LockSpace, lock: Lock) -> Result<()> {
        let is_free = |state: &mut LockState, lock| {
            state.files.get(&(ino, space)).is_none_or(|f| f.in_the_way(lock).next().is_none())
        };
        self.wait((ino, space), lock, is_free).await
    }

    async fn wait(
        &self,
        file: FileKey,
        lock: Lock,
        done: impl Fn(&mut LockState, Lock) -> bool + Send,
    ) -> Result<()> {
        let ((ino, space), lock) = (file, lock.within(file.1));
        let mut registered: Option<Waiting<'_>> = None;
        loop {
            let freed = {
                let mut state = self.state();
                if done(&mut state, lock) {
                    break;
                }
                if space == LockSpace::Posix && state.would_deadlock(file, lock) {
                    let context = format!("lock on inode {ino}: its holder waits for this owner");
                    // Only after the guard is gone may the registration take the mutex again.
                    drop(state);
                    return Err(FsError::new(ErrorKind::Deadlock, context));
                }
                let ticket = state.next_ticket;
                let locks = state.files.entry(file).or_default();
                let freed = Arc::clone(&locks.freed).notified_owned();
                if registered.is_none() {
                    locks.waiters += 1;
                    state.next_ticket += 1;
                    state.waiting.insert(ticket, (file, lock));
                    registered = Some(Waiting { table: self, file, ticket });
                }
                freed
            };
            // Made under the mutex, so no letting go after the failed try is missed.
            freed.await;
        }
        drop(registered);
        Ok(())
    }

    /// All locks of a file.
    pub fn held(&self, ino: Ino) -> Vec<(LockSpace, Lock)> {
        self.held_as(ino, |_| {})
    }

    /// All locks of a file as they were with this one, whether it may be taken or not.
    pub fn held_with(&self, ino: Ino, space: LockSpace, lock: Lock) -> Vec<(LockSpace, Lock)> {
        self.held_as(ino, |files| {
            let of = &mut files[usize::from(space == LockSpace::Flock)];
            of.add(lock.within(space));
        })
    }

    fn held_as(
        &self,
        ino: Ino,
        change: impl FnOnce(&mut [FileLocks; 2]),
    ) -> Vec<(LockSpace, Lock)> {
        let spaces = [LockSpace::Posix, LockSpace::Flock];
        let mut files = {
            let state = self.state();
            spaces.map(|space| state.files.get(&(ino, space)).cloned().unwrap_or_default())
        };
        change(&mut files);
        let all = spaces.iter().zip(&files);
        all.flat_map(|(space, file)| file.all().map(|lock| (*space, *lock))).collect()
    }

    /// Whether somebody holds all bytes of this lock, in whatever way.
    pub fn is_covered(&self, ino: Ino, space: LockSpace, lock: Lock) -> bool {
        let (state, lock) = (self.state(), lock.within(space));
        let covers = |held: &Lock| held.start <= lock.start && lock.last <= held.last;
        state.files.get(&(ino, space)).is_some_and(|file| file.all().any(covers))
    }

    /// Whether an owner holds a byte of `start..=last`.
    pub fn holds(
        &self,
        ino: Ino,
        space: LockSpace,
        owner: LockOwner,
        (start, last): (u64, u64),
    ) -> bool {
        let whole = space == LockSpace::Flock;
        let (start, last) = if whole { (0, u64::MAX) } else { (start, last) };
        let state = self.state();
        let held = state.files.get(&(ino, space)).and_then(|file| file.owners.get(&owner));
        held.is_some_and(|held| overlapping(held, start, last).next().is_some())
    }

    /// Leaves an owner no more than it would have both with and without this lock: where it wants to
    /// read only and holds a byte alone, it holds that shared.
    pub fn weaken(&self, ino: Ino, space: LockSpace, wanted: Lock) {
        let (mut state, wanted) = (self.state(), wanted.within(space));
        let Some(file) = state.files.get_mut(&(ino, space)).filter(|_| !wanted.exclusive) else {
            return;
        };
        let held = file.owners.get(&wanted.owner);
        let hit = held.map(|held| overlapping(held, wanted.start, wanted.last));
        let hit: Vec<_> = hit.into_iter().flatten().filter(|lock| lock.exclusive).collect();
        for lock in hit {
            let (start, last) = (lock.start.max(wanted.start), lock.last.min(wanted.last));
            file.add(Lock { start, last, exclusive: false, ..lock });
        }
        file.freed.notify_waiters();
    }

    /// All locks that are held.
    pub fn all(&self) -> Vec<(Ino, LockSpace, Lock)> {
        let state = self.state();
        let of_file = |((ino, space), locks): (&FileKey, &FileLocks)| {
            locks.all().map(|lock| (*ino, *space, *lock)).collect::<Vec<_>>()
        };
        state.files.iter().flat_map(of_file).collect()
    }

    /// Lets go of the bytes `start..=last`; of the whole file for `Flock`.
    pub fn unlock(&self, ino: Ino, space: LockSpace, owner: LockOwner, start: u64, last: u64) {
        let whole = space == LockSpace::Flock;
        let (start, last) = if whole { (0, u64::MAX) } else { (start, last) };
        self.state().unlock((ino, space), owner, start, last);
    }

    /// Lets go of all that the owner holds in this file, of both kinds.
    pub fn release_owner(&self, ino: Ino, owner: LockOwner) {
        let mut state = self.state();
        for space in [LockSpace::Posix, LockSpace::Flock] {
            state.unlock((ino, space), owner, 0, u64::MAX);
        }
    }
}

#[cfg(test)]
mod tests;
