//! Commits that are acknowledged before the database has them.
//!
//! With which commits that may be done is for others to know (`leases/defer.rs`). Here they stand in a queue,
//! each noted on local disk before it is acknowledged, and go down in order, many in one transaction. Whatever
//! else is asked of the engine and meets one of their keys waits until they are there, so that nobody above sees
//! a difference.
//!
//! Each transaction sets a row of the session to the number of the last of its commits, and checks that nobody set
//! that row since the one before. So none is applied twice or behind a later one, however late it comes; and it is known
//! which of them the engine has, also where an answer was lost, and after a crash, when those behind that number
//! are [replayed](replay()). The row is there before the first of them, and goes with the session: a log whose row is not there
//! is one of the past.

mod batch;
mod noted;
mod queue;
mod replay;
#[cfg(test)]
mod tests;

use std::borrow::Cow;
use std::sync::{Arc, OnceLock};

use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_types::{ErrorKind, FsError, Result};

use crate::codec::{decode_seen, encode};
use crate::keys;
use crate::kv::{
    Check, CheckpointId, Checkpoints, Coming, Commit, Followed, Key, Kv, Outcome, Version,
    Versioned, leads_to,
};
use crate::session::SessionId;
pub(crate) use batch::is_provisional;
use noted::Noted;
use queue::{Queue, Taken};
pub use replay::{Replayed, replay};

/// Bytes of the log at which it is emptied when it may be, and at which nothing is queued until it was.
const CLEAR_BYTES: u64 = 4 << 20;
const LOG_BYTES_MAX: u64 = 32 << 20;

/// Where they are noted before they are acknowledged.
pub trait BehindLog: Send + Sync + 'static {
    /// Notes an entry behind the others. Blocking; returns when the bytes are with the kernel, and after an error
    /// nothing of it stays.
    fn note(&self, entry: &[u8]) -> Result<()>;

    /// Bytes noted ever: a mark for [`BehindLog::clear_if`].
    fn noted(&self) -> u64;

    /// Empties it, if nothing was noted since the mark; answers whether that is so. Blocking.
    fn clear_if(&self, noted: u64) -> Result<bool>;
}

/// Is told under which version values are in the database that were put under others.
type Settled = Box<dyn Fn(Version, &[(Key, Version)]) + Send + Sync>;

/// A [`Kv`] that some commits may wait in front of.
#[derive(Clone)]
pub struct BehindKv(Arc<Inner>);

struct Inner {
    below: Arc<dyn Kv>,
    begun: OnceLock<Begun>,
    queue: Mutex<Queue>,
    /// Held by who sends.
    sending: tokio::sync::Mutex<Sending>,
    waiting: Notify,
}

#[derive(Default)]
struct Sending {
    /// The version of the session's row.
    row: Version,
    /// Why the last try that failed did.
    failed: Option<FsError>,
}

struct Begun {
    session: SessionId,
    log: Arc<dyn BehindLog>,
    settled: Settled,
}

impl BehindKv {
    /// Before this one; nothing waits until a session of its own has begun to.
    pub fn new(below: Arc<dyn Kv>) -> Self {
        Self(Arc::new(Inner {
            below,
            begun: OnceLock::new(),
            queue: Mutex::default(),
            sending: tokio::sync::Mutex::default(),
            waiting: Notify::new(),
        }))
    }

    /// From now on commits may wait, of this session, and noted there, where nothing is any more that is not
    /// [replayed](replay()). Once; whoever calls this drains it whenever something [comes](BehindKv::comes). One
    /// commit.
    pub(crate) async fn begin(
        &self,
        session: SessionId,
        log: Arc<dyn BehindLog>,
        settled: Settled,
    ) -> Result<()> {
        let row = keys::behind(session.0);
        let commit = Commit {
            checks: vec![Check::Absent(row.clone())],
            puts: vec![(row, encode(&0_u64)?)],
            ..Commit::default()
        };
        let Outcome::Applied(version) = self.0.below.commit(commit).await? else {
            let text = format!("session {session} has made names ahead already; report this");
            return Err(FsError::new(ErrorKind::Bug, text));
        };
        self.0.sending.lock().await.row = version;
        let _ = self.0.begun.set(Begun { session, log, settled });
        Ok(())
    }

