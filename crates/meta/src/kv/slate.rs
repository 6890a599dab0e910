//! The default engine: SlateDB in the volume's own bucket. Nothing else to run, back up or lose.
//!
//! Commits flow in and are decided one after the other: checks are read, adds resolved, the result
//! noted in the redo log and then given to SlateDB, which holds it in memory and flushes its own
//! log object to the bucket every `meta_flush_ms`, or when somebody syncs. What must always hold:
//!
//! - A commit's version is its SlateDB sequence number; versions have no gaps.
//! - The redo log holds every commit that a reader can see, in order, each exactly once.
//! - One writer: opening a second one fences the first, which then can flush nothing more.
//! - A bucket that is away stops nothing for good: SlateDB retries without end, callers are bounded
//!   by their own timeout, and a later sync succeeds when the bucket is back.
//!
//! What it costs, at the prices of S3 Standard in us-east-1: a writable mount that does nothing makes
//! 3,000 GETs and 24 LISTs an hour with the default `poll_ms`, about $1 a month, in inverse
//! proportion to it; a follower makes 18,000 GETs and HEADs an hour with its default, about $5.
//! Every flush is one PUT. Level-0 tables, compaction and collection add a few requests for each
//! 32 MiB of changes.

mod error;
mod options;
mod read;
mod reader;
#[cfg(test)]
mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::config::WriteOptions;
use slatedb::db_cache::DbCache;
use slatedb::db_cache::moka::{MokaCache, MokaCacheOptions};
use slatedb::{Db, DbStatus, WriteBatch};
use tokio::sync::{Mutex, OwnedMutexGuard, watch};
use weir_types::{ErrorKind, FsError, Result};

use super::apply::{changes_nothing, check_replay, keys_read, resolve, validate};
use super::entry::Entry;
use super::{Commit, CommitLog, Key, Kv, Outcome, Version, Versioned};
use error::from_slate;
use read::bounded;

pub use options::{SlateOptions, SlateReaderOptions};
pub use reader::SlateReader;

/// A [`Kv`] in SlateDB: the one writer of its database.
pub struct SlateKv {
    shared: Arc<Shared>,
    /// Held by whoever decides and applies a commit.
    writer: Arc<Mutex<Writer>>,
    /// Held by whoever flushes; those who wait for it are served by the next flush.
    flush: Mutex<()>,
    status: watch::Receiver<DbStatus>,
    timeout: Duration,
}

/// What an applying task needs when its caller has gone.
struct Shared {
    db: Db,
    log: Option<Arc<dyn CommitLog>>,
    /// Version of the newest commit.
    applied: AtomicU64,
}

/// Who may write.
#[derive(Default)]
struct Writer {
    /// Set when the redo log and SlateDB may no longer agree; no commit is taken after that.
    failed: Option<FsError>,
}

impl SlateKv {
    /// Opens the database at `path` of `store`, and fences every other writer of it.
    ///
    /// Costs about ten requests, and a GET or two for each log object that is not in a table yet,
    /// 128 at a time: none after a close, at most 4,096 objects after a crash. `NotFound` if there is no database and
    /// `options.create` is not set; `Retry` if the bucket does not answer in time.
    pub async fn open(
        store: Arc<dyn ObjectStore>,
        path: impl Into<Path>,
        options: SlateOptions,
        log: Option<Arc<dyn CommitLog>>,
    ) -> Result<SlateKv> {
        let problems = options.problems();
        if !problems.is_empty() {
            return Err(FsError::new(ErrorKind::Invalid, problems.join("; ")));
        }
        let path = path.into();
        let timeout = options.timeout();
        let open = async {
            if !options.create {
                require(&store, &path).await?;
            }
            Db::builder(path.clone(), Arc::clone(&store))
                .with_settings(options.settings())
                .with_db_cache(block_cache(options.cache_bytes), 0)
                .with_sst_block_size(options::BLOCK_SIZE)
                .build()
                .await
                .map_err(|error| from_slate("open the metadata", error))
        };
        let db = bounded(timeout, "open the metadata", open).await?;
        let status = db.subscribe();
        let applied = AtomicU64::new(status.borrow().durable_seq);
        Ok(SlateKv {
            shared: Arc::new(Shared { db, log, applied }),
            writer: Arc::default(),
            flush: Mutex::new(()),
            status,
            timeout,
        })
    }

    /// Applies an entry of a redo log, with the version it had; `false` when it is there already.
    /// To be called for each entry in order, before any commit. A gap between the database and the
    /// entry, or bytes that are no entry, is `Corrupt`. It is durable after the next sync.
    pub async fn replay(&self, version: Version, entry: &[u8]) -> Result<bool> {
        let entry = Entry::decode(version, entry)?;
        let writer = self.writer().await?;
        if !check_replay(self.applied(), version)? {
            return Ok(false);
        }
        self.apply(writer, entry, None).await?;
        Ok(true)
    }

