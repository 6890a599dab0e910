//! The default engine: SlateDB in the volume's own bucket. Nothing else to run, back up or lose.
//!
//! Commits are decided one after the other: checks are read, adds resolved, the result noted in the
//! redo log and shown to readers (`recent`). That is a commit; it is one step without a wait, so
//! it happens whole or not at all, whatever becomes of the caller. A task brings the commits to
//! SlateDB a few milliseconds later (`feed`), which flushes its own log object to the bucket every
//! `meta_flush_ms`, or when somebody syncs. What must always hold:
//!
//! - A commit's version is its SlateDB sequence number; versions have no gaps.
//! - The redo log holds every commit that a reader can see and that is not durable, in order, each
//!   exactly once; but where its disk is full, a commit returns when it is durable in the bucket, and
//!   none is noted again before all that were not are durable: so the log has no gap.
//! - What a reader sees is what `recent` has, and else what SlateDB has. SlateDB holds a prefix of
//!   the commits, `recent` at least all the others, in bounded memory: when SlateDB takes no more,
//!   commits wait before they begin.
//! - A sync covers what was committed before it: it waits until SlateDB has it, then flushes.
//! - One writer: opening a second one fences the first, which then can flush nothing more. From the
//!   moment SlateDB knows, every read, commit and sync fails.
//! - A bucket that is away stops nothing for good: SlateDB retries without end, every call ends
//!   within `timeout_ms`, and a later one succeeds when the bucket is back.
//!
//! What it costs, at the prices of S3 Standard in us-east-1: a writable mount that does nothing makes
//! 70 GETs and 4 LISTs an hour, $0.04 a month (`polls`); a follower makes 18,000 GETs and HEADs an hour with its default, about $5.
//! Every flush is one PUT. Level-0 tables, compaction and collection add a few requests for each
//! 32 MiB of changes.

mod checkpoints;
mod error;
mod feed;
mod open;
mod options;
mod polls;
mod read;
mod reader;
mod recent;
mod shared;
#[cfg(test)]
mod tests;

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use async_trait::async_trait;
use object_store::ObjectStore;
use object_store::path::Path;
use parking_lot::{Mutex, MutexGuard, RwLock};
use slatedb::config::{CheckpointOptions, CheckpointScope, CloseOptions, FlushType};
use slatedb::{Db, DbStatus};
use tokio::sync::watch;
use tokio::time::Instant;
use weir_types::{ErrorKind, FsError, Result};

use super::apply::{changes_nothing, check_replay, keys_read, resolve, validate};
use super::comers::{Comers, Coming};
use super::contract::{
    CheckpointId, Checkpoints, Commit, CommitLog, Key, Kv, Outcome, Version, Versioned,
};
use super::entry::Entry;
use checkpoints::Kept;
use error::from_slate;
use feed::Feeder;
use open::{block_cache, require, unless_denied, watched};
use options::L0_TABLES_MAX;
use polls::remembering;
use read::bounded;
use recent::Recent;
use shared::SlateState;

pub use options::{SlateOptions, SlateReaderOptions};
pub use reader::SlateReader;

/// Keys of one read up to which they are kept: hot rows come in few, pages of a listing in many.
const KEEP_KEYS: usize = 16;

/// Which part of the cache is for single rows; the rest is for SlateDB's blocks. A row of its own is found some ten
/// times as fast, and takes more room.
const ROWS_OF_CACHE: u64 = 4;

