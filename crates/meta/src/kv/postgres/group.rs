//! Commits that share a transaction: one after the other, as one.
//!
//! A commit may join if it rests on nothing that those before it change. So what they come to
//! together is what they come to in turn, and where the whole does not hold each is tried alone.

use std::collections::BTreeMap;

use bytes::Bytes;

use super::super::contract::{Check, Commit, Key};

/// Rows, bytes and commits at which a group is full.
const ROWS: usize = 2_500;
const BYTES: usize = 4 << 20;
const COMMITS: usize = 64;

/// Several commits as one.
#[derive(Default)]
pub(super) struct Group {
    checks: BTreeMap<Key, Check>,
    writes: BTreeMap<Key, Option<Bytes>>,
    adds: BTreeMap<Key, i64>,
    raises: BTreeMap<Key, Bytes>,
    bytes: usize,
    commits: usize,
}

impl Group {
    /// Takes the commit in if it may come behind those that are here already. The first one always
    /// may, unless it checks a key twice.
    pub(super) fn join(&mut self, commit: &Commit) -> bool {
        let values = commit.puts.iter().chain(&commit.raises);
        let bytes: usize = values.map(|(key, value)| key.len() + value.len()).sum();
        let counted = commit.adds.len() + commit.raises.len();
        let rows = commit.puts.len() + commit.deletes.len() + counted;
        let here = self.writes.len() + self.adds.len() + self.raises.len();
        let full = self.commits >= COMMITS || here + rows > ROWS || self.bytes + bytes > BYTES;
        if (full && self.commits > 0) || !self.fits(commit) {
            return false;
        }
        for check in &commit.checks {
            self.checks.insert(key_of(check).clone(), check.clone());
        }
        let puts = commit.puts.iter().map(|(key, value)| (key, Some(value.clone())));
        for (key, value) in puts.chain(commit.deletes.iter().map(|key| (key, None))) {
            self.writes.insert(key.clone(), value);
        }
        for (key, n) in &commit.adds {
            *self.adds.entry(key.clone()).or_default() += n;
        }
        for (key, value) in &commit.raises {
            let highest = self.raises.entry(key.clone()).or_default();
            *highest = value.clone().max(std::mem::take(highest));
        }
        self.bytes += bytes;
        self.commits += 1;
        true
    }

    fn fits(&self, commit: &Commit) -> bool {
        let checked = commit.checks.iter().all(|check| {
            let key = key_of(check);
            let same = self.checks.get(key).is_none_or(|have| have == check);
            same && !self.writes.contains_key(key) && !self.is_shared(key)
        });
        let puts = commit.puts.iter().map(|(key, _)| key);
        let written = puts.chain(&commit.deletes).all(|key| !self.is_shared(key));
        let added = commit.adds.iter().all(|(key, n)| {
            let sum = self.adds.get(key).copied().unwrap_or(0).checked_add(*n);
            sum.is_some() && self.may_share(key) && !self.raises.contains_key(key)
        });
        let mut raises = commit.raises.iter().map(|(key, _)| key);
        let raised = raises.all(|key| self.may_share(key) && !self.adds.contains_key(key));
        checked && written && added && raised
    }

    /// Whether some commit adds to the key, or raises it.
    fn is_shared(&self, key: &Key) -> bool {
        self.adds.contains_key(key) || self.raises.contains_key(key)
    }

    fn may_share(&self, key: &Key) -> bool {
        !self.writes.contains_key(key) && !self.checks.contains_key(key)
    }

    /// What they come to.
    pub(super) fn into_commit(self) -> Commit {
        let mut commit = Commit {
            checks: self.checks.into_values().collect(),
            adds: self.adds.into_iter().collect(),
            raises: self.raises.into_iter().collect(),
            ..Commit::default()
        };
        for (key, value) in self.writes {
            match value {
                Some(value) => commit.puts.push((key, value)),
                None => commit.deletes.push(key),
            }
        }
        commit
    }
}

fn key_of(check: &Check) -> &Key {
    match check {
        Check::Absent(key) | Check::Version(key, _) => key,
    }
}

#[cfg(test)]
#[path = "tests/group.rs"]
mod tests;
