//! The engine for tests: a sorted map in memory, gone with the process.
//!
//! It obeys the whole contract, redo log and replay included, so that what stands on a [`Kv`] can
//! be tested without a bucket. Every commit counts as durable at once.

use std::collections::BTreeMap;
use std::ops::Bound;
use std::sync::Arc;

use async_trait::async_trait;
use parking_lot::{Mutex, MutexGuard};
use weir_types::{ErrorKind, FsError, Result};

use super::apply::{changes_nothing, check_replay, keys_read, resolve, validate};
use super::contract::{
    CheckpointId, Checkpoints, Commit, CommitLog, Key, Kv, Outcome, Version, Versioned,
};
use super::entry::Entry;

/// A [`Kv`] in memory.
#[derive(Default)]
pub struct MemoryKv {
    state: Mutex<MemoryState>,
    kept: Mutex<Vec<(String, MemoryState)>>,
    log: Option<Arc<dyn CommitLog>>,
}

#[derive(Clone, Default)]
struct MemoryState {
    version: Version,
    map: BTreeMap<Key, Versioned>,
}

impl MemoryKv {
    /// An empty map.
    pub fn new() -> Self {
        Self::default()
    }

    /// An empty map that notes its commits in `log`.
    pub fn with_log(log: Arc<dyn CommitLog>) -> Self {
        Self { log: Some(log), ..Self::default() }
    }

    /// Applies an entry of a redo log; `false` when the map holds it already. A gap between the
    /// map and the entry, or bytes that are no entry, is `Corrupt`.
    pub async fn replay(&self, version: Version, entry: &[u8]) -> Result<bool> {
        let entry = Entry::decode(version, entry)?;
        let mut state = self.state();
        if !check_replay(state.version, version)? {
            return Ok(false);
        }
        state.apply(entry);
        Ok(true)
    }

    fn state(&self) -> MutexGuard<'_, MemoryState> {
        // A panic cannot leave the map half changed: apply cannot fail.
        self.state.lock()
    }
}

impl MemoryState {
    fn apply(&mut self, entry: Entry) {
        let version = entry.version;
        self.version = version;
        for (key, value) in entry.puts {
            self.map.insert(key, Versioned { version, value });
        }
        for key in entry.deletes {
            self.map.remove(&key);
        }
    }
}

/// A state is named by its place among all that ever were kept; of those let go the name is empty.
#[async_trait]
impl Checkpoints for MemoryKv {
    async fn keep(&self, name: &str) -> Result<CheckpointId> {
        let state = self.state().clone();
        let mut kept = self.kept.lock();
        kept.push((name.to_owned(), state));
        Ok(CheckpointId(kept.len() as u128 - 1))
    }

    async fn kept(&self) -> Result<Vec<(CheckpointId, String)>> {
        let kept = self.kept.lock();
        let named = (0..).zip(kept.iter()).filter(|(_, (name, _))| !name.is_empty());
        Ok(named.map(|(at, (name, _))| (CheckpointId(at), name.clone())).collect())
    }

    async fn release(&self, id: CheckpointId) -> Result<()> {
        if let Some(kept) = self.kept.lock().get_mut(id.0 as usize) {
            *kept = Default::default();
        }
        Ok(())
    }

    async fn at(&self, id: CheckpointId) -> Result<Arc<dyn Kv>> {
        let kept = self.kept.lock();
        let found = kept.get(id.0 as usize).filter(|(name, _)| !name.is_empty());
        let Some((_, state)) = found else {
            return Err(FsError::new(ErrorKind::NotFound, "this state is not kept"));
        };
        Ok(Arc::new(Self { state: Mutex::new(state.clone()), ..Self::default() }))
    }
}

#[async_trait]
impl Kv for MemoryKv {
    fn checkpoints(&self) -> Option<&dyn Checkpoints> {
        Some(self)
    }

    /// Only holds who says so to it.
    fn expect_absent(&self, key: &Key, never_had: &dyn Fn() -> bool) {
        let state = self.state();
        let wrong = state.map.contains_key(key) && never_had();
        debug_assert!(!wrong, "{} is there", key.escape_ascii());
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        let state = self.state();
        Ok(keys.iter().map(|key| state.map.get(key).cloned()).collect())
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        let start = match after {
            Some(after) if after >= prefix => Bound::Excluded(after),
            _ => Bound::Included(prefix),
        };
        let state = self.state();
        let from_start = state.map.range::<[u8], _>((start, Bound::Unbounded));
        let with_prefix = from_start.take_while(|(key, _)| key.starts_with(prefix));
        Ok(with_prefix.take(limit).map(|(key, value)| (key.clone(), value.clone())).collect())
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        validate(&commit)?;
        let mut state = self.state();
        let have: Vec<_> =
            keys_read(&commit).iter().map(|key| state.map.get(key).cloned()).collect();
        let checks_only = changes_nothing(&commit);
        let Some(entry) = resolve(commit, state.version + 1, &have)? else {
            return Ok(Outcome::Conflict);
        };
        if checks_only {
            return Ok(Outcome::Applied(state.version));
        }
        if let Some(log) = &self.log {
            log.append(entry.version, &entry.encode()?)?;
        }
        let version = entry.version;
        state.apply(entry);
        Ok(Outcome::Applied(version))
    }

    async fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn durable(&self) -> Version {
        self.state().version
    }

    async fn close(&self) -> Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::super::conformance::{Engine, conformance};
    use super::*;

    struct Memory;

    #[async_trait]
    impl Engine for Memory {
        type Kv = MemoryKv;

        async fn fresh(log: Option<Arc<dyn CommitLog>>) -> (Self, MemoryKv) {
            (Memory, MemoryKv { log, ..MemoryKv::default() })
        }

        async fn killed(&self) -> MemoryKv {
            MemoryKv::new()
        }

        async fn replay(kv: &MemoryKv, version: Version, entry: &[u8]) -> Result<bool> {
            kv.replay(version, entry).await
        }
    }

    conformance!(Memory, with_checkpoints);
}
