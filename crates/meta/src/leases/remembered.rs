//! What a session remembers under its leases, and on what it wants some.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use weir_types::Ino;

use crate::keys;
use crate::kv::{Key, Versioned};

/// Most leases. When there would be more all are forgotten: those that matter are soon taken again.
const LEASES_MAX: usize = 1 << 17;
/// Most rows that are remembered: some 100 MB of what they mostly are. All are forgotten when there would be more.
const ROWS_MAX: usize = 1 << 19;
/// Larger values are not remembered: extended attributes may have 64 KiB.
const VALUE_BYTES_MAX: usize = 1_024;
/// Most inodes of which it is known how often they were looked at.
const LOOKS_MAX: usize = 1 << 16;

/// A second look counts this much after the first one: one operation of a program looks several times.
const LOOK_AGAIN_MS: u64 = 50;
/// And not later than this.
const LOOK_LATE_MS: u64 = 300_000;
/// No lease is taken for this long on what was changed here.
const CHANGED_MS: u64 = 1_000;
/// Nor on what was asked back, twice as long each time.
const ASKED_BACK_MS: u64 = 5_000;
/// How often that doubles.
const DOUBLES_MAX: u32 = 6;

/// A moment, in changes of what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64);

/// What is remembered.
#[derive(Default)]
pub(super) struct Remembered {
    held: HashMap<Ino, Held>,
    /// Leases that are being taken.
    taking: HashMap<Ino, Taking>,
    /// Inodes of which commits under way change something, and how many do.
    changing: HashMap<Ino, u32>,
    looks: HashMap<Ino, Looks>,
    wanted: Vec<Ino>,
    now: u64,
    rows: usize,
}

/// A lease.
struct Held {
    rows: HashMap<Key, Option<Versioned>>,
    /// When it was taken, or something of it changed last.
    changed: u64,
}

/// What happened since the taking of a lease began.
#[derive(Clone, Copy, Default)]
struct Taking {
    asked_back: bool,
    changed: bool,
}

/// How an inode without a lease was looked at.
#[derive(Clone, Copy, Default)]
struct Looks {
    first_ms: Option<u64>,
    not_before_ms: u64,
    asked_back: u32,
}

impl Remembered {
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    #[cfg(test)]
    pub(super) fn has(&self, ino: Ino) -> bool {
        self.held.contains_key(&ino)
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp(self.now)
    }

    /// All of these rows, if they are remembered.
    pub(super) fn all(&self, keys: &[Key]) -> Option<Vec<Option<Versioned>>> {
        let of = |key: &Key| self.held.get(&keys::leased_with(key)?)?.rows.get(key).cloned();
        keys.iter().map(of).collect()
    }

    /// Remembers what a read found that began at a moment, as far as there are leases.
    pub(super) fn learn(&mut self, keys: &[Key], found: &[Option<Versioned>], began: Stamp) {
        for (key, found) in keys.iter().zip(found) {
            let Some(ino) = keys::leased_with(key) else { continue };
            if found.as_ref().is_some_and(|found| found.value.len() > VALUE_BYTES_MAX) {
                continue;
            }
            let held = self.held.get_mut(&ino).filter(|held| held.changed <= began.0);
            let Some(held) = held.filter(|_| !self.changing.contains_key(&ino)) else { continue };
            if held.rows.insert(key.clone(), found.clone()).is_none() {
                self.rows += 1;
            }
        }
        if self.rows > ROWS_MAX {
            self.held.values_mut().for_each(|held| held.rows.clear());
            self.rows = 0;
        }
    }

    /// A commit that changes these rows is about to be sent.
    pub(super) fn begins_to_change(&mut self, keys: &[Key], now_ms: u64) {
        for key in keys {
            self.changes(key);
            let Some(ino) = keys::leased_with(key) else { continue };
            *self.changing.entry(ino).or_default() += 1;
            if key.first() == Some(&keys::INODE) && !self.held.contains_key(&ino) {
                let looks = self.looks(ino);
                looks.first_ms = None;
                looks.not_before_ms = looks.not_before_ms.max(now_ms + CHANGED_MS);
            }
        }
    }

