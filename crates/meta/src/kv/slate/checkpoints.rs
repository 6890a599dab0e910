//! States of a database that stay readable: SlateDB's checkpoints, which name a manifest. Its own
//! collector leaves what such a manifest names.

use std::sync::Arc;
use std::time::Duration;

use object_store::ObjectStore;
use object_store::path::Path;
use slatedb::admin::{Admin, AdminBuilder};
use slatedb::db_cache::DbCache;
use uuid::Uuid;
use weir_types::Result;

use super::error::from_slate;
use super::read::bounded;
use crate::kv::contract::CheckpointId;

/// Where a database is, to whoever looks at its checkpoints.
#[derive(Clone)]
pub(super) struct Kept {
    pub(super) store: Arc<dyn ObjectStore>,
    pub(super) path: Path,
    pub(super) cache: Arc<dyn DbCache>,
    pub(super) timeout: Duration,
}

impl Kept {
    fn admin(&self) -> Admin {
        AdminBuilder::new(self.path.clone(), self.store.clone()).build()
    }

    pub(super) async fn list(&self) -> Result<Vec<(CheckpointId, String)>> {
        const WHAT: &str = "list the kept states of the metadata";
        let admin = self.admin();
        let listed = async {
            let listed = admin.list_checkpoints(None).await;
            listed.map_err(|error| from_slate(WHAT, error))
        };
        let listed = bounded(self.timeout, WHAT, listed).await?.into_iter();
        let named = listed.filter_map(|one| Some((CheckpointId(one.id.as_u128()), one.name?)));
        Ok(named.collect())
    }

    pub(super) async fn release(&self, id: CheckpointId) -> Result<()> {
        const WHAT: &str = "let go of a kept state of the metadata";
        let admin = self.admin();
        let release = async {
            let released = admin.delete_checkpoint(Uuid::from_u128(id.0)).await;
            released.map_err(|error| from_slate(WHAT, error))
        };
        bounded(self.timeout, WHAT, release).await
    }
}
