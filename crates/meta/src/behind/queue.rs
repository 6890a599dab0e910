//! Commits that wait, in order.

use std::collections::VecDeque;

use super::batch::{Batch, key_of, provisional};
use crate::kv::{Commit, Key, Version};

/// Rows and bytes at which no more may wait.
const ROWS_MAX: usize = 20_000;
const BYTES_MAX: usize = 16 << 20;

#[derive(Default)]
pub(super) struct Queue {
    batches: VecDeque<Batch>,
    /// The number of the last one that came.
    pub(super) last: u64,
    /// And of the last one that is in the database.
    settled: u64,
    /// Tries to send that failed.
    pub(super) failures: u64,
    /// Bytes that were noted when the log was emptied last.
    pub(super) cleared: u64,
}

/// Some of them that are sent.
pub(super) struct Taken {
    pub(super) commit: Commit,
    /// What is put, and under which versions.
    pub(super) put: Vec<(Key, Version)>,
    pub(super) last: u64,
    /// They were sent before.
    pub(super) tried: bool,
}

impl Queue {
    pub(super) fn has_room(&self) -> bool {
        let rows: usize = self.batches.iter().map(Batch::rows).sum();
        let bytes: usize = self.batches.iter().map(Batch::bytes).sum();
        rows < ROWS_MAX && bytes < BYTES_MAX
    }

    /// Takes in the next one; answers the version of its values.
    pub(super) fn push(&mut self, commit: &Commit) -> Version {
        self.last += 1;
        let is_open = |batch: &&mut Batch| !batch.tried && !batch.is_full();
        match self.batches.back_mut().filter(is_open) {
            Some(batch) => batch.join(self.last, commit),
            None => {
                let mut batch = Batch::of(self.last);
                batch.join(self.last, commit);
                self.batches.push_back(batch);
            }
        }
        provisional(self.last)
    }

    pub(super) fn waiting(&self) -> u64 {
        self.last - self.settled
    }

    /// The number of the last one that is in the database.
    pub(super) fn settled(&self) -> u64 {
        self.settled
    }

    /// Whether this one is there.
    pub(super) fn is_settled(&self, number: u64) -> bool {
        self.settled >= number
    }

    /// The first of those that wait, if they are up to a number.
    pub(super) fn take(&mut self, upto: u64) -> Option<Taken> {
        let batch = self.batches.front_mut().filter(|batch| batch.first <= upto)?;
        let tried = std::mem::replace(&mut batch.tried, true);
        Some(Taken { commit: batch.commit(), put: batch.put(), last: batch.last, tried })
    }

    /// Those up to this one are in the database.
    pub(super) fn settle(&mut self, last: u64) {
        self.batches.retain(|batch| batch.last > last);
        self.settled = last;
    }

    /// The last that changes one of these keys.
    pub(super) fn has_any(&self, keys: &[Key]) -> Option<u64> {
        self.last_that(|batch| keys.iter().any(|key| batch.changes(key)))
    }

    /// The last that changes a key that begins so.
    pub(super) fn has_below(&self, prefix: &[u8]) -> Option<u64> {
        self.last_that(|batch| batch.changes_below(prefix))
    }

    /// The last that a commit may not come before: it rests on what that changes, or changes what that rests on.
    pub(super) fn meets(&self, commit: &Commit) -> Option<u64> {
        self.last_that(|batch| {
            let puts = commit.puts.iter().map(|(key, _)| key);
            let mut set = puts.chain(&commit.deletes);
            let mut checks = commit.checks.iter().map(key_of);
            let adds = commit.adds.iter().map(|(key, _)| key);
            let mut loose = commit.raises.iter().map(|(key, _)| key).chain(adds);
            checks.any(|key| batch.changes(key))
                || set.any(|key| batch.changes(key) || batch.checks(key))
                || loose.any(|key| batch.puts(key) || batch.checks(key))
        })
    }

    fn last_that(&self, is: impl Fn(&Batch) -> bool) -> Option<u64> {
        self.batches.iter().rev().find(|batch| is(batch)).map(|batch| batch.last)
    }
}