    /// Has a commit wait that has no deletes, whose checks hold behind those that wait already, and that nobody but
    /// this session can make void. Answers the version that its values have until they are in the database; `None`:
    /// it must be made at once.
    pub(crate) fn push(&self, commit: &Commit) -> Option<Version> {
        let begun = self.0.begun.get()?;
        let mut queue = self.0.queue.lock();
        if !queue.has_room() || begun.log.noted() - queue.cleared > LOG_BYTES_MAX {
            return None;
        }
        let number = queue.last + 1;
        let noted = Noted { session: begun.session, number, commit: commit.clone() };
        noted.encode().and_then(|entry| begun.log.note(&entry)).ok()?;
        let version = queue.push(commit);
        drop(queue);
        self.0.waiting.notify_one();
        Some(version)
    }

    /// How many of them wait.
    pub fn waiting(&self) -> u64 {
        self.0.queue.lock().waiting()
    }

    /// Returns when all that waits is in the database. One commit for some hundreds.
    pub async fn drain(&self) -> Result<()> {
        let upto = self.0.queue.lock().last;
        self.drain_to(Some(upto)).await
    }

    async fn drain_to(&self, upto: Option<u64>) -> Result<()> {
        let Some(upto) = upto.filter(|upto| !self.0.queue.lock().is_settled(*upto)) else {
            return Ok(());
        };
        let inner = self.0.clone();
        // To its end, whoever waits for it.
        let sent = tokio::spawn(async move { inner.send(upto).await }).await;
        sent.unwrap_or_else(|_| Err(FsError::new(ErrorKind::Bug, "sending ended; report this")))
    }

    /// The same for reads: one that was shut out serves what it has.
    async fn drain_to_read(&self, upto: Option<u64>) -> Result<()> {
        match self.drain_to(upto).await {
            Err(error) if error.kind() == ErrorKind::Fenced => Ok(()),
            drained => drained,
        }
    }

    /// Has all be in the database, and empties the log. Nothing comes any more.
    pub(crate) async fn end(&self) -> Result<()> {
        self.drain().await?;
        let Some(begun) = self.0.begun.get() else { return Ok(()) };
        match begun.log.clear_if(begun.log.noted())? {
            true => Ok(()),
            false => Err(FsError::new(
                ErrorKind::Retry,
                "a name was made while the volume was unmounted",
            )),
        }
    }

    /// Returns when something came to wait since the last call.
    pub async fn comes(&self) {
        self.0.waiting.notified().await;
    }
}

impl Inner {
    async fn send(&self, upto: u64) -> Result<()> {
        let failures = self.queue.lock().failures;
        let mut sending = self.sending.lock().await;
        // All who waited for a try that failed are told so by it.
        let failed = sending.failed.as_ref().filter(|_| self.queue.lock().failures != failures);
        if let Some(error) = failed {
            return Err(error.share());
        }
        let sent = self.send_in_turn(upto, &mut sending.row).await;
        if let Err(error) = &sent {
            self.queue.lock().failures += 1;
            sending.failed = Some(error.share());
        }
        sent
    }

    async fn send_in_turn(&self, upto: u64, row: &mut Version) -> Result<()> {
        let Some(begun) = self.begun.get() else { return Ok(()) };
        loop {
            let Some(taken) = self.queue.lock().take(upto) else { break };
            self.send_one(begun, &taken, row).await?;
            (begun.settled)(*row, &taken.put);
            self.queue.lock().settle(taken.last);
        }
        self.clear_log(&begun.log).await;
        Ok(())
    }

    /// Sends some, unless they were sent before and are there. Their version is that of the row then.
    async fn send_one(&self, begun: &Begun, taken: &Taken, row: &mut Version) -> Result<()> {
        let key = keys::behind(begun.session.0);
        if taken.tried && self.made(&key, taken.last, row).await? {
            return Ok(());
        }
        let mut commit = taken.commit.clone();
        commit.checks.push(Check::Version(key.clone(), *row));
        commit.puts.push((key.clone(), encode(&taken.last)?));
        if let Outcome::Applied(version) = self.below.commit(commit).await? {
            *row = version;
            return Ok(());
        }
        match self.made(&key, taken.last, row).await? {
            true => Ok(()),
            false => {
                let text = "the database refuses names that were made here, though nobody else may \
                            have changed what they rest on: unmount, and mount again with the same tier";
                Err(FsError::new(ErrorKind::Bug, text))
            }
        }
    }

