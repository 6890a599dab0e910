//! Noticing that another writer took the volume over, whichever call to the metadata meets it first.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use weir_meta::kv::{Checkpoints, Coming, Commit, Followed, Key, Kv, Outcome, Version, Versioned};
use weir_meta::{Guard, Meta};
use weir_types::{ErrorKind, FsError, Result};

use super::health::Health;

/// Stands between this mount and its volume once another writer has that.
pub(crate) struct Fence {
    url: String,
    /// Others write it together with this mount.
    shared: bool,
    up: AtomicBool,
}

impl Fence {
    pub(crate) fn new(url: String, shared: bool) -> Self {
        Self { url, shared, up: AtomicBool::new(false) }
    }

    /// `Fenced` once another writer was seen.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_up() {
            true => Err(self.error()),
            false => Ok(()),
        }
    }

    /// Another writer was seen elsewhere than in the metadata.
    pub(crate) fn raise(&self) {
        let _ = self.seen::<()>(Err(self.error()));
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    fn seen<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind() == ErrorKind::Fenced
            && !self.up.swap(true, Ordering::AcqRel)
        {
            let what = match self.shared {
                false => "another writer took the volume over",
                true => "the other nodes shut this one out",
            };
            tracing::error!(
                volume = %self.url,
                "{what}: this mount serves what it has and writes no more; unmount it"
            );
        }
        result
    }

    fn error(&self) -> FsError {
        let url = &self.url;
        let text = match self.shared {
            false => format!("another writer took {url} over: unmount here, then mount again"),
            true => format!(
                "this node of {url} was silent for too long, or was told to go, and the others shut it \
                 out: unmount here, then mount again; what had not been flushed is in the tier"
            ),
        };
        FsError::new(ErrorKind::Fenced, text)
    }
}

/// How often the guard is looked at, in milliseconds, for a mount that changes nothing.
const LOOK_MS: u64 = 10_000;

/// The metadata's store, watched for another writer, and for its answers.
pub(crate) struct FencedKv {
    pub(crate) kv: Arc<dyn Kv>,
    pub(crate) fence: Arc<Fence>,
    /// Of a database; a bucket's answers are counted where they are asked for.
    pub(crate) health: Option<Arc<Health>>,
}

impl FencedKv {
    async fn watched<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let began = Instant::now();
        let result = call.await;
        if let Some(health) = &self.health {
            health.note(began, &result);
        }
        self.fence.seen(result)
    }
}

/// Raises the fence when another mount has taken the guard: a mount that only reads would not hear
/// of it.
pub(crate) async fn guard_loop(meta: Arc<Meta>, guard: Guard, fence: Arc<Fence>) {
    while !fence.is_up() {
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        if let Ok(false) = guard.holds(&**meta.kv()).await {
            let _ = fence.seen::<()>(Err(fence.error()));
        }
    }
}

#[async_trait]
impl Kv for FencedKv {
    fn logged(&self) -> bool {
        self.kv.logged()
    }

    fn expect_absent(&self, key: &Key, never_had: &dyn Fn() -> bool) {
        self.kv.expect_absent(key, never_had);
    }

    fn ordered_by<'a>(&self, key: &'a [u8]) -> Cow<'a, [u8]> {
        self.kv.ordered_by(key)
    }

    /// A writer that was taken over is told of that by the next commit.
    fn checkpoints(&self) -> Option<&dyn Checkpoints> {
        self.kv.checkpoints()
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        self.watched(self.kv.get_many(keys)).await
    }

    fn is_far(&self) -> bool {
        self.kv.is_far()
    }

    async fn follow(&self, key: &Key, tags: &[u8]) -> Result<Followed> {
        self.watched(self.kv.follow(key, tags)).await
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        self.watched(self.kv.scan(prefix, after, limit)).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        self.watched(self.kv.commit(commit)).await
    }

    fn sync_comes(&self) -> Coming {
        self.kv.sync_comes()
    }

    async fn sync(&self) -> Result<()> {
        self.watched(self.kv.sync()).await
    }

    fn durable(&self) -> Version {
        self.kv.durable()
    }

    async fn close(&self) -> Result<()> {
        self.fence.seen(self.kv.close().await)
    }
}
