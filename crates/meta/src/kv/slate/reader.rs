//! A follower: reads what the writer made durable, and writes nothing at all.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::{DbReader, DbReaderMode};
use weir_types::{ErrorKind, FsError, Result};

use super::error::from_slate;
use super::open::{block_cache, require, unless_denied, watched};
use super::options::SlateReaderOptions;
use super::read::{bounded, get_many, scan};
use crate::kv::contract::{Commit, Key, Kv, Outcome, Version, Versioned};

/// A read-only [`Kv`] over the database that a [`SlateKv`](super::SlateKv) writes, behind it by at
/// most the poll interval and the writer's flush interval. Any number may follow.
///
/// It needs no more than GET and LIST: it takes no checkpoint. Tables that it still reads are kept
/// by the writer's collector for minutes after they are replaced; a read that outlives even that is
/// `Corrupt` once and right when repeated.
pub struct SlateReader {
    db: DbReader,
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
        let path = path.into();
        let timeout = options.timeout();
        let what = "open the metadata for reading";
        let (store, denied) = watched(store);
        let open = async {
            require(&store, &path).await?;
            DbReader::builder(path.clone(), store)
                .with_options(options.settings())
                .with_reader_mode(DbReaderMode::FollowLatest)
                .with_db_cache(block_cache(options.cache_bytes), 0)
                .build()
                .await
                .map_err(|error| from_slate(what, error))
        };
        let db = bounded(timeout, what, unless_denied(denied, what, open)).await?;
        Ok(SlateReader { db, timeout })
    }
}

#[async_trait]
impl Kv for SlateReader {
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
        let context =
            "cannot change metadata: this mount only follows the writer; mount it writable";
        Err(FsError::new(ErrorKind::ReadOnly, context))
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
