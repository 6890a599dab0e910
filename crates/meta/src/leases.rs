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
//! sending of its last beat that was answered, and others shut it out later than that. Rows that a node
//! changes itself it forgets before the commit is sent, and remembers what that made of them once it was
//! answered, where no other commit crossed it (`remembered.rs`); where it is not known what became of one,
//! the lease is forgotten. Of an inode that it makes it has a lease from the beginning, and knows what is not
//! there. Of a file that is one for writing: `bring.rs`.
//!
//! **When one is taken.** An inode that is looked at a second time a little later is worth a commit;
//! one that somebody asked back is left alone for a while, longer each time. Where names are looked for again
//! and again that a directory has not, its list is read once, and then it is known what is not there.
//!
//! No commit rests on a lease: as any other it checks what it saw. Losing leases costs speed only.

mod apply;
mod bring;
mod defer;
mod recall;
mod remembered;
mod take;
#[cfg(test)]
mod tests;
mod writes;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_types::{Ino, Result};

use crate::behind::BehindKv;
use crate::keys;
use crate::kv::{Followed, Key, Kv, Versioned, leads_to};
use crate::session::SessionId;
use remembered::{Remembered, Stamp};
pub use writes::EndOfWrites;
use writes::Writes;

/// How long after the sending of a beat that was answered what is remembered is believed, in milliseconds.
/// Others wait longer before they shut a session out.
const TRUST_MS: u64 = 9_000;

/// Leases that are asked for at once: a flush may change thousands of files that many nodes remember.
const ASKED_AT_ONCE: usize = 512;

/// How long to wait for who lives and gives nothing back.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Patience {
    /// What a session that lives may take.
    AMinute,
    /// Without end: the bucket may be away from it.
    AsLongAsTheyLive,
}

/// A clock that goes on while the machine sleeps, from any beginning.
pub type BootClock = Arc<dyn Fn() -> Duration + Send + Sync>;

/// A way to have other sessions look at once who asks for leases of theirs. It waits for nothing.
pub type Reach = Arc<dyn Fn(&[SessionId]) + Send + Sync>;

/// The leases of one session.
pub struct Leases {
    session: SessionId,
    /// Those that are dead and in whose place it is: nobody asks them.
    before: Vec<SessionId>,
    clock: BootClock,
    state: Mutex<Remembered>,
    writes: Mutex<Writes>,
    /// Files are made with write leases.
    writes_behind: AtomicBool,
    /// Where names that are made wait for the database.
    behind: OnceLock<BehindKv>,
    /// Held while it is decided whether a commit waits, and while what that rests on changes. The others are
    /// taken under it.
    deferring: Mutex<()>,
    /// Something is to be brought to the volume.
    bring: Notify,
    /// Write leases on directories are asked for.
    end_dirs: Notify,
    /// There are inodes to take leases on, or lists to be read.
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
    /// Those of them that are for writing: of files of which this node may have more than the volume.
    pub writes: u64,
    /// Commits that were acknowledged, and that the database does not have yet.
    pub deferred: u64,
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
            before: Vec::new(),
            clock,
            state: Mutex::default(),
            writes: Mutex::default(),
            writes_behind: AtomicBool::new(false),
            behind: OnceLock::new(),
            deferring: Mutex::default(),
            bring: Notify::new(),
            end_dirs: Notify::new(),
            wanted: Notify::new(),
            trusted_until_ms: AtomicU64::new(0),
            beat_began_ms: AtomicU64::new(u64::MAX),
            had_any: AtomicBool::new(false),
            look: Notify::new(),
            reach: Mutex::new(None),
            counts: Counts::default(),
        }
    }

    /// Those of a session in the place of these, which are dead and may be there still.
    #[must_use]
    pub fn in_place_of(self, before: &[SessionId]) -> Self {
        Self { before: before.to_vec(), ..self }
    }

    fn is_ours(&self, session: SessionId) -> bool {
        session == self.session || self.before.contains(&session)
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
            writes: self.writes.lock().files() as u64,
            deferred: self.deferred(),
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

    /// Reads rows: from memory where all of them are remembered, else with one read. What another node has
    /// more of a file than the volume comes first.
    pub(crate) async fn get(&self, kv: &dyn Kv, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        loop {
            let began = match self.remembered(keys) {
                Ok(found) => {
                    self.counts.hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(found);
                }
                Err(began) => began,
            };
            let found = kv.get_many(keys).await?;
            if self.have_brought(kv, keys.iter().zip(&found)).await? {
                continue;
            }
            let has_list = self.state.lock().learn(keys, &found, began);
            self.wants_list(has_list);
            return Ok(found);
        }
    }

    fn wants_list(&self, wants: bool) {
        if wants {
            self.wanted.notify_one();
        }
    }

    /// [`Kv::follow`], from memory where all of it is remembered.
    pub(crate) async fn follow(&self, kv: &dyn Kv, key: &Key, tags: &[u8]) -> Result<Followed> {
        loop {
            let began = match self.remembered_from(key, tags) {
                Ok(found) => {
                    self.counts.hits.fetch_add(1, Ordering::Relaxed);
                    return Ok(found);
                }
                Err(began) => began,
            };
            let knows_names = self.knows_names(key);
            let found = kv.follow(key, tags).await?;
            // No keys where it leads nowhere.
            let to = found.from.as_ref().map_or_else(Vec::new, |from| leads_to(&from.value, tags));
            if self.have_brought(kv, to.iter().zip(&found.to)).await?
                || found.from.is_none() && !knows_names && !self.is_nowhere(kv, key).await?
            {
                continue;
            }
            let mut state = self.state.lock();
            state.learn(std::slice::from_ref(key), std::slice::from_ref(&found.from), began);
            let has_list = state.learn(&to, &found.to, began);
            drop(state);
            self.wants_list(has_list);
            return Ok(found);
        }
    }

    /// Whether nobody else can have made names in the directory of this entry that the database does not have: this node
    /// has a lease on it.
    fn knows_names(&self, entry: &Key) -> bool {
        let has = |dir| self.state.lock().has(dir) && !self.trusted_for().is_zero();
        keys::leased_with(entry).is_some_and(has)
    }

    /// Whether a name that was not found is not at another node either, which may have made it before the database has
    /// it. One read.
    async fn is_nowhere(&self, kv: &dyn Kv, entry: &Key) -> Result<bool> {
        let dir = keys::leased_with(entry).filter(|_| entry.first() == Some(&keys::DIRENT));
        let Some(dir) = dir else { return Ok(true) };
        // As of one moment: what came there before the directory was read is there.
        let keys = [keys::inode(dir), entry.clone()];
        let found = kv.get_many(&keys).await?;
        let brought = self.have_brought(kv, keys.iter().zip(&found)).await?;
        Ok(!brought && found[1].is_none())
    }

    /// Names were made in these directories, by commits that were waited for.
    fn names_made_in(&self, dirs: &[Ino]) {
        let now_ms = self.now_ms();
        let mut state = self.state.lock();
        if dirs.iter().any(|dir| state.name_made_in(*dir, now_ms)) {
            self.wanted.notify_one();
        }
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
}
