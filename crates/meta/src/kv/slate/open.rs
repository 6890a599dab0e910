//! What both who writes a database and who follows it open it with.

use std::sync::Arc;

use futures::StreamExt;
use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::db_cache::DbCache;
use slatedb::db_cache::moka::{MokaCache, MokaCacheOptions};
use weir_types::{ErrorKind, FsError, Result};

/// The cache of the tables' blocks.
pub(super) fn block_cache(bytes: u64) -> Arc<dyn DbCache> {
    let options = MokaCacheOptions { max_capacity: bytes, ..MokaCacheOptions::default() };
    Arc::new(MokaCache::new_with_opts(options))
}

/// `NotFound` if no database lies at `path`. One LIST.
pub(super) async fn require(store: &Arc<dyn ObjectStore>, path: &Path) -> Result<()> {
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
