//! What doors keep with the volume.

use bytes::Bytes;
use weir_types::Result;

use crate::engine::Engine;
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// All that was kept under names that begin so, by name. One read of the metadata for each 1,000.
    pub fn kept<'a>(&'a self, prefix: &'a str) -> Boxed<'a, Result<Vec<(String, Bytes)>>> {
        boxed(self.data.meta.kept(prefix))
    }

    /// Keeps something under each of these names (1 to 255 bytes), or no longer; durable when it returns.
    /// One commit and one metadata flush.
    pub fn keep(&self, rows: Vec<(String, Option<Bytes>)>) -> Boxed<'_, Result<()>> {
        boxed(async move {
            self.data.context.check_writable()?;
            self.data.meta.keep(&rows).await?;
            self.data.durability.fsync_dir().await
        })
    }
}
