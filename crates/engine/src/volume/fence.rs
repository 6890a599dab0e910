//! Noticing that another writer took the volume over, whichever call to the metadata meets it first.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use async_trait::async_trait;
use weir_meta::kv::{Commit, Key, Kv, Outcome, Version, Versioned};
use weir_types::{ErrorKind, FsError, Result};

/// Stands between this mount and its volume once another writer has that.
pub(crate) struct Fence {
    url: String,
    up: AtomicBool,
}

impl Fence {
    pub(crate) fn new(url: String) -> Self {
        Self { url, up: AtomicBool::new(false) }
    }

    /// `Fenced` once another writer was seen.
    pub(crate) fn check(&self) -> Result<()> {
        match self.is_up() {
            true => Err(fenced_error(&self.url)),
            false => Ok(()),
        }
    }

    pub(crate) fn is_up(&self) -> bool {
        self.up.load(Ordering::Acquire)
    }

    fn seen<T>(&self, result: Result<T>) -> Result<T> {
        if let Err(error) = &result
            && error.kind() == ErrorKind::Fenced
            && !self.up.swap(true, Ordering::AcqRel)
        {
            tracing::error!(
                volume = %self.url,
                "another writer took the volume over: this mount serves what it has and writes no \
                 more; unmount it"
            );
        }
        result
    }
}

pub(crate) fn fenced_error(url: &str) -> FsError {
    let text = format!("another writer took {url} over: unmount here, then mount again");
    FsError::new(ErrorKind::Fenced, text)
}

/// The metadata's store, watched for another writer.
pub(crate) struct FencedKv {
    pub(crate) kv: Arc<dyn Kv>,
    pub(crate) fence: Arc<Fence>,
}

#[async_trait]
impl Kv for FencedKv {
    fn logged(&self) -> bool {
        self.kv.logged()
    }

    fn expect_absent(&self, key: &Key, never_had: &dyn Fn() -> bool) {
        self.kv.expect_absent(key, never_had);
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        self.fence.seen(self.kv.get_many(keys).await)
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        self.fence.seen(self.kv.scan(prefix, after, limit).await)
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        self.fence.seen(self.kv.commit(commit).await)
    }

    async fn sync(&self) -> Result<()> {
        self.fence.seen(self.kv.sync().await)
    }

    fn durable(&self) -> Version {
        self.kv.durable()
    }

    async fn close(&self) -> Result<()> {
        self.fence.seen(self.kv.close().await)
    }
}
