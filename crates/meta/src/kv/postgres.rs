//! The engine for many nodes: a PostgreSQL database, or any server that speaks its protocol.
//!
//! A volume's tables are in a schema of their own (docs/format.md, "Metadata in PostgreSQL"), so that
//! a database holds several, each made, granted, dumped and dropped alone. The server must have
//! transactions, `FOR UPDATE`, arrays, lateral joins and `ON CONFLICT`; nothing else is asked of it:
//! no triggers, sequences, notifications or procedures.
//!
//! **A commit is one transaction in one round trip.** Its statements are sent together; one whose
//! check does not hold divides by zero, which ends the transaction at the server:
//!
//! 1. the lane's row is set from its last commit to this one (`lane.rs`);
//! 2. the rows of plain keys that are checked or changed are locked in the order of keys, `FOR
//!    UPDATE` to change and `FOR SHARE` to check, and their versions compared;
//! 3. rows are removed, made where none may be (a second one is a conflict), and set; counters are
//!    added to;
//! 4. what was decided without a lock is decided now: counters, and keys that must be absent and
//!    are not put. A row stands in for the latter meanwhile, so that nobody else makes one;
//! 5. what is done to the keys of 4, and `COMMIT`.
//!
//! **Why it is right.** Rows are locked until the end, so commits that meet at a row are one behind
//! the other, in the order of those locks. 4 reads what is committed at a moment when all locks are
//! held: every commit that must come before this one for the sake of some row has ended by then, and
//! is seen. One that is not seen adds to the counter blindly, and so comes behind. Two commits that
//! each check a counter which the other one adds to, and that meet nowhere else, may both be
//! applied: that is the one thing not promised, and nothing in this crate rests on it.
//!
//! **Counters** have a row for each lane that added to them, and no lane waits for another one's. The
//! value is their sum; so is the version, made odd, while versions of plain values are even: a row's
//! version only rises, so whatever is added changes the sum. A value that was put in the place of a
//! counter becomes a row of it when somebody adds.
//!
//! **What is raised** has a row for each lane, too, with the greatest value that it came with; the value is
//! the greatest of them, the version made as a counter's.
//!
//! **Versions** are times by the server's clock with the lane below them (`clock.rs`): unique, and
//! rising in each node. There is no gapless sequence that many nodes could share without waiting for
//! one another. What a commit's [`Outcome`] names is durable at the server; there is no log of
//! commits here and nothing to sync.
//!
//! **States that are kept** (`epochs.rs`): every row says in which epoch it was last changed, and who changes it
//! in a later one notes it as it was, where a state is kept that has it so. To keep a state is to end the epoch.
//!
//! **Time.** Calls wait for a server up to their limit. A commit that fails with `Retry` was not made,
//! unless its text says that this is not known: it was sent, and no answer came.

mod clock;
mod commits;
mod connect;
mod epochs;
mod error;
mod group;
mod lane;
mod login;
mod node;
mod options;
mod plan;
mod reads;
mod schema;
mod sql;
#[cfg(test)]
mod tests;
mod tls;
mod transaction;
mod url;

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures::FutureExt;
use futures::future::BoxFuture;
use tokio::time::{Instant, sleep, timeout_at};
use weir_types::{ErrorKind, FsError, Result};

use super::apply::{changes_nothing, validate};
use super::contract::{Checkpoints, Commit, Followed, Key, Kv, Outcome, Version, Versioned};
use commits::{Lanes, Shared};
use connect::Place;
use error::Failed;
use node::Node;
use options::KEY_BYTES_MAX;
pub use options::PostgresOptions;
use reads::Readers;
pub use url::{PostgresUrl, Server, SslMode};

/// Time between tries to open while no server answers.
const PAUSE: Duration = Duration::from_millis(200);

/// A [`Kv`] in a PostgreSQL database.
pub struct PostgresKv {
    lanes: Lanes,
    readers: Arc<Readers>,
    timeout: Duration,
    read_only: bool,
}

