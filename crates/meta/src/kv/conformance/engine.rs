//! Engines under test, and what tests of them share.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use parking_lot::Mutex;
use weir_types::{ErrorKind, FsError, Result};

use crate::kv::{Commit, CommitLog, Key, Kv, Outcome, Version, Versioned};

/// An engine under test, with the storage below it.
#[async_trait]
pub(crate) trait Engine: Send + Sync + Sized + 'static {
    /// What it serves.
    type Kv: Kv;
    /// Whether versions count the commits: 1, 2, 3, those of counters too, and a sum past 8 bytes is
    /// refused when it comes about. Else versions only rise, and it is an error when it is read.
    const COUNTS: bool = true;
    /// Whether commits are noted in a redo log.
    const LOGGED: bool = true;
    /// Longest key that it takes.
    const KEY_BYTES_MAX: usize = 65_535;
    /// An engine over nothing.
    async fn fresh(log: Option<Arc<dyn CommitLog>>) -> (Self, Self::Kv);
    /// An engine over what is left if the process dies at this moment.
    async fn killed(&self) -> Self::Kv;
    /// Applies one entry of a redo log, if it has one.
    async fn replay(kv: &Self::Kv, version: Version, entry: &[u8]) -> Result<bool>;
}

/// A redo log in memory that can be told to fail.
#[derive(Default)]
pub(crate) struct TestLog {
    pub(crate) entries: Mutex<Vec<(Version, Vec<u8>)>>,
    pub(crate) full: AtomicBool,
    pub(crate) broken: AtomicBool,
}

impl CommitLog for TestLog {
    fn append(&self, version: Version, entry: &[u8]) -> Result<()> {
        if self.full.load(Ordering::SeqCst) {
            return Err(FsError::new(ErrorKind::NoSpace, "the disk is full"));
        }
        if self.broken.load(Ordering::SeqCst) {
            return Err(FsError::new(ErrorKind::Retry, "the disk is broken"));
        }
        self.entries.lock().push((version, entry.to_vec()));
        Ok(())
    }
}

impl TestLog {
    pub(crate) fn take(&self) -> Vec<(Version, Vec<u8>)> {
        self.entries.lock().clone()
    }

    /// Asserts that versions start at 1 and have no gaps.
    pub(crate) fn assert_ordered(&self) {
        let versions: Vec<_> = self.take().into_iter().map(|(version, _)| version).collect();
        assert_eq!(versions, (1..=versions.len() as u64).collect::<Vec<_>>());
    }
}

pub(crate) fn key(text: &str) -> Key {
    text.as_bytes().to_vec()
}

pub(crate) fn put(name: &str, value: &str) -> Commit {
    Commit { puts: vec![(key(name), value.to_owned().into())], ..Commit::default() }
}

pub(crate) fn version(outcome: Outcome) -> Version {
    match outcome {
        Outcome::Applied(version) => version,
        Outcome::Conflict => panic!("conflict where none may be"),
    }
}

pub(crate) async fn get(kv: &(impl Kv + ?Sized), name: &str) -> Option<Versioned> {
    kv.get_many(&[key(name)]).await.unwrap().remove(0)
}

pub(crate) async fn count(kv: &impl Kv, name: &str) -> i64 {
    let value = get(kv, name).await.map(|have| have.value);
    value.map_or(0, |value| i64::from_le_bytes(value.as_ref().try_into().unwrap()))
}

pub(crate) async fn dump(kv: &(impl Kv + ?Sized)) -> Vec<(Key, Versioned)> {
    kv.scan(b"", None, usize::MAX).await.unwrap()
}
