//! Commits that are acknowledged before the database has them (`behind.rs`): names that are made in directories
//! with a write lease, and changes of attributes of what has one.
//!
//! A directory is made with one, and gets one where this node makes names and no other has a lease on it. Its row says so, as a
//! file's does: whoever shares the volume and does not find a name, lists the directory, or wants to change it looks
//! at that row, too, and asks the writer first (`bring.rs`). The lease ends when somebody asks, or a while
//! after the last name was made; all that waits is in the database before.
//!
//! **Which commits.** Those that check, put and raise nothing but what is held so, or made by them, and that remove
//! nothing: who finds a name needs not look further. Their checks are held against what is remembered, which
//! nobody else changes.

use std::collections::BTreeSet;
use std::sync::Arc;

use weir_types::{Ino, Result};

use super::Leases;
use super::apply::UnderWay;
use crate::behind::{BehindKv, BehindLog, is_provisional};
use crate::keys;
use crate::kv::{Key, Kv, Version};
use crate::op::{MayWrite, Tries, Tx};

/// Write leases on directories that end in one commit.
const AT_ONCE: usize = 512;

impl Leases {
    /// From now on names may be made before the database has them. Whoever calls this drains `behind` whenever
    /// something comes there, and calls [`Leases::end_directories`] now and then. One commit.
    pub async fn defer_to(
        self: &Arc<Self>,
        behind: BehindKv,
        log: Arc<dyn BehindLog>,
    ) -> Result<()> {
        let leases = Arc::downgrade(self);
        let settled = move |version, put: &[(Key, Version)]| {
            if let Some(leases) = leases.upgrade() {
                leases.settled(version, put);
            }
        };
        behind.begin(self.session, log, Box::new(settled)).await?;
        let _ = self.behind.set(behind);
        Ok(())
    }

    /// Where they wait.
    pub fn behind(&self) -> Option<&BehindKv> {
        self.behind.get()
    }

    /// Before the session ends: all that was made is in the database, and nothing is to be looked for behind it.
    pub async fn end_deferring(&self) -> Result<()> {
        match self.behind.get() {
            Some(behind) => behind.end().await,
            None => Ok(()),
        }
    }

    /// Returns when somebody asks for a write lease, or soon after.
    pub async fn directories_asked_for(&self) {
        self.end_dirs.notified().await;
    }

    /// Names and attributes that are not in the database yet, in commits.
    pub fn deferred(&self) -> u64 {
        self.behind.get().map_or(0, BehindKv::waiting)
    }

    /// What may be made with a write lease.
    pub(super) fn may_write(&self) -> MayWrite {
        let has_room = self.writes.lock().has_room();
        let files = self.writes_behind.load(std::sync::atomic::Ordering::Acquire);
        MayWrite { files: files && has_room, directories: self.behind.get().is_some() && has_room }
    }

    /// Acknowledges a commit, if nobody else has to do with it; `None`: it is to be made.
    pub(super) fn try_defer(&self, tx: &mut Tx) -> Result<Option<bool>> {
        let Some(behind) = self.behind.get() else { return Ok(None) };
        let _turn = self.deferring.lock();
        if self.trusted_for().is_zero() || !self.is_ours_alone(tx) {
            return Ok(None);
        }
        if self.state.lock().holds_all(tx.wanted()) != Some(true) {
            return Ok(None);
        }
        let inos: BTreeSet<Ino> = tx.changes().filter_map(|key| keys::leased_with(key)).collect();
        tx.lend_only(&inos, self.session, &[])?;
        tx.lend_born(self.session, self.may_write());
        let Some(version) = behind.push(&tx.to_commit()) else { return Ok(None) };
        self.writes
            .lock()
            .used(tx.raised().filter_map(|key| keys::leased_with(key)), self.now_ms());
        Ok(Some(UnderWay::begin(self, tx).ended(Some(version))))
    }

    fn is_ours_alone(&self, tx: &Tx) -> bool {
        if tx.removes() || tx.whole().next().is_some() {
            return false;
        }
        let writes = self.writes.lock();
        let is_ours = |key: &Key| {
            let has = |ino| tx.bears(ino) || writes.of(ino) == Some(false);
            keys::leased_with(key).is_some_and(has)
        };
        let is_times = |key: &Key| key.first() == Some(&keys::DIR_TIMES);
        tx.checked().all(is_ours) && tx.changes().all(is_ours) && tx.raised().all(is_times)
    }

    /// Values that were put under some versions are in the database under this one.
    fn settled(&self, version: Version, put: &[(Key, Version)]) {
        // Behind the commit that put them.
        let _turn = self.deferring.lock();
        let mut state = self.state.lock();
        put.iter().for_each(|(key, was)| state.settled(key, *was, version));
    }

    /// Has all be in the database that a commit checks; `false`: something of it has changed.
    pub(super) async fn settle_checked(&self, tx: &mut Tx) -> Result<bool> {
        let Some(behind) = self.behind.get() else { return Ok(true) };
        let waits = |version: Option<Version>| version.is_some_and(is_provisional);
        let wanted: Vec<(Key, Version)> = tx
            .wanted()
            .filter(|(_, version)| waits(*version))
            .filter_map(|(key, version)| Some((key.clone(), version?)))
            .collect();
        if wanted.is_empty() {
            return Ok(true);
        }
        let keys: Vec<Key> = wanted.iter().map(|(key, _)| key.clone()).collect();
        let Some(before) = self.state.lock().all(&keys) else { return Ok(false) };
        behind.drain().await?;
        let Some(after) = self.state.lock().all(&keys) else { return Ok(false) };
        for (((key, version), before), after) in wanted.iter().zip(before).zip(after) {
            match before.zip(after) {
                Some((before, after))
                    if before.version == *version
                        && before.value == after.value
                        && !is_provisional(after.version) =>
                {
                    tx.now_has(key, after.version);
                }
                _ => return Ok(false),
            }
        }
        Ok(true)
    }

    /// Has all that waits be in the database.
    pub(super) async fn drain(&self) -> Result<()> {
        match self.behind.get() {
            Some(behind) => behind.drain().await,
            None => Ok(()),
        }
    }

    /// Ends write leases on directories: those that somebody asks for, and those where no name was made for `age_ms`.
    /// One read and one commit for each 512.
    pub async fn end_directories(&self, kv: &dyn Kv, age_ms: u64) -> Result<()> {
        let before_ms = self.now_ms().saturating_sub(age_ms);
        let due = {
            let _turn = self.deferring.lock();
            self.writes.lock().directories_due(before_ms)
        };
        for some in due.chunks(AT_ONCE) {
            let mut tries = Tries::new("give write leases on directories back");
            loop {
                tries.next().await?;
                self.drain().await?;
                if self.try_end(kv, some).await? {
                    break;
                }
            }
        }
        if due.iter().any(|(_, asked)| *asked) {
            self.look_now();
        }
        Ok(())
    }
}