    /// That commit was answered, or is given up.
    pub(super) fn ends_to_change(&mut self, keys: &[Key]) {
        for key in keys {
            self.changes(key);
            let Some(ino) = keys::leased_with(key) else { continue };
            if let Entry::Occupied(mut changing) = self.changing.entry(ino) {
                *changing.get_mut() -= 1;
                if *changing.get() == 0 {
                    changing.remove();
                }
            }
        }
    }

    /// Forgets what this row is, and what reads find of its inode that began before.
    fn changes(&mut self, key: &Key) {
        self.now += 1;
        let Some(ino) = keys::leased_with(key) else { return };
        if let Some(taking) = self.taking.get_mut(&ino) {
            taking.changed = true;
        }
        if let Some(held) = self.held.get_mut(&ino) {
            held.changed = self.now;
            if held.rows.remove(key).is_some() {
                self.rows -= 1;
            }
        }
    }

    /// Forgets what these rows are.
    pub(super) fn forget_rows(&mut self, keys: &[Key]) {
        keys.iter().for_each(|key| self.changes(key));
    }

    /// Has no leases on these any more.
    pub(super) fn forget(&mut self, inos: &[Ino]) {
        self.now += 1;
        for ino in inos {
            if let Some(held) = self.held.remove(ino) {
                self.rows -= held.rows.len();
            }
            if let Some(taking) = self.taking.get_mut(ino) {
                taking.asked_back = true;
            }
        }
    }

    /// The same, because others want to change them.
    pub(super) fn asked_back(&mut self, inos: &[Ino], now_ms: u64) {
        self.forget(inos);
        for ino in inos {
            let looks = self.looks(*ino);
            looks.first_ms = None;
            looks.not_before_ms = now_ms + (ASKED_BACK_MS << looks.asked_back);
            looks.asked_back = (looks.asked_back + 1).min(DOUBLES_MAX);
        }
    }

    /// Somebody looks at an inode; answers whether there is one to take a lease on.
    pub(super) fn looked_at(&mut self, ino: Ino, now_ms: u64) -> bool {
        if self.held.contains_key(&ino) || self.taking.contains_key(&ino) {
            return false;
        }
        if self.held.len() + self.taking.len() >= LEASES_MAX {
            self.held.clear();
            (self.rows, self.now) = (0, self.now + 1);
        }
        let looks = self.looks(ino);
        if now_ms < looks.not_before_ms {
            return false;
        }
        match looks.first_ms.filter(|first| now_ms <= first + LOOK_LATE_MS) {
            Some(first) if now_ms < first + LOOK_AGAIN_MS => false,
            Some(_) => {
                looks.first_ms = None;
                self.taking.insert(ino, Taking::default());
                self.wanted.push(ino);
                true
            }
            None => {
                looks.first_ms = Some(now_ms);
                false
            }
        }
    }

    fn looks(&mut self, ino: Ino) -> &mut Looks {
        if self.looks.len() >= LOOKS_MAX && !self.looks.contains_key(&ino) {
            self.looks.clear();
        }
        self.looks.entry(ino).or_default()
    }

    /// Up to `most` inodes to take leases on, until [`Remembered::taken`] of each.
    pub(super) fn wanted(&mut self, most: usize) -> Vec<Ino> {
        let rest = self.wanted.split_off(self.wanted.len().min(most));
        std::mem::replace(&mut self.wanted, rest)
    }

    /// What became of the taking of a lease: the inode's row as it was put for it, if it was. Answers
    /// whether there is a lease now.
    pub(super) fn taken(&mut self, ino: Ino, row: Option<Versioned>) -> bool {
        let taking = self.taking.remove(&ino);
        let (Some(row), Some(taking)) = (row, taking) else { return false };
        if taking.asked_back {
            return false;
        }
        self.now += 1;
        let mut held = Held { rows: HashMap::new(), changed: self.now };
        // A commit of ours may have come behind the one that took it.
        if !taking.changed && !self.changing.contains_key(&ino) {
            held.rows.insert(keys::inode(ino), Some(row));
        }
        self.rows += held.rows.len();
        if let Some(before) = self.held.insert(ino, held) {
            self.rows -= before.rows.len();
        }
        true
    }

