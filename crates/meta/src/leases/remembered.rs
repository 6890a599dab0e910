//! What a session remembers under its leases, and on what it wants some.

mod along;
mod asking;
mod held;
mod looks;
mod pause;
mod room;
mod wanted;

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use weir_types::Ino;

use crate::keys;
use crate::kv::{Key, Version, Versioned};
use asking::Asking;
use held::{Held, Whole};
use looks::Looks;
pub(super) use pause::Pause;

/// Most rows that are remembered: some 100 MB of what they mostly are. When there would be more,
/// half of the leases are forgotten, or all rows.
const ROWS_MAX: usize = 1 << 19;
/// After so many names that were not there the list of a directory is read.
const MISSES: u32 = 8;

/// After so many names that were made in it a directory is worth a write lease.
const NAMES: u32 = 4;

/// A moment, in changes of what is remembered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Stamp(u64);

/// What is remembered.
#[derive(Default)]
pub(super) struct Remembered {
    held: HashMap<Ino, Held>,
    /// Leases that are being taken.
    taking: HashMap<Ino, Taking>,
    /// Rows that commits under way change.
    changing: HashMap<Key, Changing>,
    looks: HashMap<Ino, Looks>,
    wanted: Vec<Ino>,
    /// Directories whose lists are to be read.
    lists: Vec<Ino>,
    /// What to take write leases on, each with whether it is a directory.
    to_write: Vec<(Ino, bool)>,
    asking: Asking,
    now: u64,
    rows: usize,
}

/// Commits under way that change one row.
#[derive(Default)]
struct Changing {
    commits: u32,
    /// There were several at once: which came last is not known.
    crossed: bool,
}

/// A row that a commit changes, from its beginning to its end.
pub(super) struct Change {
    key: Key,
    /// The lease that there was.
    lease: Option<u64>,
    began: u64,
    /// It is raised, and nothing else: of several such commits it does not matter which comes last.
    raises: bool,
}

impl Change {
    pub(super) fn key(&self) -> &Key {
        &self.key
    }
}

/// What a commit makes of rows, where it was made.
pub(super) type Made = HashMap<Key, Option<Versioned>>;

/// What happened since the taking of a lease began.
#[derive(Clone, Copy, Default)]
struct Taking {
    asked_back: bool,
    changed: bool,
}

impl Remembered {
    pub(super) fn held(&self) -> usize {
        self.held.len()
    }

    /// Whether there is a lease on it.
    pub(super) fn has(&self, ino: Ino) -> bool {
        self.held.contains_key(&ino)
    }

    /// A name was made in a directory by a commit that was waited for. Answers whether that is worth a write lease.
    pub(super) fn name_made_in(&mut self, dir: Ino, now_ms: u64) -> bool {
        let looks = self.looks.get(&dir).copied().unwrap_or_default();
        let Some(held) = self.held.get_mut(&dir) else { return false };
        held.made += 1;
        if held.made % NAMES != 0 || looks.is_left_alone(now_ms) {
            return false;
        }
        if !held.whole.entries {
            self.lists.push(dir);
        }
        self.to_write.push((dir, true));
        true
    }

    /// A file is worth a write lease, for which it takes one for reading, too.
    pub(super) fn wants_to_write(&mut self, ino: Ino) {
        if !self.held.contains_key(&ino) && !self.taking.contains_key(&ino) {
            self.make_room();
            self.taking.insert(ino, Taking::default());
            self.wanted.push(ino);
        }
        self.to_write.push((ino, false));
    }

    /// Directories to take write leases on.
    pub(super) fn take_to_write(&mut self) -> Vec<(Ino, bool)> {
        self.to_write.sort_unstable();
        self.to_write.dedup();
        std::mem::take(&mut self.to_write)
    }

    pub(super) fn stamp(&self) -> Stamp {
        Stamp(self.now)
    }

    /// All of these rows, if they are remembered.
    pub(super) fn all(&self, keys: &[Key]) -> Option<Vec<Option<Versioned>>> {
        keys.iter().map(|key| self.row(key)).collect()
    }

    /// Whether what is checked is so, as far as it is remembered; `None`: not all of it is.
    pub(super) fn holds_all<'a>(
        &self,
        mut checks: impl Iterator<Item = (&'a Key, Option<Version>)>,
    ) -> Option<bool> {
        checks.try_fold(true, |holds, (key, wanted)| {
            let is = self.row(key)?.map(|row| row.version);
            Some(holds && is == wanted)
        })
    }

