//! What who commits and who feeds SlateDB share.

use std::sync::OnceLock;

use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};
use slatedb::config::WriteOptions;
use slatedb::{Db, WriteBatch};
use weir_types::{ErrorKind, FsError, Result};

use super::error::from_slate;
use super::recent::{Change, Recent};

/// The database, and what of it is newer here.
pub(super) struct SlateState {
    pub(super) db: Db,
    /// Changed by the holder of the writer's lock, and by the feeder as it goes on.
    pub(super) recent: RwLock<Recent>,
    /// Set when the redo log and SlateDB may no longer agree; no commit is taken after that.
    pub(super) failed: OnceLock<FsError>,
}

impl SlateState {
    // A panic leaves nothing half done that a reader would mind: a commit's rows are all of it.
    pub(super) fn recent(&self) -> RwLockReadGuard<'_, Recent> {
        self.recent.read()
    }

    pub(super) fn recent_mut(&self) -> RwLockWriteGuard<'_, Recent> {
        self.recent.write()
    }

    pub(super) async fn write(&self, change: &Change) -> Result<()> {
        let mut batch = WriteBatch::new();
        for (key, value) in &change.puts {
            batch.put_bytes(key.clone(), value.clone());
        }
        for key in &change.deletes {
            batch.delete(key);
        }
        let options = WriteOptions { seqnum: change.version };
        let written = self.db.write_with_options(batch, &options).await;
        written.map(drop).map_err(|error| from_slate("change metadata", error))
    }

    /// No commit is taken after this: the redo log and SlateDB may no longer agree.
    pub(super) fn fail(&self, error: FsError) {
        // The first one stands.
        let _ = self.failed.set(error);
    }

    /// Why the feeder ended.
    pub(super) fn failure(&self) -> FsError {
        self.failed.get().map_or_else(
            || FsError::new(ErrorKind::Invalid, "the metadata is closed"),
            FsError::share,
        )
    }
}
