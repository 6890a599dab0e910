//! Files that were removed on a volume that nodes share.

use async_trait::async_trait;
use weir_meta::sessions::Session;
use weir_types::Result;

use crate::names::tree::Names;
use crate::volume::together::BeforeBeat;

#[async_trait]
impl BeforeBeat for Names {
    async fn before_beat(&self) -> Result<()> {
        Ok(())
    }

    async fn after_look(&self, _live: &[Session]) -> Result<()> {
        Ok(())
    }
}