    /// A value that was put under one version is in the database under another one.
    pub(super) fn settled(&mut self, key: &Key, was: Version, is: Version) {
        let held = keys::leased_with(key).and_then(|ino| self.held.get_mut(&ino));
        let row = held.and_then(|held| held.rows.get_mut(key)?.as_mut());
        row.filter(|row| row.version == was).into_iter().for_each(|row| row.version = is);
    }

    fn row(&self, key: &Key) -> Option<Option<Versioned>> {
        let held = self.held.get(&keys::leased_with(key)?)?;
        if self.changing.contains_key(key) {
            return None;
        }
        held.used.set(self.now);
        held.row(key)
    }

    /// Remembers what a read found that began at a moment, as far as there are leases. Answers whether there is
    /// a directory whose list is worth to be read.
    pub(super) fn learn(
        &mut self,
        keys: &[Key],
        found: &[Option<Versioned>],
        began: Stamp,
    ) -> bool {
        for (key, found) in keys.iter().zip(found) {
            let Some(ino) = keys::leased_with(key) else { continue };
            let Some(held) = self.held.get(&ino) else {
                self.looks.entry(ino).and_modify(|looks| looks.saw(key, found.as_ref()));
                continue;
            };
            if !held.changed_since(began.0, |one| one == key) && !self.changing.contains_key(key) {
                self.remember(ino, key, found.clone());
            }
            if found.is_none() && key.first() == Some(&keys::DIRENT) {
                self.missed(ino);
            }
        }
        !self.lists.is_empty()
    }

    fn remember(&mut self, ino: Ino, key: &Key, found: Option<Versioned>) {
        let Some(held) = self.held.get_mut(&ino) else { return };
        self.rows += usize::from(held.remember(key, found));
        if self.rows > ROWS_MAX {
            self.forget_idle();
        }
        if self.rows > ROWS_MAX {
            for held in self.held.values_mut() {
                held.rows.clear();
                held.whole = Whole::default();
            }
            self.rows = 0;
        }
    }

    /// A commit that changes these rows is about to be sent; with each whether it is only raised.
    pub(super) fn begins_to_change(&mut self, rows: &[(Key, bool)], now_ms: u64) -> Vec<Change> {
        let mut changes = Vec::with_capacity(rows.len());
        for (key, raises) in rows {
            let Some(ino) = keys::leased_with(key) else { continue };
            if !raises {
                self.changes(key);
                let changing = self.changing.entry(key.clone()).or_default();
                changing.commits += 1;
                changing.crossed |= changing.commits > 1;
            }
            let lease = self.held.get(&ino).map(|held| held.since);
            changes.push(Change { key: key.clone(), lease, began: self.now, raises: *raises });
            if key.first() == Some(&keys::INODE) && lease.is_none() {
                self.looks(ino).changed(now_ms);
            }
        }
        changes
    }

    /// That commit was answered, or is given up. Where it was made, what it made of the rows is remembered.
    pub(super) fn ends_to_change(&mut self, changes: Vec<Change>, made: &Made) {
        for change in changes {
            let Some(ino) = keys::leased_with(&change.key) else { continue };
            let known = match change.raises {
                true => self.raised(ino, &change, made),
                false => self.changed(ino, &change, made),
            };
            if !known && let Some(held) = self.held.get_mut(&ino) {
                held.lacks(&change.key);
            }
        }
    }

    fn changed(&mut self, ino: Ino, Change { key, lease, .. }: &Change, made: &Made) -> bool {
        self.changes(key);
        let mut crossed = true;
        if let Entry::Occupied(mut changing) = self.changing.entry(key.clone()) {
            crossed = changing.get().crossed;
            changing.get_mut().commits -= 1;
            if changing.get().commits == 0 {
                changing.remove();
            }
        }
        let Some(held) = self.held.get_mut(&ino).filter(|held| *lease == Some(held.since)) else {
            return false;
        };
        if key.first() == Some(&keys::DIR_TIMES) {
            held.time_set = self.now;
        }
        match made.get(key).filter(|_| !crossed) {
            Some(row) => {
                self.remember(ino, key, row.clone());
                true
            }
            None => false,
        }
    }

