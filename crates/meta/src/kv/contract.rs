//! What a key-value engine promises: keys, commits, and what reads and commits answer.

use std::borrow::Cow;
use std::sync::Arc;

use async_trait::async_trait;
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_types::Result;

use super::comers::Coming;
use super::follow::leads_to;

/// Most bytes of keys and values that one commit may change: a redo log must be able to hold it as
/// one entry. What has more to change makes several commits of it.
pub const COMMIT_BYTES_MAX: usize = 32 << 20;

/// A key. Keys sort as bytes.
pub type Key = Vec<u8>;

/// The version of a value: a number that only the commit has that put it; never 0. Those of later
/// commits of one process are greater. An engine with one writer counts its commits from 1, which is
/// what its redo log is ordered by; one with many writers cannot, and has gaps. The version of a counter,
/// and of what is raised, is another one after each add or raise, and there need be no commit of that
/// number.
pub type Version = u64;

/// A value and its version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Versioned {
    /// Which commit put it.
    pub version: Version,
    /// The value.
    pub value: Bytes,
}

/// What a value was, and what is at the keys that it leads to, all of them as of one moment where the
/// engine can tell such.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Followed {
    /// The value that was followed; `None` if it is absent.
    pub from: Option<Versioned>,
    /// For each tag what is at its key, in their order; `None` for those absent, and all `None` where
    /// the value leads nowhere.
    pub to: Vec<Option<Versioned>>,
}

/// What must be true of a key for a commit to be applied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Check {
    /// The key has no value.
    Absent(Key),
    /// The key has a value, put by this very commit; of a counter, or what is raised: nothing was
    /// added, or raised, since it had this version.
    Version(Key, Version),
}

/// A set of changes that is applied whole or not at all.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Commit {
    /// All must hold.
    pub checks: Vec<Check>,
    /// Values to set.
    pub puts: Vec<(Key, Bytes)>,
    /// Keys to remove; those that are absent already are no error.
    pub deletes: Vec<Key>,
    /// Counters to add to. A counter is a key whose value is an i64 in 8 bytes, little endian;
    /// absent means 0. Adds need no check and so never conflict.
    pub adds: Vec<(Key, i64)>,
    /// Values to raise: of what a key has and this, the greater one stays, as bytes compare. As with
    /// counters, none needs a check or waits for another, and each changes the version.
    pub raises: Vec<(Key, Bytes)>,
}

/// What became of a commit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// It is applied and visible to every later read of this Kv; durable after [`Kv::sync`].
    Applied(Version),
    /// A check did not hold; nothing changed.
    Conflict,
}

/// An ordered map with checked, atomic commits.
#[async_trait]
pub trait Kv: Send + Sync + 'static {
    /// Whether each commit that can be seen is noted in the log or durable. One that a full log did
    /// not take is neither until the next sync; who acknowledges by the log alone must ask.
    fn logged(&self) -> bool {
        true
    }

    /// Spares the engine a search for `key`: it never had a value if `never_had` says so now, where a
    /// commit that puts one is answered for before it can be seen. Nothing need come of it.
    fn expect_absent(&self, _key: &Key, _never_had: &dyn Fn() -> bool) {}

    /// By what `key` has its place among others in a [scan](Kv::scan): itself, where the engine does not hide names.
    fn ordered_by<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        Cow::Borrowed(key)
    }

    /// The values of `keys`, in their order; `None` for those absent.
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>>;

    /// Whether each read is a round trip to a server, however little it asks for: then what may be
    /// needed is asked for along with what is.
    fn is_far(&self) -> bool {
        false
    }

    /// The value of `key`, and what is at the keys that it leads to: those made of one of `tags` each and
    /// of the number behind the value's first byte, in 8 bytes. The number is written in groups of 7 bits,
    /// the lowest first; one that is not below 2^63 leads nowhere. `key` is no
    /// counter. One round trip where the engine
    /// [is far](Kv::is_far), else two reads.
    async fn follow(&self, key: &Key, tags: &[u8]) -> Result<Followed> {
        let from = self.get_many(std::slice::from_ref(key)).await?.pop().flatten();
        let keys = from.as_ref().map_or_else(Vec::new, |from| leads_to(&from.value, tags));
        let mut to = match keys.is_empty() {
            true => Vec::new(),
            false => self.get_many(&keys).await?,
        };
        to.resize(tags.len(), None);
        Ok(Followed { from, to })
    }

    /// Up to `limit` entries whose keys start with `prefix` and are greater than `after` (if
    /// given; a full key, prefix included), in key order, which is that of [`Kv::ordered_by`].
    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>>;

    /// Applies the commit if all its checks hold. One that changes nothing writes nothing, and its
    /// version is that of the newest commit. A key named twice among puts, adds, raises and deletes, an
    /// empty one, or one past what the engine takes (65,535 bytes; 1,100 in PostgreSQL) is `Invalid`;
    /// so is a commit past [`COMMIT_BYTES_MAX`].
    async fn commit(&self, commit: Commit) -> Result<Outcome>;

    /// What keeps states of the whole map for later, where the engine can.
    fn checkpoints(&self) -> Option<&dyn Checkpoints> {
        None
    }

    /// Says that a sync will be asked for as soon as what goes before it is where it should be, which takes about as long
    /// as a request to the bucket; dropped once that is so. Others who sync at that moment may wait a little for it.
    fn sync_comes(&self) -> Coming {
        Coming::default()
    }

    /// Returns when all that was applied before this call is durable in the bucket or server.
    async fn sync(&self) -> Result<()>;

    /// The version of the newest commit of this process that is known to be durable.
    fn durable(&self) -> Version;

    /// Syncs and ends. No call may follow.
    async fn close(&self) -> Result<()>;
}

/// Names a state of a map that is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct CheckpointId(pub u128);

/// Keeps states of a map: what they hold stays readable however the map changes, and costs room only
/// as that changes.
#[async_trait]
pub trait Checkpoints: Send + Sync {
    /// Keeps the map as some prefix of all commits made it, which has at least those that could be
    /// seen before this call. Durable when it returns; after an error it may be kept or not, and
    /// [`kept`](Checkpoints::kept) tells. Two or three PUTs, however large the map is.
    async fn keep(&self, name: &str) -> Result<CheckpointId>;

    /// All states that are kept under a name, with it. One or two GETs.
    async fn kept(&self) -> Result<Vec<(CheckpointId, String)>>;

    /// Lets go of a state; nothing happens if it is not kept. One PUT. Who reads it by then may get
    /// `Corrupt`, but never what is wrong.
    async fn release(&self, id: CheckpointId) -> Result<()>;

    /// A state that is kept, to be read only; `NotFound` if it is not. A few GETs.
    async fn at(&self, id: CheckpointId) -> Result<Arc<dyn Kv>>;
}

/// Where commits are noted on local disk before they are acknowledged: the redo log. It comes from
/// outside, because this room knows nothing of disks.
pub trait CommitLog: Send + Sync + 'static {
    /// Notes one commit, just before readers can see it. Entries arrive in the order of `version`,
    /// without gaps, each exactly once. Blocking, and must return only when the bytes are with the
    /// kernel. On an error nothing of the entry may stay. `NoSpace` says that there is no room for
    /// it: an engine that can make the commit durable elsewhere does so and skips the entry, and
    /// comes back when there is nothing before it that only memory has. Else the commit does not
    /// happen, and the next one has the same version.
    fn append(&self, version: Version, entry: &[u8]) -> Result<()>;
}
