//! Operations while the metadata takes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use futures::future::join_all;
use weir_types::{ErrorKind, FileKind, FsError, Ino, Result};

use super::{meta_over, new};
use crate::kv::memory::MemoryKv;
use crate::kv::{Commit, Key, Kv, Outcome, Version, Versioned};

/// How long a commit waits in vain.
const LIMIT: Duration = Duration::from_secs(20);

#[derive(Default)]
struct Away {
    kv: MemoryKv,
    away: AtomicBool,
}

#[async_trait]
impl Kv for Away {
    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        self.kv.get_many(keys).await
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        self.kv.scan(prefix, after, limit).await
    }

    async fn commit(&self, commit: Commit) -> Result<Outcome> {
        if self.away.load(Ordering::Acquire) {
            tokio::time::sleep(LIMIT).await;
            return Err(FsError::new(ErrorKind::Retry, "the bucket has not answered"));
        }
        self.kv.commit(commit).await
    }

    async fn sync(&self) -> Result<()> {
        self.kv.sync().await
    }

    fn durable(&self) -> Version {
        self.kv.durable()
    }

    async fn close(&self) -> Result<()> {
        self.kv.close().await
    }
}

#[tokio::test(start_paused = true)]
async fn many_who_need_new_inodes_wait_no_longer_than_one() {
    let kv = Arc::new(Away::default());
    let meta = meta_over(kv.clone()).await;
    kv.away.store(true, Ordering::Release);
    let began = tokio::time::Instant::now();
    let names: Vec<_> = (0..50).map(|n| format!("f{n}")).collect();
    let create = |name| meta.create(Ino::ROOT, str::as_bytes(name), new(FileKind::Regular));
    for made in join_all(names.iter().map(|name| create(name.as_str()))).await {
        assert_eq!(made.expect_err("nothing is taken").kind(), ErrorKind::Retry);
    }
    assert!(began.elapsed() < 2 * LIMIT, "{:?}", began.elapsed());
    kv.away.store(false, Ordering::Release);
    for made in join_all(names.iter().map(|name| create(name.as_str()))).await {
        made.expect("the metadata takes commits again");
    }
}