    fn raised(&mut self, ino: Ino, change: &Change, made: &Made) -> bool {
        let key = &change.key;
        let under_way = self.changing.get_mut(key);
        let crossed = under_way.is_some();
        under_way.into_iter().for_each(|changing| changing.crossed = true);
        self.now += 1;
        let Some(held) = self.held.get_mut(&ino) else { return false };
        let known = held.rows.get(key).cloned();
        self.rows -= usize::from(held.changes(key, self.now));
        let same = change.lease == Some(held.since) && held.time_set <= change.began && !crossed;
        let Some(known) = known.filter(|_| same) else { return false };
        let row = match (known, made.get(key).cloned().flatten()) {
            (Some(known), Some(to)) => Some(Versioned { value: known.value.max(to.value), ..to }),
            (known, to) => to.or(known),
        };
        self.remember(ino, key, row);
        true
    }

    /// Forgets what this row is, and what reads find of it that began before.
    fn changes(&mut self, key: &Key) {
        self.now += 1;
        let Some(ino) = keys::leased_with(key) else { return };
        if key.first() == Some(&keys::INODE)
            && let Some(taking) = self.taking.get_mut(&ino)
        {
            taking.changed = true;
        }
        let Some(held) = self.held.get_mut(&ino) else { return };
        self.rows -= usize::from(held.changes(key, self.now));
    }

    /// Names of a directory are looked for and not there, again and again: one whose list is worth to be read.
    fn missed(&mut self, dir: Ino) {
        let Some(held) = self.held.get_mut(&dir).filter(|held| !held.whole.entries) else { return };
        held.misses = held.misses.saturating_add(1);
        if held.misses == MISSES {
            self.lists.push(dir);
        }
    }

    /// A directory whose list is to be read, if there is one.
    pub(super) fn list_wanted(&mut self) -> Option<Ino> {
        self.lists.pop()
    }

    /// The list of a directory as a read found it that began at a moment. Where something of it changed
    /// since, it is read once more some other time.
    pub(super) fn learn_list(&mut self, dir: Ino, rows: Vec<(Key, Versioned)>, began: Stamp) {
        let is_its =
            |key: &Key| key.first() == Some(&keys::DIRENT) && keys::leased_with(key) == Some(dir);
        let is_changing = self.changing.keys().any(is_its);
        let Some(held) = self.held.get_mut(&dir) else { return };
        held.misses = 0;
        if is_changing || held.changed_since(began.0, is_its) {
            return;
        }
        held.has_list();
        for (key, row) in rows {
            self.remember(dir, &key, Some(row));
        }
    }

    /// Forgets what these rows are.
    pub(super) fn forget_rows(&mut self, keys: &[Key]) {
        for key in keys {
            self.changes(key);
            let held = keys::leased_with(key).and_then(|ino| self.held.get_mut(&ino));
            held.into_iter().for_each(|held| held.lacks(key));
        }
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
        self.holds(ino, Whole::default());
        // A commit of ours may have come behind the one that took it.
        if !taking.changed && !self.changing.contains_key(&keys::inode(ino)) {
            self.remember(ino, &keys::inode(ino), Some(row));
        }
        true
    }

    /// A commit is about to be sent that makes this inode, with a lease on it.
    pub(super) fn begins_to_make(&mut self, ino: Ino) {
        self.taking.insert(ino, Taking::default());
    }

    /// What became of that commit: these are all rows of the inode, if it was made. Answers whether there
    /// is a lease now.
    pub(super) fn ends_to_make(&mut self, ino: Ino, rows: Option<Vec<(Key, Versioned)>>) -> bool {
        let taking = self.taking.remove(&ino);
        let (Some(rows), Some(taking)) = (rows, taking) else { return false };
        if taking.asked_back {
            return false;
        }
        self.holds(ino, Whole { entries: true, attributes: true });
        self.remember(ino, &keys::dir_times(ino), None);
        for (key, row) in rows {
            self.remember(ino, &key, Some(row));
        }
        true
    }

    fn holds(&mut self, ino: Ino, whole: Whole) {
        self.make_room();
        self.now += 1;
        let held = Held::new(self.now, whole);
        if let Some(before) = self.held.insert(ino, held) {
            self.rows -= before.rows.len();
        }
    }
}

#[cfg(test)]
mod tests;
