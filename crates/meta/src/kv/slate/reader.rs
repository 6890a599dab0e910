//! A follower: reads what the writer made durable, and writes nothing at all.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::{DbReader, DbReaderMode};
use uuid::Uuid;
use weir_types::{ErrorKind, FsError, Result};

use super::checkpoints::Kept;
use super::error::from_slate;
use super::open::{block_cache, require, unless_denied, watched};
use super::options::SlateReaderOptions;
use super::read::{bounded, get_many, scan};
use crate::kv::contract::{
    CheckpointId, Checkpoints, Commit, Key, Kv, Outcome, Version, Versioned,
};

/// A read-only [`Kv`] over the database that a [`SlateKv`](super::SlateKv) writes, behind it by at
/// most the poll interval and the writer's flush interval. Any number may follow.
///
/// It needs no more than GET and LIST: it takes no checkpoint. Tables that it still reads are kept
/// by the writer's collector for minutes after they are replaced; a read that outlives even that is
/// `Corrupt` once and right when repeated.
pub struct SlateReader {
    db: DbReader,
    kept: Kept,
    timeout: Duration,
}

impl SlateReader {
    /// Opens the database at `path` of `store`; `NotFound` if there is none. Costs one LIST, a GET
    /// of the manifest, and a GET for each log object not in a table yet.
    pub async fn open(
        store: Arc<dyn ObjectStore>,
        path: impl Into<Path>,
        options: SlateReaderOptions,
    ) -> Result<SlateReader> {
        let (path, timeout) = (path.into(), options.timeout());
        let what = "open the metadata for reading";
        let (store, denied) = watched(store);
        let cache = block_cache(options.cache_bytes);
        let kept = Kept { store, path, cache, timeout };
        let open = async {
            require(&kept.store, &kept.path).await?;
            build(&kept, options, DbReaderMode::FollowLatest, what).await
        };
        let db = bounded(timeout, what, unless_denied(denied, what, open)).await?;
        Ok(SlateReader { db, kept, timeout })
    }
}

async fn build(
    kept: &Kept,
    options: SlateReaderOptions,
    mode: DbReaderMode,
    what: &str,
) -> Result<DbReader> {
    let opened = DbReader::builder(kept.path.clone(), kept.store.clone())
        .with_options(options.settings())
        .with_reader_mode(mode)
        .with_db_cache(kept.cache.clone(), 0)
        .build()
        .await;
    opened.map_err(|error| from_slate(what, error))
}

/// A state of a database that is kept; `NotFound` if it is not. It shares the memory for blocks.
pub(super) async fn at(kept: &Kept, id: CheckpointId) -> Result<Arc<dyn Kv>> {
    let what = "open a kept state of the metadata";
    let mode = DbReaderMode::Checkpoint(Uuid::from_u128(id.0));
    let open = build(kept, SlateReaderOptions::default(), mode, what);
    match bounded(kept.timeout, what, open).await {
        Ok(db) => Ok(Arc::new(SlateReader { db, kept: kept.clone(), timeout: kept.timeout })),
        // It may only be that nobody keeps it any more.
        Err(error) if error.kind() == ErrorKind::Corrupt => {
            match kept.list().await?.iter().any(|(one, _)| *one == id) {
                true => Err(error),
                false => {
                    let text = "this state of the metadata is not kept";
                    Err(FsError::new(ErrorKind::NotFound, text).with_source(error))
                }
            }
        }
        Err(error) => Err(error),
    }
}

fn read_only() -> FsError {
    let text = "cannot change metadata: this mount only follows the writer; mount it writable";
    FsError::new(ErrorKind::ReadOnly, text)
}

#[async_trait]
impl Checkpoints for SlateReader {
    async fn keep(&self, _: &str) -> Result<CheckpointId> {
        Err(read_only())
    }

    async fn kept(&self) -> Result<Vec<(CheckpointId, String)>> {
        self.kept.list().await
    }

    async fn release(&self, _: CheckpointId) -> Result<()> {
        Err(read_only())
    }

    async fn at(&self, id: CheckpointId) -> Result<Arc<dyn Kv>> {
        at(&self.kept, id).await
    }
}

#[async_trait]
impl Kv for SlateReader {
    fn checkpoints(&self) -> Option<&dyn Checkpoints> {
        Some(self)
    }

    async fn get_many(&self, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        bounded(self.timeout, "read metadata", get_many(&self.db, keys)).await
    }

    async fn scan(
        &self,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        bounded(self.timeout, "scan metadata", scan(&self.db, Vec::new(), prefix, after, limit))
            .await
    }

    async fn commit(&self, _: Commit) -> Result<Outcome> {
        Err(read_only())
    }

    async fn sync(&self) -> Result<()> {
        Ok(())
    }

    fn durable(&self) -> Version {
        self.db.status().durable_seq
    }

    async fn close(&self) -> Result<()> {
        let close = async {
            self.db.close().await.map_err(|error| from_slate("close the metadata", error))
        };
        bounded(self.timeout, "close the metadata", close).await
    }
}
