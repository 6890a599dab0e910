//! Several commits as one, each of which may rest on those before it.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::kv::{Check, Commit, Key, Version};

/// Rows and bytes at which it is full: a database takes no more in one transaction.
const ROWS: usize = 2_000;
const BYTES: usize = 4 << 20;
/// Set in the versions of values that the database has not yet.
const PROVISIONAL: Version = 1 << 63;

/// Whether a value of this version is not in the database yet.
pub(crate) fn is_provisional(version: Version) -> bool {
    version & PROVISIONAL != 0
}

/// The version of the values of a commit that waits.
pub(super) fn provisional(number: u64) -> Version {
    PROVISIONAL | number
}

pub(super) fn key_of(check: &Check) -> &Key {
    match check {
        Check::Absent(key) | Check::Version(key, _) => key,
    }
}

/// Commits of numbers that follow one another.
#[derive(Default)]
pub(super) struct Batch {
    pub(super) first: u64,
    pub(super) last: u64,
    checks: BTreeMap<Key, Check>,
    puts: BTreeMap<Key, (Bytes, Version)>,
    adds: BTreeMap<Key, i64>,
    raises: BTreeMap<Key, Bytes>,
    bytes: usize,
    /// It was sent, and takes no more.
    pub(super) tried: bool,
}

impl Batch {
    pub(super) fn of(first: u64) -> Self {
        Self { first, last: first, ..Self::default() }
    }

    pub(super) fn is_full(&self) -> bool {
        self.rows() >= ROWS || self.bytes >= BYTES
    }

    pub(super) fn rows(&self) -> usize {
        self.puts.len() + self.adds.len() + self.raises.len()
    }

    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Takes in the next commit. What it checks of those before it was held against them when it came.
    pub(super) fn join(&mut self, number: u64, commit: &Commit) {
        self.last = number;
        for check in &commit.checks {
            let key = key_of(check);
            let is_ours = matches!(check, Check::Version(_, version) if is_provisional(*version));
            if !is_ours && !self.puts.contains_key(key) {
                self.checks.entry(key.clone()).or_insert_with(|| check.clone());
            }
        }
        for (key, value) in &commit.puts {
            self.bytes += key.len() + value.len();
            self.puts.insert(key.clone(), (value.clone(), provisional(number)));
        }
        for (key, n) in &commit.adds {
            *self.adds.entry(key.clone()).or_default() += n;
        }
        for (key, value) in &commit.raises {
            let highest = self.raises.entry(key.clone()).or_default();
            *highest = value.clone().max(std::mem::take(highest));
        }
    }

    /// What they come to.
    pub(super) fn commit(&self) -> Commit {
        let puts = self.puts.iter().map(|(key, (value, _))| (key.clone(), value.clone()));
        Commit {
            checks: self.checks.values().cloned().collect(),
            puts: puts.collect(),
            deletes: Vec::new(),
            adds: self
                .adds
                .iter()
                .filter(|(_, n)| **n != 0)
                .map(|(k, n)| (k.clone(), *n))
                .collect(),
            raises: self.raises.iter().map(|(key, value)| (key.clone(), value.clone())).collect(),
        }
    }

    /// What it puts, and under which versions.
    pub(super) fn put(&self) -> Vec<(Key, Version)> {
        self.puts.iter().map(|(key, (_, version))| (key.clone(), *version)).collect()
    }

    /// Whether it sets this key.
    pub(super) fn puts(&self, key: &Key) -> bool {
        self.puts.contains_key(key)
    }

    /// Whether it rests on this key, and on nothing that it puts there itself.
    pub(super) fn checks(&self, key: &Key) -> bool {
        self.checks.contains_key(key)
    }

    /// Whether it changes this key.
    pub(super) fn changes(&self, key: &Key) -> bool {
        self.puts(key) || self.adds.contains_key(key) || self.raises.contains_key(key)
    }

    /// Whether it changes a key that begins so.
    pub(super) fn changes_below(&self, prefix: &[u8]) -> bool {
        fn any<T>(of: &BTreeMap<Key, T>, prefix: &[u8]) -> bool {
            of.range(prefix.to_vec()..).next().is_some_and(|(key, _)| key.starts_with(prefix))
        }
        any(&self.puts, prefix) || any(&self.adds, prefix) || any(&self.raises, prefix)
    }
}
