//! What was committed or looked up lately, in memory: newer than SlateDB, and faster.
//!
//! A commit is here from the moment it is in the redo log, and reaches SlateDB a little later (see
//! [`super::feed`]). So whoever reads looks here first. What must always hold:
//!
//! - A row that is here is the newest there is of its key.
//! - Every commit that SlateDB does not have is here, with its keys in order. Those it has may be let go, oldest first, and
//!   `evicted` says up to which: a key that is not here was changed by no commit after that one.
//!
//! Pure: no I/O, no waiting.

use std::collections::{BTreeSet, HashMap, VecDeque};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use crate::kv::contract::{Key, Version, Versioned};
use crate::kv::entry::Entry;

/// Commits kept after SlateDB has them, and their bytes at most. A reader that is overtaken by so
/// many commits has to read again; hot rows are read from here.
const KEPT_COMMITS: usize = if cfg!(test) { 48 } else { 4_096 };
const KEPT_BYTES: usize = 8 << 20;

/// What a row of which no commit is kept takes of memory beside its key and value: its place in the tables.
const LOOKED_UP_ROW_BYTES: usize = 320;

/// Longer values are read again.
const LOOKED_UP_BYTES: usize = 4 << 10;

/// What a row costs beside its key and value.
const ROW_BYTES: usize = 64;

/// The newest of one key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Row {
    /// The commit that put or removed it; 0 if it was looked for and never found.
    pub(super) version: Version,
    /// `None`: removed or absent.
    pub(super) value: Option<Bytes>,
    /// SlateDB told it, or would: no commit that is here did.
    looked_up: bool,
}

impl Row {
    fn versioned(&self) -> Option<Versioned> {
        let value = self.value.clone()?;
        Some(Versioned { version: self.version, value })
    }
}

/// One commit on its way to SlateDB.
#[derive(Debug)]
pub(super) struct Change {
    pub(super) version: Version,
    pub(super) puts: Vec<(Bytes, Bytes)>,
    pub(super) deletes: Vec<Bytes>,
}

impl Change {
    fn bytes(&self) -> usize {
        let puts = self.puts.iter().map(|(key, value)| key.len() + value.len() + ROW_BYTES);
        let deletes = self.deletes.iter().map(|key| key.len() + ROW_BYTES);
        puts.chain(deletes).sum()
    }

    fn keys(&self) -> impl Iterator<Item = &Bytes> {
        self.puts.iter().map(|(key, _)| key).chain(&self.deletes)
    }
}

impl From<Entry> for Change {
    fn from(entry: Entry) -> Self {
        let puts = entry.puts.into_iter().map(|(key, value)| (key.into(), value)).collect();
        let deletes = entry.deletes.into_iter().map(Bytes::from).collect();
        Self { version: entry.version, puts, deletes }
    }
}

/// What a look here came to.
#[derive(Debug)]
pub(super) struct Look {
    /// The newest commit at that moment: the answer is at least as new.
    pub(super) at: Version,
    /// What is known, in the order asked for; `None`: SlateDB must be asked.
    pub(super) found: Vec<Option<Option<Versioned>>>,
}

impl Look {
    /// The places whose keys are not known.
    pub(super) fn unknown(&self) -> impl Iterator<Item = usize> {
        self.found.iter().enumerate().filter(|(_, found)| found.is_none()).map(|(at, _)| at)
    }
}

#[derive(Debug, Default)]
pub(super) struct Recent {
    rows: HashMap<Bytes, Row>,
    /// Keys of rows that commits put or removed, in order, for scans.
    committed: BTreeSet<Bytes>,
    /// Commits that are here, oldest first; the first `fed` of them are in SlateDB.
    commits: VecDeque<Arc<Change>>,
    fed: usize,
    fed_bytes: usize,
    unfed_bytes: usize,
    /// Keys of rows that were looked up, in that order, with what each takes; a commit may have taken one over since.
    looked_up: VecDeque<(Bytes, usize)>,
    /// What these take together, and may take.
    looked_up_bytes: usize,
    looked_up_max: usize,
    applied: Version,
    evicted: Version,
}