    /// The newest commit: durable, or applied and on its way.
    pub fn applied(&self) -> Version {
        self.shared.applied.load(Ordering::Acquire)
    }

    async fn writer(&self) -> Result<OwnedMutexGuard<Writer>> {
        let writer = Arc::clone(&self.writer).lock_owned().await;
        match &writer.failed {
            Some(error) => Err(error.share()),
            None => Ok(writer),
        }
    }

    /// Applies an entry in a task of its own: once begun it runs to its end, whatever becomes of
    /// the caller, or the log and the database would part.
    async fn apply(
        &self,
        mut writer: OwnedMutexGuard<Writer>,
        entry: Entry,
        log: Option<Arc<dyn CommitLog>>,
    ) -> Result<()> {
        let shared = Arc::clone(&self.shared);
        let task = tokio::spawn(async move {
            if let Some(log) = log {
                // Before the write: a log that fails has changed nothing, and what readers see is
                // always in the log.
                log.append(entry.version, &entry.encode()?)?;
            }
            shared.write(entry).await.inspect_err(|error| writer.failed = Some(error.share()))
        });
        task.await.unwrap_or_else(|error| {
            let context = "a metadata commit was cut off; mount anew and report this";
            Err(FsError::new(ErrorKind::Bug, context).with_source(error))
        })
    }

    async fn flush_shared(&self) -> Result<()> {
        let target = self.applied();
        if self.durable() >= target {
            return self.alive();
        }
        let _turn = self.flush.lock().await;
        if self.durable() >= target {
            return self.alive();
        }
        self.shared.db.flush().await.map_err(|error| from_slate("make metadata durable", error))
    }

    /// An error if SlateDB has ended: a sync with nothing to do must not hide it.
    fn alive(&self) -> Result<()> {
        match self.status.borrow().close_reason {
            None => Ok(()),
            Some(reason) => {
                let error = slatedb::Error::closed("the database is closed".to_owned(), reason);
                Err(from_slate("make metadata durable", error))
            }
        }
    }
}

impl Shared {
    async fn write(&self, entry: Entry) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in entry.puts {
            batch.put_bytes(key.into(), value);
        }
        for key in entry.deletes {
            batch.delete(key);
        }
        let options = WriteOptions { seqnum: entry.version };
        let written = self.db.write_with_options(batch, &options).await;
        written.map_err(|error| from_slate("change metadata", error))?;
        self.applied.store(entry.version, Ordering::Release);
        Ok(())
    }
}

#[async_trait]
impl Kv for SlateKv {
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        bounded(self.timeout, "read metadata", read::get_many(&self.shared.db, keys)).await
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        let scan = read::scan(&self.shared.db, prefix, after, limit);
        bounded(self.timeout, "scan metadata", scan).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        validate(&commit)?;
        let keys = keys_read(&commit);
        let writer = self.writer().await?;
        let have = self.get_many(&keys).await?;
        let newest = self.applied();
        let checks_only = changes_nothing(&commit);
        let Some(entry) = resolve(commit, newest + 1, &have)? else {
            return Ok(Outcome::Conflict);
        };
        if checks_only {
            return Ok(Outcome::Applied(newest));
        }
        let version = entry.version;
        self.apply(writer, entry, self.shared.log.clone()).await?;
        Ok(Outcome::Applied(version))
    }

    async fn sync(&self) -> Result<()> {
        bounded(self.timeout, "make metadata durable", self.flush_shared()).await
    }

    fn durable(&self) -> Version {
        self.status.borrow().durable_seq
    }

    async fn close(&self) -> Result<()> {
        // First, because it may be repeated when the bucket is away; SlateDB's close may not.
        self.sync().await?;
        let close = async {
            let closed = self.shared.db.close().await;
            closed.map_err(|error| from_slate("close the metadata", error))
        };
        bounded(self.timeout, "close the metadata", close).await
    }
}

fn block_cache(bytes: u64) -> Arc<dyn DbCache> {
    let options = MokaCacheOptions { max_capacity: bytes, ..MokaCacheOptions::default() };
    Arc::new(MokaCache::new_with_opts(options))
}

/// `NotFound` if no database lies at `path`. One LIST.
async fn require(store: &Arc<dyn ObjectStore>, path: &Path) -> Result<()> {
    let manifests = path.clone().join("manifest");
    match store.list(Some(&manifests)).next().await {
        Some(Ok(_)) => Ok(()),
        Some(Err(error)) => {
            let context = format!("cannot open the metadata at {path}: {error}");
            Err(FsError::new(ErrorKind::Retry, context).with_source(error))
        }
        None => {
            let context = format!("no metadata at {path}: the volume was not made, or elsewhere");
            Err(FsError::new(ErrorKind::NotFound, context))
        }
    }
}