impl PostgresKv {
    /// Opens the volume's tables. `NotFound` if they are not there and `create` is not set,
    /// `Permission` where the password is wrong or rights are missing, `Unsupported` if a newer
    /// build made them, `Retry` where no server answers in time.
    pub async fn open(options: PostgresOptions) -> Result<Self> {
        check(&options)?;
        let place = Arc::new(Place::new(&options));
        let lanes = (options.connections / 2).max(1);
        let readers = options.connections - lanes;
        let node = Arc::new(Node::new(Arc::clone(&place)));
        let create = options.create && !options.read_only;
        in_time(&options.url, options.timeout(), |until| {
            schema::prepare(&node, create, until).boxed()
        })
        .await?;
        Ok(Self {
            lanes: Lanes::begin(Arc::new(Shared::new(node, lanes, options.group))),
            readers: Arc::new(Readers::new(place, readers, options.timeout())),
            timeout: options.timeout(),
            read_only: options.read_only,
        })
    }

    /// Removes the volume's schema with all that is in it; no error if it is not there. For a volume
    /// that is removed, and for one whose making did not end.
    pub async fn remove(options: &PostgresOptions) -> Result<()> {
        check(options)?;
        let place = Place::new(options);
        in_time(&options.url, options.timeout(), |until| schema::remove(&place, until).boxed())
            .await
    }

    /// From now on each commit that changes something also needs `key` to be of `version`; where it
    /// is not, the commit fails with `Fenced` and changes nothing. `None` takes that away.
    pub fn set_guard(&self, guard: Option<(Key, Version)>) {
        *self.lanes.shared.node.guard.lock() = guard;
    }
}

fn check(options: &PostgresOptions) -> Result<()> {
    let problems = options.problems();
    match problems.is_empty() {
        true => Ok(()),
        false => Err(FsError::new(ErrorKind::Invalid, problems.join("; "))),
    }
}

/// Does it as soon as a server answers, or says why not when the time is over.
async fn in_time<'a, T>(
    url: &PostgresUrl,
    timeout: Duration,
    work: impl Fn(Instant) -> BoxFuture<'a, Result<T, Failed>>,
) -> Result<T> {
    let until = Instant::now() + timeout;
    let mut last = None;
    loop {
        match timeout_at(until, work(until)).await {
            Ok(Ok(done)) => return Ok(done),
            Ok(Err(Failed::Final(error))) => return Err(error),
            Ok(Err(Failed::Again(error) | Failed::Lost(error))) => last = Some(error),
            Err(_) => {
                let context = format!("the metadata's database {url} does not answer");
                return Err(last.unwrap_or_else(|| FsError::new(ErrorKind::Retry, context)));
            }
        }
        // A server that refuses at once is not stopped by the clock.
        if let Some(error) = last.take_if(|_| Instant::now() >= until) {
            return Err(error);
        }
        sleep(PAUSE).await;
    }
}

/// Refuses keys that no index would take.
fn check_keys(commit: &Commit) -> Result<()> {
    let puts = commit.puts.iter().map(|(key, _)| key);
    let adds = commit.adds.iter().map(|(key, _)| key);
    let raises = commit.raises.iter().map(|(key, _)| key);
    match puts.chain(adds).chain(raises).find(|key| key.len() > KEY_BYTES_MAX) {
        None => Ok(()),
        Some(key) => {
            let context = format!(
                "a metadata key of {} bytes: metadata in PostgreSQL has keys of up to \
                 {KEY_BYTES_MAX}",
                key.len()
            );
            Err(FsError::new(ErrorKind::Invalid, context))
        }
    }
}

#[async_trait]
impl Kv for PostgresKv {
    fn checkpoints(&self) -> Option<&dyn Checkpoints> {
        Some(self)
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        self.readers.get_many(None, keys).await
    }

    fn is_far(&self) -> bool {
        true
    }

    async fn follow(&self, key: &Key, tags: &[u8]) -> Result<Followed> {
        self.readers.follow(None, key, tags).await
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        self.readers.scan(None, prefix, after, limit).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        validate(&commit)?;
        check_keys(&commit)?;
        if commit.checks.is_empty() && changes_nothing(&commit) {
            return Ok(Outcome::Applied(self.lanes.shared.node.versions.newest()));
        }
        if self.read_only && !changes_nothing(&commit) {
            let text = "the metadata was opened to be read only";
            return Err(FsError::new(ErrorKind::ReadOnly, text));
        }
        self.lanes.shared.commit(commit, self.timeout).await
    }

    async fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn durable(&self) -> Version {
        self.lanes.shared.node.versions.newest()
    }

    async fn close(&self) -> Result<()> {
        self.lanes.close().await;
        self.readers.close().await;
        Ok(())
    }
}