    /// Reads the session's row; whether commits up to this one are there.
    async fn made(&self, key: &Key, last: u64, row: &mut Version) -> Result<bool> {
        let found = self.below.get_many(std::slice::from_ref(key)).await?;
        let Some(seen) = decode_seen::<u64>(key, found[0].as_ref())? else { return Ok(false) };
        *row = seen.version;
        Ok(seen.value >= last)
    }

    /// Empties the log when it is long, and all of it is in the database. Where that fails it is tried again: nothing
    /// is queued when it is too long.
    async fn clear_log(&self, log: &Arc<dyn BehindLog>) {
        let mark = {
            let queue = self.queue.lock();
            let noted = log.noted();
            if queue.waiting() > 0 || noted - queue.cleared < CLEAR_BYTES {
                return;
            }
            noted
        };
        let log = log.clone();
        let cleared = tokio::task::spawn_blocking(move || log.clear_if(mark)).await;
        if matches!(cleared, Ok(Ok(true))) {
            self.queue.lock().cleared = mark;
        }
    }
}

#[async_trait]
impl Kv for BehindKv {
    fn logged(&self) -> bool {
        self.0.below.logged()
    }

    fn expect_absent(&self, key: &Key, never_had: &dyn Fn() -> bool) {
        self.0.below.expect_absent(key, never_had);
    }

    fn ordered_by<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        self.0.below.ordered_by(key)
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        let upto = self.0.queue.lock().has_any(keys);
        self.drain_to_read(upto).await?;
        self.0.below.get_many(keys).await
    }

    fn is_far(&self) -> bool {
        self.0.below.is_far()
    }

    async fn follow(&self, key: &Key, tags: &[u8]) -> Result<Followed> {
        let mut keys = vec![key.clone()];
        loop {
            let upto = self.0.queue.lock().has_any(&keys);
            self.drain_to_read(upto).await?;
            let settled = self.0.queue.lock().settled();
            let found = self.0.below.follow(key, tags).await?;
            let to = found.from.as_ref().map_or_else(Vec::new, |from| leads_to(&from.value, tags));
            if to.iter().all(|key| keys.contains(key)) {
                return Ok(found);
            }
            // To where it leads is known only now: what waited for that may have come to the database behind the read.
            {
                let queue = self.0.queue.lock();
                if queue.has_any(&to).is_none() && queue.settled() == settled {
                    return Ok(found);
                }
            }
            keys.truncate(1);
            keys.extend(to);
        }
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        let upto = self.0.queue.lock().has_below(prefix);
        self.drain_to_read(upto).await?;
        self.0.below.scan(prefix, after, limit).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        let upto = self.0.queue.lock().meets(&commit);
        self.drain_to(upto).await?;
        self.0.below.commit(commit).await
    }

    fn checkpoints(&self) -> Option<&dyn Checkpoints> {
        self.0.below.checkpoints().map(|_| self as &dyn Checkpoints)
    }

    fn sync_comes(&self) -> Coming {
        self.0.below.sync_comes()
    }

    async fn sync(&self) -> Result<()> {
        self.drain().await?;
        self.0.below.sync().await
    }

    fn durable(&self) -> Version {
        self.0.below.durable()
    }

    async fn close(&self) -> Result<()> {
        let drained = self.drain().await;
        let closed = self.0.below.close().await;
        drained.and(closed)
    }
}

#[async_trait]
impl Checkpoints for BehindKv {
    async fn keep(&self, name: &str) -> Result<CheckpointId> {
        self.drain().await?;
        self.kept_below()?.keep(name).await
    }

    async fn kept(&self) -> Result<Vec<(CheckpointId, String)>> {
        self.kept_below()?.kept().await
    }

    async fn release(&self, id: CheckpointId) -> Result<()> {
        self.kept_below()?.release(id).await
    }

    async fn at(&self, id: CheckpointId) -> Result<Arc<dyn Kv>> {
        self.kept_below()?.at(id).await
    }
}

impl BehindKv {
    fn kept_below(&self) -> Result<&dyn Checkpoints> {
        let none = || FsError::new(ErrorKind::Unsupported, "this metadata keeps no states");
        self.0.below.checkpoints().ok_or_else(none)
    }
}
