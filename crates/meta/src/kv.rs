//! The small key-value contract on which all metadata stands, and its engines.
//!
//! An operation reads (one round), decides, and commits (one round). All it decided upon goes into
//! the commit's checks, so correctness rests on no engine's isolation level: a commit whose checks
//! hold is applied whole, and one whose checks do not hold changes nothing.

mod apply;
mod comers;
#[cfg(test)]
mod conformance;
mod contract;
mod entry;
mod follow;
pub mod memory;
pub mod postgres;
pub mod slate;

pub use comers::Coming;
pub use contract::{
    COMMIT_BYTES_MAX, Check, CheckpointId, Checkpoints, Commit, CommitLog, Followed, Key, Kv,
    Outcome, Version, Versioned,
};
#[cfg(test)]
pub(crate) use entry::encode_for_tests;
pub(crate) use entry::logged;
pub(crate) use follow::leads_to;
pub use memory::MemoryKv;
pub use postgres::{PostgresKv, PostgresOptions, PostgresUrl};
pub use slate::{SlateKv, SlateOptions, SlateReader, SlateReaderOptions};