/// A [`Kv`] in SlateDB: the one writer of its database.
pub struct SlateKv {
    shared: Arc<SlateState>,
    feeder: Feeder,
    log: Option<Arc<dyn CommitLog>>,
    /// Held by whoever decides and applies a commit; never over a wait.
    writer: Mutex<()>,
    /// The newest commit that the log had no room for.
    unlogged: AtomicU64,
    /// Held by whoever flushes; those who wait for it are served by the next flush.
    flush: tokio::sync::Mutex<()>,
    comers: Arc<Comers>,
    status: watch::Receiver<DbStatus>,
    kept: Kept,
    timeout: Duration,
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
        let (store, denied) = watched(remembering(store, &path, options.look()));
        let rows_bytes = options.cache_bytes / ROWS_OF_CACHE;
        let cache = block_cache(options.cache_bytes - rows_bytes);
        let kept_bytes = match cfg!(test) {
            // So that letting go is tested as well.
            true => 8 << 10,
            false => usize::try_from(rows_bytes).unwrap_or(usize::MAX),
        };
        let kept = Kept { store: store.clone(), path: path.clone(), cache: cache.clone(), timeout };
        let open = async {
            if !options.create {
                require(&store, &path).await?;
            }
            Db::builder(path, store)
                .with_settings(options.settings())
                .with_db_cache(cache, 0)
                .with_sst_block_size(options::BLOCK_SIZE)
                .build()
                .await
                .map_err(|error| from_slate("open the metadata", error))
        };
        let open = unless_denied(denied, "open the metadata", open);
        let db = bounded(timeout, "open the metadata", open).await?;
        let status = db.subscribe();
        let recent = RwLock::new(Recent::over(status.borrow().durable_seq, kept_bytes));
        let shared = Arc::new(SlateState { db, recent, failed: OnceLock::new() });
        Ok(SlateKv {
            feeder: Feeder::start(shared.clone()),
            shared,
            log,
            writer: Mutex::default(),
            unlogged: AtomicU64::new(0),
            flush: tokio::sync::Mutex::default(),
            comers: Arc::default(),
            status,
            kept,
            timeout,
        })
    }

    /// Applies an entry of a redo log, with the version it had; `false` when it is there already.
    /// To be called for each entry in order, before any commit. A gap between the database and the
    /// entry, or bytes that are no entry, is `Corrupt`. It is durable after the next sync.
    pub async fn replay(&self, version: Version, entry: &[u8]) -> Result<bool> {
        let entry = Entry::decode(version, entry)?;
        self.room().await?;
        let writer = self.writer()?;
        if !check_replay(self.applied(), version)? {
            return Ok(false);
        }
        self.apply(&writer, entry, None)?;
        Ok(true)
    }

    /// The newest commit: durable, or applied and on its way.
    pub fn applied(&self) -> Version {
        self.shared.recent().applied()
    }

    /// Returns when there is room for a commit more, or with `Retry`: then nothing was done.
    async fn room(&self) -> Result<()> {
        bounded(self.timeout, "change metadata", self.feeder.room(&self.shared)).await
    }

    fn writer(&self) -> Result<MutexGuard<'_, ()>> {
        let writer = self.writer.lock();
        match self.shared.failed.get() {
            Some(error) => Err(error.share()),
            None => Ok(writer),
        }
    }

    /// Notes an entry in the log and shows it to readers.
    fn apply(
        &self,
        _writer: &MutexGuard<'_, ()>,
        entry: Entry,
        log: Option<&dyn CommitLog>,
    ) -> Result<()> {
        if let Some(log) = log {
            // First: a log that fails has changed nothing, and what readers see is in the log.
            self.note(log, &entry)?;
        }
        self.shared.recent_mut().apply(entry.into());
        self.feeder.wake();
        Ok(())
    }

    /// Notes an entry in the log, or that the log has no room for it.
    fn note(&self, log: &dyn CommitLog, entry: &Entry) -> Result<()> {
        let full = self.unlogged.load(Ordering::Acquire);
        if full <= self.durable() {
            match log.append(entry.version, &entry.encode()?) {
                Err(error) if error.kind() == ErrorKind::NoSpace => {}
                noted => return noted,
            }
        }
        self.unlogged.store(entry.version, Ordering::Release);
        Ok(())
    }

    /// Decides a commit that read `have` when it looked `at` that version, and applies it. `None`:
    /// too much happened since, read again.
    fn decide(
        &self,
        commit: &mut Commit,
        keys: &[Key],
        at: Version,
        have: Vec<Option<Versioned>>,
    ) -> Result<Option<Outcome>> {
        let writer = self.writer()?;
        let (newest, settled) = {
            let recent = self.shared.recent();
            (recent.applied(), recent.settle(at, keys, have))
        };
        let Some(have) = settled else {
            return Ok(None);
        };
        let checks_only = changes_nothing(commit);
        let Some(entry) = resolve(std::mem::take(commit), newest + 1, &have)? else {
            return Ok(Some(Outcome::Conflict));
        };
        if checks_only {
            return Ok(Some(Outcome::Applied(newest)));
        }
        self.apply(&writer, entry, self.log.as_deref())?;
        Ok(Some(Outcome::Applied(newest + 1)))
    }

    /// The values of `keys`, and which commit they are at least as new as.
    async fn read(&self, keys: &[Key]) -> Result<(Version, Vec<Option<Versioned>>)> {
        // What is known here must not hide that somebody else writes now.
        self.alive("read metadata")?;
        let look = self.shared.recent().look(keys);
        let unknown: Vec<_> = look.unknown().collect();
        let mut found: Vec<_> = look.found.into_iter().map(Option::flatten).collect();
        if unknown.is_empty() {
            return Ok((look.at, found));
        }
        let asked: Vec<_> = unknown.iter().map(|at| keys[*at].clone()).collect();
        let told = bounded(self.timeout, "read metadata", read::get_many(&self.shared.db, &asked));
        let told = told.await?;
        if keys.len() <= KEEP_KEYS {
            let mut recent = self.shared.recent_mut();
            asked
                .iter()
                .zip(&told)
                .for_each(|(key, have)| recent.keep(look.at, key, have.as_ref()));
        }
        unknown.into_iter().zip(told).for_each(|(at, have)| found[at] = have);
        Ok((look.at, found))
    }

    async fn flush_shared(&self) -> Result<()> {
        const WHAT: &str = "make metadata durable";
        let target = {
            // A commit that is in the log but not shown yet belongs to what was before.
            let _writer = self.writer.lock();
            self.applied()
        };
        if self.durable() >= target {
            return self.alive(WHAT);
        }
        self.feeder.reached(target, &self.shared).await?;
        let _turn = self.flush.lock().await;
        if self.durable() >= target {
            return self.alive(WHAT);
        }
        if self.comers.gather().await {
            // What they committed goes along.
            self.feeder.reached(self.applied(), &self.shared).await?;
        }
        let began = Instant::now();
        self.shared.db.flush().await.map_err(|error| from_slate(WHAT, error))?;
        self.comers.flushed(began.elapsed());
        Ok(())
    }

    /// An error if SlateDB has ended: whoever needs nothing of it must not miss that.
    fn alive(&self, what: &str) -> Result<()> {
        match self.status.borrow().close_reason {
            None => Ok(()),
            Some(reason) => {
                let error = slatedb::Error::closed("the database is closed".to_owned(), reason);
                Err(from_slate(what, error))
            }
        }
    }
}

