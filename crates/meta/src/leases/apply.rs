//! Commits, and what is remembered of rows while one changes them, and after it.

use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

use bytes::Bytes;
use weir_types::{Ino, Result};

use super::remembered::{Change, Made};
use super::{ASKED_AT_ONCE, Leases, Patience};
use crate::keys;
use crate::kv::{Key, Kv, Version, Versioned};
use crate::op::{Tx, seen_inode};

impl Leases {
    /// Commits, once nobody else has a lease on what it changes; `false`: a check did not hold.
    pub(crate) async fn apply(&self, kv: &dyn Kv, mut tx: Tx) -> Result<bool> {
        if let Some(made) = self.try_defer(&mut tx)? {
            return Ok(made);
        }
        if !self.settle_checked(&mut tx).await? {
            return Ok(false);
        }
        let inos: BTreeSet<Ino> = tx.changes().filter_map(|key| keys::leased_with(key)).collect();
        check_those_not_known(kv, &mut tx, &inos).await?;
        let lent = tx.lent().filter(|(ino, _)| inos.contains(ino));
        let others = lent.flat_map(|(ino, to)| to.iter().map(move |one| (*one, ino)));
        let others: Vec<_> = others.filter(|(one, _)| !self.is_ours(*one)).collect();
        for some in others.chunks(ASKED_AT_ONCE) {
            self.ask_back(kv, some, Patience::AMinute).await?;
        }
        let given_up = self.writes.lock().given_up(tx.whole());
        tx.lend_only(&inos, self.session, &given_up)?;
        let mut under_way = {
            // What waits from now on rests on nothing that this changes.
            let _turn = self.deferring.lock();
            UnderWay::begin(self, &mut tx)
        };
        under_way.given_up = given_up;
        let dirs: Vec<Ino> = tx.raised().filter_map(|key| keys::leased_with(key)).collect();
        let made = under_way.ended(tx.made_by(kv).await?);
        if made && self.behind.get().is_some() {
            self.names_made_in(&dirs);
        }
        Ok(made)
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

/// A commit that is sent.
pub(super) struct UnderWay<'a> {
    leases: &'a Leases,
    changes: Vec<Change>,
    /// What is changed, of those, to what; `None` for what is removed.
    rows: Vec<(Key, Option<Bytes>)>,
    checked: Vec<Key>,
    born: Vec<Born>,
    /// Files that the volume has all of once it is made, and those of them of which nothing is kept.
    whole: Vec<Ino>,
    given_up: Vec<Ino>,
    /// What became of it.
    known: bool,
}

/// An inode that it makes, with a lease.
struct Born {
    ino: Ino,
    is_dir: bool,
    writes: bool,
    rows: Vec<(Key, Bytes)>,
}

impl<'a> UnderWay<'a> {
    /// The commit is about to be sent.
    pub(super) fn begin(leases: &'a Leases, tx: &mut Tx) -> Self {
        let lent = tx.lend_born(leases.session, leases.may_write()).into_iter();
        let mut born: Vec<_> = lent
            .map(|(ino, is_dir, writes)| Born { ino, is_dir, writes, rows: Vec::new() })
            .collect();
        if !born.is_empty() {
            leases.had_any.store(true, Ordering::Release);
        }
        let (mut rows, mut changed) = (Vec::new(), Vec::new());
        for (key, value, raises) in tx.rows() {
            let Some(ino) = keys::leased_with(key) else { continue };
            match (born.iter_mut().find(|born| born.ino == ino), value) {
                (Some(born), Some(value)) => born.rows.push((key.clone(), value.clone())),
                _ => {
                    changed.push((key.clone(), raises));
                    rows.push((key.clone(), value.cloned()));
                }
            }
        }
        let now_ms = leases.now_ms();
        let mut state = leases.state.lock();
        let changes = state.begins_to_change(&changed, now_ms);
        born.iter().for_each(|born| state.begins_to_make(born.ino));
        drop(state);
        let (checked, whole) = (tx.checked().cloned().collect(), tx.whole().collect());
        Self { leases, changes, rows, checked, born, whole, given_up: Vec::new(), known: false }
    }

    /// It was made, with this version, or a check did not hold. Answers whether it was made.
    pub(super) fn ended(mut self, made: Option<Version>) -> bool {
        self.known = true;
        let Some(version) = made else {
            // Something that was remembered may not be so any more, whatever the reason.
            self.leases.state.lock().forget_rows(&self.checked);
            return false;
        };
        let versioned = |value| Versioned { version, value };
        let rows: Made =
            self.rows.drain(..).map(|(key, value)| (key, value.map(versioned))).collect();
        let born = std::mem::take(&mut self.born);
        let writes = born.iter().filter(|born| born.writes);
        self.leases.begin_writes(writes.map(|born| (born.ino, born.is_dir)));
        let mut asked = Vec::new();
        let mut state = self.leases.state.lock();
        state.ends_to_change(std::mem::take(&mut self.changes), &rows);
        for Born { ino, rows, .. } in born {
            let rows = rows.into_iter().map(|(key, value)| (key, versioned(value))).collect();
            if !state.ends_to_make(ino, Some(rows)) {
                asked.push(ino);
            }
        }
        state.forget(&self.given_up);
        drop(state);
        let mut writes = self.leases.writes.lock();
        // Who asked while it was made was told that there is nothing, and so it must be.
        writes.end(asked.into_iter().map(|ino| (ino, true)));
        if !self.whole.is_empty() {
            writes.ended(self.whole.drain(..));
            self.leases.look.notify_one();
        }
        true
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        let changes = std::mem::take(&mut self.changes);
        let mut state = self.leases.state.lock();
        for born in self.born.drain(..) {
            state.ends_to_make(born.ino, None);
        }
        let inos = changes.iter().filter_map(|change| keys::leased_with(change.key()));
        let inos: Vec<_> = inos.collect();
        state.ends_to_change(changes, &Made::new());
        if !self.known {
            // It may be made yet, at any time before the next commit on these inodes.
            state.forget(&inos);
        }
    }
}