    /// Nobody asked for anything back.
    #[cfg(test)]
    pub(super) fn forgive(&mut self) {
        self.looks.values_mut().for_each(|looks| (looks.not_before_ms, looks.asked_back) = (0, 0));
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;

    const INO: Ino = Ino(7);

    fn row(version: u64) -> Option<Versioned> {
        Some(Versioned { version, value: Bytes::from_static(b"row") })
    }

    fn key() -> Key {
        keys::inode(INO)
    }

    /// A lease on the way, and when a read began that saw what was before.
    fn wanting() -> Remembered {
        let mut all = Remembered::default();
        assert!(!all.looked_at(INO, 0) && !all.looked_at(INO, 10), "one look is no reason");
        assert!(all.looked_at(INO, 100));
        assert_eq!(all.wanted(5), [INO]);
        assert!(!all.looked_at(INO, 200), "it is being taken");
        all
    }

    fn leased() -> Remembered {
        let mut all = wanting();
        assert!(all.taken(INO, row(1)));
        assert_eq!(all.all(&[key()]), Some(vec![row(1)]));
        all
    }

    #[test]
    fn a_lease_that_is_asked_back_while_it_is_taken_is_none() {
        let mut all = wanting();
        all.asked_back(&[INO], 100);
        assert!(!all.taken(INO, row(1)) && !all.has(INO));
        assert!(!all.looked_at(INO, 4_000) && !all.looked_at(INO, 5_000), "not for a while");
        assert!(!all.looked_at(INO, 5_200) && all.looked_at(INO, 5_300));
        assert!(!all.taken(INO, None), "nothing was put");
    }

    #[test]
    fn a_change_of_ones_own_while_it_is_taken_leaves_no_row() {
        let mut all = wanting();
        all.begins_to_change(&[key()], 100);
        all.ends_to_change(&[key()]);
        assert!(all.taken(INO, row(1)));
        assert_eq!(all.all(&[key()]), None, "the change may have come behind");
        let mut all = wanting();
        all.begins_to_change(&[key()], 100);
        assert!(all.taken(INO, row(1)));
        let began = all.stamp();
        all.learn(&[key()], &[row(1)], began);
        assert_eq!(all.all(&[key()]), None, "it is under way");
        all.ends_to_change(&[key()]);
        all.learn(&[key()], &[row(2)], all.stamp());
        assert_eq!(all.all(&[key()]), Some(vec![row(2)]));
    }

    #[test]
    fn what_was_read_before_a_change_is_not_learned_after_it() {
        let mut all = leased();
        let began = all.stamp();
        all.begins_to_change(&[key()], 100);
        assert_eq!(all.all(&[key()]), None);
        all.learn(&[key()], &[row(1)], all.stamp());
        assert_eq!(all.all(&[key()]), None, "beside the change");
        all.ends_to_change(&[key()]);
        all.learn(&[key()], &[row(1)], began);
        assert_eq!(all.all(&[key()]), None, "from before it");
        all.learn(&[key()], &[row(2)], all.stamp());
        assert_eq!(all.all(&[key()]), Some(vec![row(2)]));
        // Two at once.
        all.begins_to_change(&[key()], 100);
        all.begins_to_change(&[key()], 100);
        all.ends_to_change(&[key()]);
        all.learn(&[key()], &[row(2)], all.stamp());
        assert_eq!(all.all(&[key()]), None);
        all.ends_to_change(&[key()]);
        assert!(all.changing.is_empty());
    }

    #[test]
    fn what_is_lost_is_forgotten() {
        let mut all = leased();
        let began = all.stamp();
        all.forget(&[INO]);
        assert!(!all.has(INO) && all.rows == 0);
        all.learn(&[key()], &[row(1)], began);
        assert_eq!(all.all(&[key()]), None);
        assert_eq!(all.all(&[keys::extents(INO, 0)]), None, "no lease is for bytes");
        assert_eq!(all.all(&[]), Some(Vec::new()));
    }
}