#[async_trait]
impl Checkpoints for SlateKv {
    async fn keep(&self, name: &str) -> Result<CheckpointId> {
        const WHAT: &str = "keep the metadata as it is";
        let target = {
            // As in a flush: what is in the log belongs to what was before.
            let _writer = self.writer()?;
            self.applied()
        };
        let options = CheckpointOptions { name: Some(name.to_owned()), ..Default::default() };
        let keep = async {
            self.feeder.reached(target, &self.shared).await?;
            let kept = self.shared.db.create_checkpoint(CheckpointScope::All, &options).await;
            kept.map_err(|error| from_slate(WHAT, error))
        };
        Ok(CheckpointId(bounded(self.timeout, WHAT, keep).await?.id.as_u128()))
    }

    async fn kept(&self) -> Result<Vec<(CheckpointId, String)>> {
        self.alive("list the kept states of the metadata")?;
        self.kept.list().await
    }

    async fn release(&self, id: CheckpointId) -> Result<()> {
        self.alive("let go of a kept state of the metadata")?;
        self.kept.release(id).await
    }

    async fn at(&self, id: CheckpointId) -> Result<Arc<dyn Kv>> {
        self.alive("open a kept state of the metadata")?;
        reader::at(&self.kept, id).await
    }
}

#[async_trait]
impl Kv for SlateKv {
    fn checkpoints(&self) -> Option<&dyn Checkpoints> {
        Some(self)
    }

    fn logged(&self) -> bool {
        self.unlogged.load(Ordering::Acquire) <= self.durable()
    }

    fn expect_absent(&self, key: &Key, never_had: &dyn Fn() -> bool) {
        let at = self.applied();
        // Asked after that: no commit until then has put it, and those since are known.
        if never_had() {
            self.shared.recent_mut().keep(at, key, None);
        }
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        Ok(self.read(keys).await?.1)
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        self.alive("scan metadata")?;
        // First what is newer: meanwhile it may reach SlateDB, but not the other way round.
        let recent = self.shared.recent().range(prefix, after, limit);
        let scan = read::scan(&self.shared.db, recent, prefix, after, limit);
        bounded(self.timeout, "scan metadata", scan).await
    }

    async fn commit(&self, mut commit: Commit) -> Result<Outcome> {
        validate(&commit)?;
        self.room().await?;
        let keys = keys_read(&commit);
        loop {
            let (at, have) = self.read(&keys).await?;
            if let Some(outcome) = self.decide(&mut commit, &keys, at, have)? {
                if !self.logged() {
                    self.sync().await?;
                }
                return Ok(outcome);
            }
        }
    }

    fn sync_comes(&self) -> Coming {
        self.comers.set_out()
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
        // A last table spares the next open its reading of the log. Where there are so many that it
        // would wait for the compactor (after many short mounts), the compactor gets a part of the
        // time, and then the log, which is durable, has to do.
        let room = |status: &DbStatus| status.current_manifest.l0().len() + 2 < L0_TABLES_MAX;
        let mut status = self.status.clone();
        let compacted = async { status.wait_for(room).await.is_ok() };
        let flush = match tokio::time::timeout(self.timeout / 4, compacted).await {
            Ok(true) => FlushType::MemTable,
            _ => FlushType::Wal,
        };
        let options = CloseOptions::default().with_flush_type(Some(flush));
        let close = async {
            let closed = self.shared.db.close_with_options(options).await;
            closed.map_err(|error| from_slate("close the metadata", error))
        };
        bounded(self.timeout, "close the metadata", close).await
    }
}
