//! What is remembered under one lease.

use std::cell::Cell;
use std::collections::{HashMap, HashSet};

use crate::keys;
use crate::kv::{Key, Versioned};

/// Larger values are not remembered: extended attributes may have 64 KiB.
const VALUE_BYTES_MAX: usize = 1_024;
/// Rows of an inode of which it is known when they changed.
const LATELY_MAX: usize = 64;
/// Rows of an inode that are known not to be known, though all others are.
const LACKING_MAX: usize = 256;

/// A lease.
pub(super) struct Held {
    /// When it was taken, which no other one was.
    pub(super) since: u64,
    /// When it was used last.
    pub(super) used: Cell<u64>,
    pub(super) rows: HashMap<Key, Option<Versioned>>,
    /// Entries that are not among them are not there, and attributes: the inode was made here, or its list was
    /// read.
    pub(super) whole: Whole,
    /// But for these.
    lacking: HashSet<Key>,
    /// Names that were looked for and not there.
    pub(super) misses: u32,
    /// Names that were made there by commits that were waited for.
    pub(super) made: u32,
    /// When something of it changed last, but for what follows.
    changed: u64,
    /// When rows changed last.
    lately: HashMap<Key, u64>,
    /// When the time of its entries was last changed otherwise than raised.
    pub(super) time_set: u64,
}

/// Of what all is known.
#[derive(Clone, Copy, Default)]
pub(super) struct Whole {
    pub(super) entries: bool,
    pub(super) attributes: bool,
}

impl Held {
    pub(super) fn new(now: u64, whole: Whole) -> Self {
        Self {
            since: now,
            used: Cell::new(now),
            rows: HashMap::new(),
            whole,
            lacking: HashSet::new(),
            misses: 0,
            made: 0,
            changed: now,
            lately: HashMap::new(),
            time_set: 0,
        }
    }

    /// What a row is, if that is known.
    pub(super) fn row(&self, key: &Key) -> Option<Option<Versioned>> {
        let is_absent = || self.whole.has(key) && !self.lacking.contains(key);
        self.rows.get(key).cloned().or_else(|| is_absent().then_some(None))
    }

    /// A row is this. Answers whether there is one more.
    pub(super) fn remember(&mut self, key: &Key, found: Option<Versioned>) -> bool {
        if found.as_ref().is_some_and(|found| found.value.len() > VALUE_BYTES_MAX) {
            self.lacks(key);
            return false;
        }
        self.lacking.remove(key);
        self.rows.insert(key.clone(), found).is_none()
    }

    /// A row is not known any more.
    pub(super) fn lacks(&mut self, key: &Key) {
        if !self.whole.has(key) {
            return;
        }
        match self.lacking.len() < LACKING_MAX {
            true => _ = self.lacking.insert(key.clone()),
            false => self.whole.lacks(key),
        }
    }

    /// The list of its entries was read.
    pub(super) fn has_list(&mut self) {
        self.whole.entries = true;
        self.lacking.retain(|key| key.first() != Some(&keys::DIRENT));
    }

    /// A row changes now: what it was is forgotten. Answers whether there is one less.
    pub(super) fn changes(&mut self, key: &Key, now: u64) -> bool {
        if self.lately.len() >= LATELY_MAX {
            self.lately.clear();
            self.changed = now;
        }
        self.lately.insert(key.clone(), now);
        self.rows.remove(key).is_some()
    }

    /// Whether some of these rows may have changed after a moment.
    pub(super) fn changed_since(&self, moment: u64, is_one: impl Fn(&Key) -> bool) -> bool {
        self.changed > moment || self.lately.iter().any(|(key, at)| *at > moment && is_one(key))
    }
}

impl Whole {
    fn has(self, key: &Key) -> bool {
        match key.first() {
            Some(&keys::DIRENT) => self.entries,
            Some(&keys::XATTR) => self.attributes,
            _ => false,
        }
    }

    /// Something of it is not known any more.
    fn lacks(&mut self, key: &Key) {
        match key.first() {
            Some(&keys::DIRENT) => self.entries = false,
            Some(&keys::XATTR) => self.attributes = false,
            _ => {}
        }
    }
}
