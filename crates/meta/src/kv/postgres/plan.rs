//! A commit as the arrays that the statements take.
//!
//! Keys that the commit checks without holding a row of theirs (counters, and keys that must be
//! absent and stay so) are decided last, when every row is locked, so that what is seen then is of
//! one moment; what the commit does to these very keys comes after that. See the module's document.

use std::collections::{BTreeMap, BTreeSet};

use super::super::contract::{Check, Commit, Key, Version};

/// What is wanted of a key that is locked and not compared.
const ANY: i64 = -1;

/// What a commit asks of the server.
#[derive(Default)]
pub(super) struct Plan {
    pub(super) locks: Locks,
    /// What is done to keys that were decided by the locks.
    pub(super) first: Changes,
    /// Counters and absent keys, and their versions.
    pub(super) counted: Wanted,
    /// Counters that are checked and removed in one.
    pub(super) uncounted: Wanted,
    /// What is done to the keys of these two.
    pub(super) then: Changes,
}

/// Rows to be locked in the order of keys.
#[derive(Default)]
pub(super) struct Locks {
    pub(super) keys: Vec<Key>,
    pub(super) wants: Vec<i64>,
    pub(super) changes: Vec<bool>,
}

/// Keys and the versions they should have.
#[derive(Default)]
pub(super) struct Wanted {
    pub(super) keys: Vec<Key>,
    pub(super) wants: Vec<i64>,
}

impl Wanted {
    fn push(&mut self, key: &Key, want: i64) {
        self.keys.push(key.clone());
        self.wants.push(want);
    }
}

/// Rows to change.
#[derive(Default)]
pub(super) struct Changes {
    pub(super) deletes: Vec<Key>,
    pub(super) plain: Vec<bool>,
    pub(super) shards: Vec<bool>,
    pub(super) inserts: Vec<Key>,
    pub(super) inserted: Vec<Vec<u8>>,
    pub(super) upserts: Vec<Key>,
    pub(super) upserted: Vec<Vec<u8>>,
    pub(super) adds: Vec<Key>,
    pub(super) added: Vec<i64>,
    pub(super) raises: Vec<Key>,
    pub(super) raised: Vec<Vec<u8>>,
}

impl Changes {
    fn delete(&mut self, key: &Key, plain: bool, shards: bool) {
        self.deletes.push(key.clone());
        self.plain.push(plain);
        self.shards.push(shards);
    }

    fn insert(&mut self, key: &Key, value: &[u8]) {
        self.inserts.push(key.clone());
        self.inserted.push(value.to_vec());
    }
}

/// Whether a version is one of a counter: those of plain values are even.
pub(super) fn is_counted(version: i64) -> bool {
    version & 1 == 1
}

impl Plan {
    /// The plan of a commit; `None` if its checks contradict one another.
    pub(super) fn of(commit: &Commit) -> Option<Self> {
        let mut wants = BTreeMap::new();
        for check in &commit.checks {
            let (key, want) = match check {
                Check::Absent(key) => (key, 0),
                Check::Version(key, version) => (key, stored(*version)?),
            };
            if *wants.entry(key).or_insert(want) != want {
                return None;
            }
        }
        let mut plan = Self::default();
        let puts: BTreeMap<_, _> = commit.puts.iter().map(|(key, value)| (key, value)).collect();
        let deletes: BTreeSet<_> = commit.deletes.iter().collect();
        let keys: BTreeSet<_> = puts.keys().chain(deletes.iter()).chain(wants.keys()).collect();
        for &&key in &keys {
            let want = wants.get(key).copied().unwrap_or(ANY);
            plan.lock(key, want, puts.contains_key(key) || deletes.contains(key));
            plan.change(key, want, puts.get(key).map(|value| &value[..]), deletes.contains(key));
        }
        let adds: BTreeMap<_, _> = commit.adds.iter().map(|(key, n)| (key, *n)).collect();
        for (key, n) in adds {
            let changes = match wants.contains_key(key) {
                true => &mut plan.then,
                false => &mut plan.first,
            };
            changes.adds.push(key.clone());
            changes.added.push(n);
        }
        let raises: BTreeMap<_, _> =
            commit.raises.iter().map(|(key, value)| (key, value)).collect();
        for (key, value) in raises {
            let changes = match wants.contains_key(key) {
                true => &mut plan.then,
                false => &mut plan.first,
            };
            changes.raises.push(key.clone());
            changes.raised.push(value.to_vec());
        }
        Some(plan)
    }

    fn lock(&mut self, key: &Key, want: i64, changes: bool) {
        let plain = want != ANY && !is_counted(want);
        if !plain && !changes {
            return;
        }
        self.locks.keys.push(key.clone());
        self.locks.wants.push(if plain { want } else { ANY });
        // There is no row to be locked where none may be.
        self.locks.changes.push(changes && want != 0);
    }

    fn change(&mut self, key: &Key, want: i64, put: Option<&[u8]>, delete: bool) {
        match (want, put) {
            // A counter that is replaced or removed.
            (want, put) if want != ANY && is_counted(want) => {
                match put.is_some() || delete {
                    true => self.uncounted.push(key, want),
                    false => self.counted.push(key, want),
                }
                if let Some(value) = put {
                    self.then.upserts.push(key.clone());
                    self.then.upserted.push(value.to_vec());
                }
            }
            (0, Some(value)) => self.first.insert(key, value),
            // Nobody else can make a row while ours stands; nobody will have seen it.
            (0, None) => {
                self.first.insert(key, &[]);
                self.counted.push(key, 0);
                self.then.delete(key, true, false);
            }
            (_, Some(value)) => {
                self.first.delete(key, false, true);
                self.first.upserts.push(key.clone());
                self.first.upserted.push(value.to_vec());
            }
            (_, None) if delete => self.first.delete(key, true, true),
            (_, None) => {}
        }
    }

    /// Rows that the transaction changes, its own of the lane included.
    #[cfg(test)]
    pub(super) fn rows(&self) -> usize {
        let of = |c: &Changes| {
            let rows = c.deletes.len() + c.inserts.len() + c.upserts.len();
            rows + c.adds.len() + c.raises.len()
        };
        1 + of(&self.first) + of(&self.then) + self.uncounted.keys.len()
    }
}

/// A version as the server has it; `None` for one that nothing can have.
fn stored(version: Version) -> Option<i64> {
    i64::try_from(version).ok().filter(|version| *version > 0)
}

#[cfg(test)]
#[path = "tests/plan.rs"]
mod tests;
