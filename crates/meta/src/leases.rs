//! Leases: what a node that shares the volume may remember of it without asking again.
//!
//! A lease is on an inode: on its attributes, and of a directory on its entries, present or not. The
//! inode's row says which sessions have one (`codec.rs`). What a node remembers under a lease is the rows
//! themselves, so that nothing above knows of it ([`Leases::get`]).
//!
//! **Why nothing old is read.** Each commit that changes such a row also checks the version of the inode's
//! row, and that says who has leases. Before the commit they are asked to give them back: by a row for
//! each, which they delete once they have forgotten what they remembered (`recall.rs`). Taking a lease
//! gives the inode's row a new version, so a commit that did not see it fails and is redone. Whoever has
//! no presence any more needs not be asked: it trusts what it remembers only for 9 s after the
//! sending of its last beat that was answered, and others shut it out later than that. Its own changes a
//! node forgets before their commit is sent, and remembers none of it until that was answered; where it
//! is not known what became of one, the lease is forgotten.
//!
//! **When one is taken.** An inode that is looked at a second time a little later is worth a commit;
//! one that somebody asked back is left alone for a while, longer each time.
//!
//! No commit rests on a lease: as any other it checks what it saw. Losing leases costs speed only.

mod recall;
mod remembered;
mod take;
#[cfg(test)]
mod tests;

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_types::{Ino, Result};

use crate::keys;
use crate::kv::{Followed, Key, Kv, Versioned, leads_to};
use crate::op::{Tx, seen_inode};
use crate::session::SessionId;
use remembered::{Remembered, Stamp};

/// How long after the sending of a beat that was answered what is remembered is believed, in milliseconds.
/// Others wait longer before they shut a session out.
const TRUST_MS: u64 = 9_000;

/// Leases that are asked for at once: a flush may change thousands of files that many nodes remember.
const ASKED_AT_ONCE: usize = 512;

/// A clock that goes on while the machine sleeps, from any beginning.
pub type BootClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A way to have other sessions look at once who asks for leases of theirs. It waits for nothing.
pub type Reach = Arc<dyn Fn(&[SessionId]) + Send + Sync>;

/// The leases of one session.
pub struct Leases {
    session: SessionId,
    clock: BootClock,
    state: Mutex<Remembered>,
    /// There are inodes to take leases on.
    wanted: Notify,
    /// Until when, by the clock, what is remembered is believed, in milliseconds.
    trusted_until_ms: AtomicU64,
    beat_began_ms: AtomicU64,
    /// It had a lease at some time, and may be asked.
    had_any: AtomicBool,
    /// Somebody asks.
    look: Notify,
    reach: Mutex<Option<Reach>>,
    counts: Counts,
}

#[derive(Default)]
struct Counts {
    hits: AtomicU64,
    taken: AtomicU64,
    given_back: AtomicU64,
    asked_back: AtomicU64,
}

/// What became of leases since the mount, for people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeaseCounts {
    /// Those that there are.
    pub held: u64,
    /// Reads of the metadata that were answered from memory.
    pub hits: u64,
    /// Leases that were taken.
    pub taken: u64,
    /// Those that others asked for and got.
    pub given_back: u64,
    /// Leases of others that were asked for, to change something.
    pub asked_back: u64,
}

impl Leases {
    /// Those of a session that has joined; none yet.
    pub fn new(session: SessionId, clock: BootClock) -> Self {
        Self {
            session,
            clock,
            state: Mutex::default(),
            wanted: Notify::new(),
            trusted_until_ms: AtomicU64::new(0),
            beat_began_ms: AtomicU64::new(u64::MAX),
            had_any: AtomicBool::new(false),
            look: Notify::new(),
            reach: Mutex::new(None),
            counts: Counts::default(),
        }
    }

    /// A beat is about to be made.
    pub fn beat_begins(&self) {
        self.beat_began_ms.store(self.now_ms(), Ordering::Release);
    }

    /// The beat that was begun last was answered: what is remembered may be believed for 9 s after
    /// its beginning.
    pub fn beat_answered(&self) {
        let began = self.beat_began_ms.load(Ordering::Acquire);
        self.trusted_until_ms.store(began.saturating_add(TRUST_MS), Ordering::Release);
    }

    /// By which way others are told that they are asked; without it they look by themselves.
    pub fn reach_by(&self, reach: Reach) {
        *self.reach.lock() = Some(reach);
    }

    /// Somebody asks for leases of this session.
    pub fn look_now(&self) {
        self.look.notify_one();
    }

    /// What became of them.
    pub fn counts(&self) -> LeaseCounts {
        let of = |count: &AtomicU64| count.load(Ordering::Relaxed);
        let Counts { hits, taken, given_back, asked_back } = &self.counts;
        LeaseCounts {
            held: self.state.lock().held() as u64,
            hits: of(hits),
            taken: of(taken),
            given_back: of(given_back),
            asked_back: of(asked_back),
        }
    }

    fn now_ms(&self) -> u64 {
        u64::try_from((self.clock)().as_millis()).unwrap_or(u64::MAX)
    }