impl Recent {
    /// Nothing yet, over a database that holds all commits up to `version`. Of rows of which no commit
    /// is kept it keeps so many bytes.
    pub(super) fn over(version: Version, looked_up_max: usize) -> Self {
        Self { applied: version, evicted: version, looked_up_max, ..Self::default() }
    }

    /// The newest commit.
    pub(super) fn applied(&self) -> Version {
        self.applied
    }

    /// Bytes that SlateDB does not have yet.
    pub(super) fn unfed_bytes(&self) -> usize {
        self.unfed_bytes
    }

    /// Looks for `keys`.
    pub(super) fn look(&self, keys: &[Key]) -> Look {
        let find = |key: &Key| self.rows.get(&key[..]).map(Row::versioned);
        Look { at: self.applied, found: keys.iter().map(find).collect() }
    }

    /// The present values of `keys`, of which SlateDB told `have` to somebody who looked here
    /// `at` that commit; `None` if too much happened since to be sure.
    pub(super) fn settle(
        &self,
        at: Version,
        keys: &[Key],
        have: Vec<Option<Versioned>>,
    ) -> Option<Vec<Option<Versioned>>> {
        if self.applied == at {
            return Some(have);
        }
        if self.evicted > at {
            return None;
        }
        let newest = |(key, have): (&Key, Option<Versioned>)| match self.rows.get(&key[..]) {
            Some(row) => row.versioned(),
            None => have,
        };
        Some(keys.iter().zip(have).map(newest).collect())
    }

    /// Keeps what SlateDB told to somebody who looked here `at` that commit.
    pub(super) fn keep(&mut self, at: Version, key: &Key, have: Option<&Versioned>) {
        let long = have.is_some_and(|have| have.value.len() > LOOKED_UP_BYTES);
        if long || self.evicted > at || self.rows.contains_key(&key[..]) {
            return;
        }
        let key = Bytes::copy_from_slice(key);
        let (version, value) = match have {
            // A copy: the value itself keeps its whole block in memory.
            Some(have) => (have.version, Some(Bytes::copy_from_slice(&have.value))),
            None => (0, None),
        };
        let bytes = value.as_ref().map_or(0, Bytes::len);
        self.rows.insert(key.clone(), Row { version, value, looked_up: true });
        self.remember(key, bytes);
    }

    /// A row, with a value of so many bytes, is as one that was looked up from now on. Lets go of those
    /// that were first.
    fn remember(&mut self, key: Bytes, value_bytes: usize) {
        let bytes = LOOKED_UP_ROW_BYTES + key.len() + value_bytes;
        self.looked_up_bytes += bytes;
        self.looked_up.push_back((key, bytes));
        while self.looked_up_bytes > self.looked_up_max
            && let Some((key, bytes)) = self.looked_up.pop_front()
        {
            self.looked_up_bytes -= bytes;
            if self.rows.get(&key).is_some_and(|row| row.looked_up) {
                self.rows.remove(&key);
            }
        }
    }

    /// Takes a commit up; it is visible from now on.
    pub(super) fn apply(&mut self, change: Change) {
        let version = change.version;
        let row = |value| Row { version, value, looked_up: false };
        let puts = change.puts.iter().map(|(key, value)| (key, row(Some(value.clone()))));
        for (key, row) in puts.chain(change.deletes.iter().map(|key| (key, row(None)))) {
            let before = self.rows.insert(key.clone(), row);
            if before.is_none_or(|row| row.looked_up) {
                self.committed.insert(key.clone());
            }
        }
        self.applied = version;
        self.unfed_bytes += change.bytes();
        self.commits.push_back(Arc::new(change));
    }

    /// The oldest commit that SlateDB does not have.
    pub(super) fn unfed(&self) -> Option<Arc<Change>> {
        self.commits.get(self.fed).cloned()
    }