    /// For how much longer what is remembered may be believed; zero where it may not be.
    fn trusted_for(&self) -> Duration {
        let until = self.trusted_until_ms.load(Ordering::Acquire);
        Duration::from_millis(until.saturating_sub(self.now_ms()))
    }

    /// Reads rows: from memory where all of them are remembered, else with one read.
    pub(crate) async fn get(&self, kv: &dyn Kv, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        let began = match self.remembered(keys) {
            Ok(found) => {
                self.counts.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(found);
            }
            Err(began) => began,
        };
        let found = kv.get_many(keys).await?;
        self.state.lock().learn(keys, &found, began);
        Ok(found)
    }

    /// [`Kv::follow`], from memory where all of it is remembered.
    pub(crate) async fn follow(&self, kv: &dyn Kv, key: &Key, tags: &[u8]) -> Result<Followed> {
        let began = match self.remembered_from(key, tags) {
            Ok(found) => {
                self.counts.hits.fetch_add(1, Ordering::Relaxed);
                return Ok(found);
            }
            Err(began) => began,
        };
        let found = kv.follow(key, tags).await?;
        let mut state = self.state.lock();
        state.learn(std::slice::from_ref(key), std::slice::from_ref(&found.from), began);
        if let Some(from) = &found.from {
            // No keys where it leads nowhere.
            state.learn(&leads_to(&from.value, tags), &found.to, began);
        }
        drop(state);
        Ok(found)
    }

    fn remembered_from(&self, key: &Key, tags: &[u8]) -> Result<Followed, Stamp> {
        let state = self.state.lock();
        let all = || {
            let from = state.all(std::slice::from_ref(key))?.pop()?;
            let keys = from.as_ref().map_or_else(Vec::new, |from| leads_to(&from.value, tags));
            let mut to = state.all(&keys)?;
            to.resize(tags.len(), None);
            Some(Followed { from, to })
        };
        match all() {
            Some(found) if !self.trusted_for().is_zero() => Ok(found),
            _ => Err(state.stamp()),
        }
    }

    fn remembered(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>, Stamp> {
        let state = self.state.lock();
        match state.all(keys) {
            Some(found) if !self.trusted_for().is_zero() => Ok(found),
            _ => Err(state.stamp()),
        }
    }

    /// These are looked at: who looks again will find a lease there.
    pub(crate) fn looked_at(&self, inos: &[Ino]) {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        for ino in inos {
            if state.looked_at(*ino, now_ms) {
                self.wanted.notify_one();
            }
        }
    }

    /// Commits, once nobody else has a lease on what it changes; `false`: a check did not hold.
    pub(crate) async fn apply(&self, kv: &dyn Kv, mut tx: Tx) -> Result<bool> {
        let inos: BTreeSet<Ino> = tx.changes().filter_map(|key| keys::leased_with(key)).collect();
        check_those_not_known(kv, &mut tx, &inos).await?;
        let lent = tx.lent().filter(|(ino, _)| inos.contains(ino));
        let others = lent.flat_map(|(ino, to)| to.iter().map(move |one| (*one, ino)));
        let others: Vec<_> = others.filter(|(one, _)| *one != self.session).collect();
        for some in others.chunks(ASKED_AT_ONCE) {
            self.ask_back(kv, some).await?;
        }
        tx.lend_only(&inos, self.session)?;
        let changes: Vec<Key> =
            tx.changes().filter(|key| keys::leased_with(key).is_some()).cloned().collect();
        let checked: Vec<Key> = tx.checked().cloned().collect();
        let now_ms = self.now_ms();
        self.state.lock().begins_to_change(&changes, now_ms);
        let under_way = UnderWay { leases: self, changes, checked, known: false };
        let applied = tx.apply_to(kv).await?;
        under_way.ended(applied);
        Ok(applied)
    }
}

/// Has a commit check the inodes that it changes something of without having looked at them. One read,
/// where there are any.
async fn check_those_not_known(kv: &dyn Kv, tx: &mut Tx, inos: &BTreeSet<Ino>) -> Result<()> {
    let others: Vec<Ino> = inos.iter().copied().filter(|ino| !tx.knows(*ino)).collect();
    if others.is_empty() {
        return Ok(());
    }
    let keys: Vec<_> = others.iter().map(|ino| keys::inode(*ino)).collect();
    for (ino, found) in others.iter().zip(kv.get_many(&keys).await?) {
        // One that is not there is nobody's.
        if let Some(seen) = seen_inode(*ino, found.as_ref())? {
            tx.check_inode(&seen);
        }
    }
    Ok(())
}

/// A commit that was sent.
struct UnderWay<'a> {
    leases: &'a Leases,
    changes: Vec<Key>,
    checked: Vec<Key>,
    /// What became of it.
    known: bool,
}

impl UnderWay<'_> {
    fn ended(mut self, applied: bool) {
        self.known = true;
        if !applied {
            // Something that was remembered may not be so any more, whatever the reason.
            self.leases.state.lock().forget_rows(&self.checked);
        }
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.leases.state.lock().ends_to_change(&self.changes);
        if !self.known {
            // It may be made yet, at any time before the next commit on these inodes.
            let inos = self.changes.iter().filter_map(|key| keys::leased_with(key));
            self.leases.state.lock().forget(&inos.collect::<Vec<_>>());
        }
    }
}