    /// SlateDB has the oldest one that it did not have. Lets go of what was kept longest.
    pub(super) fn fed(&mut self) {
        let Some(change) = self.commits.get(self.fed) else { return };
        let bytes = change.bytes();
        self.fed += 1;
        self.fed_bytes += bytes;
        self.unfed_bytes -= bytes;
        while self.fed > KEPT_COMMITS || self.fed_bytes > KEPT_BYTES {
            self.evict();
        }
    }

    fn evict(&mut self) {
        let Some(change) = self.commits.pop_front() else { return };
        for key in change.keys() {
            let Some(row) = self.rows.get_mut(key) else { continue };
            if row.version != change.version || row.looked_up {
                continue;
            }
            self.committed.remove(key);
            let bytes = row.value.as_ref().map_or(0, Bytes::len);
            if bytes > LOOKED_UP_BYTES {
                self.rows.remove(key);
            } else {
                // SlateDB would tell the same.
                row.looked_up = true;
                self.remember(key.clone(), bytes);
            }
        }
        self.fed -= 1;
        self.fed_bytes -= change.bytes();
        self.evicted = change.version;
    }

    /// What a scan has to lay over SlateDB's rows: in key order from `after` on, up to `limit`
    /// values and the removals among them.
    pub(super) fn range(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Vec<(Bytes, Row)> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let mut values = 0;
        let from_start = self.committed.range::<[u8], _>((start, Bound::Unbounded));
        let with_prefix = from_start.take_while(|key| key.starts_with(prefix));
        let rows = with_prefix.filter_map(|key| Some((key, self.rows.get(key)?)));
        let wanted = rows.take_while(|(_, row)| {
            values += usize::from(row.value.is_some());
            values <= limit
        });
        wanted.map(|(key, row)| (key.clone(), row.clone())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rows that are kept, with keys of three letters and no values, and what they take.
    const LOOKED_UP: usize = 16;
    const BYTES: usize = LOOKED_UP * (LOOKED_UP_ROW_BYTES + 3);

    fn change(version: Version, puts: &[(&'static str, &'static str)], gone: &[&str]) -> Change {
        let puts = puts.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect();
        let deletes = gone.iter().map(|key| Bytes::copy_from_slice(key.as_bytes())).collect();
        Change { version, puts, deletes }
    }

    fn keys(names: &[&str]) -> Vec<Key> {
        names.iter().map(|name| name.as_bytes().to_vec()).collect()
    }

    fn at(version: Version, value: &'static str) -> Option<Versioned> {
        Some(Versioned { version, value: value.into() })
    }

    #[test]
    fn what_was_committed_is_known_until_slate_has_it_and_much_else_came() {
        let mut recent = Recent::over(7, BYTES);
        recent.apply(change(8, &[("a", "1"), ("b", "1")], &[]));
        recent.apply(change(9, &[("a", "2")], &["b"]));
        let look = recent.look(&keys(&["a", "b", "c"]));
        assert_eq!((look.at, look.unknown().collect::<Vec<_>>()), (9, vec![2]));
        assert_eq!(look.found, [Some(at(9, "2")), Some(None), None]);
        for version in 10..10 + 2 * KEPT_COMMITS as u64 {
            recent.apply(change(version, &[("x", "1")], &[]));
        }
        assert_eq!(recent.look(&keys(&["a"])).found, [Some(at(9, "2"))], "not fed");
        let newest = recent.applied();
        while recent.unfed().is_some() {
            recent.fed();
        }
        assert_eq!((recent.unfed_bytes(), recent.fed), (0, KEPT_COMMITS));
        assert_eq!(recent.evicted, newest - KEPT_COMMITS as u64);
        assert!(!recent.committed.contains(&b"a"[..]), "a scan finds it in SlateDB");
        let found = recent.look(&keys(&["a", "b", "x"])).found;
        assert_eq!(found, [Some(at(9, "2")), Some(None), Some(at(newest, "1"))]);
        for n in 0..LOOKED_UP {
            recent.keep(newest, &format!("k{n}").into_bytes(), None);
        }
        assert_eq!(recent.look(&keys(&["a", "x"])).found, [None, Some(at(newest, "1"))]);
        assert_eq!(recent.rows.len(), LOOKED_UP + 1);
    }

    #[test]
    fn large_commits_are_let_go_by_their_bytes() {
        let mut recent = Recent::over(0, BYTES);
        for version in 1..=40 {
            let puts = vec![("large".into(), Bytes::from(vec![0; 1 << 20]))];
            recent.apply(Change { version, puts, deletes: Vec::new() });
            recent.fed();
        }
        assert!((1..=8).contains(&recent.fed), "{}", recent.fed);
        assert!(recent.fed_bytes <= KEPT_BYTES);
    }

    #[test]
    fn an_answer_of_slate_counts_only_if_no_commit_can_have_come_between() {
        let mut recent = Recent::over(5, BYTES);
        let asked = recent.look(&keys(&["a", "b"])).at;
        recent.apply(change(6, &[("a", "new")], &[]));
        let told = vec![at(3, "old"), at(4, "old")];
        let settled = recent.settle(asked, &keys(&["a", "b"]), told.clone());
        assert_eq!(settled, Some(vec![at(6, "new"), at(4, "old")]));
        recent.evicted = 6;
        assert_eq!(recent.settle(asked, &keys(&["a", "b"]), told), None);
        recent.keep(asked, &b"b".to_vec(), at(4, "old").as_ref());
        assert_eq!(recent.look(&keys(&["b"])).found, [None], "too late to keep");
    }

    #[test]
    fn what_was_looked_up_is_kept_until_a_commit_or_others_replace_it() {
        let mut recent = Recent::over(5, BYTES);
        recent.keep(5, &b"a".to_vec(), at(2, "1").as_ref());
        recent.keep(5, &b"none".to_vec(), None);
        assert_eq!(recent.look(&keys(&["a", "none"])).found, [Some(at(2, "1")), Some(None)]);
        recent.apply(change(6, &[("a", "2"), ("none", "1")], &[]));
        assert_eq!(recent.look(&keys(&["a", "none"])).found, [Some(at(6, "2")), Some(at(6, "1"))]);
        for n in 0..2 * LOOKED_UP {
            recent.keep(6, &format!("k{n}").into_bytes(), None);
        }
        assert_eq!(recent.looked_up.len(), LOOKED_UP);
        assert_eq!(recent.rows.len(), LOOKED_UP + 2, "commits stay");
        assert_eq!(recent.look(&keys(&["k0", "a"])).found, [None, Some(at(6, "2"))]);
    }

    #[test]
    fn rows_with_long_values_are_fewer() {
        let mut recent = Recent::over(0, 10 * LOOKED_UP_BYTES);
        let long = Some(Versioned { version: 1, value: vec![0; LOOKED_UP_BYTES].into() });
        for n in 0..100 {
            recent.keep(1, &format!("k{n}").into_bytes(), long.as_ref());
        }
        assert!((8..10).contains(&recent.rows.len()), "{}", recent.rows.len());
        assert!(recent.looked_up_bytes <= 10 * LOOKED_UP_BYTES);
        assert_eq!(recent.rows.len(), recent.looked_up.len());
    }

    #[test]
    fn a_range_is_cut_at_the_limit_and_keeps_removals() {
        let mut recent = Recent::over(0, BYTES);
        recent.apply(change(1, &[("d/1", "1"), ("d/2", "1"), ("d/4", "1"), ("e", "1")], &["d/3"]));
        let names = |prefix: &str, after: Option<&str>, limit| {
            let found = recent.range(prefix.as_bytes(), after.map(str::as_bytes), limit);
            let name = |(key, row): (Bytes, Row)| {
                let sign = if row.value.is_some() { "" } else { "-" };
                format!("{sign}{}", key.escape_ascii())
            };
            found.into_iter().map(name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(names("d/", None, 9), "d/1 d/2 -d/3 d/4");
        assert_eq!(names("d/", None, 2), "d/1 d/2 -d/3");
        assert_eq!(names("d/", Some("d/1"), 1), "d/2 -d/3");
        assert_eq!(names("d/", Some("d/4"), 9), "");
        assert_eq!(names("", None, 9), "d/1 d/2 -d/3 d/4 e");
    }
}
