//! What was set aside.

use std::path::Path;

use weir_types::Result;

use crate::engine::Engine;
use crate::services::quarantine::{AsideView, ExtractReport, MergeReport, RecoverProgress};

impl Engine {
    /// Everything that is set aside, beside what the volume has now.
    pub async fn recover_list(&self) -> Result<Vec<AsideView>> {
        self.quarantine.recover_list().await
    }

    /// Puts back into the volume what nobody changed since, of one entry or of all. What is wholly
    /// settled is gone then; of the others the report tells what is left.
    pub async fn recover_merge(&self, label: Option<&str>) -> Result<MergeReport> {
        self.quarantine.recover_merge(label).await
    }

    /// Writes files out below `directory`, of one entry or of all.
    pub async fn recover_extract(
        &self,
        label: Option<&str>,
        directory: &Path,
    ) -> Result<ExtractReport> {
        self.quarantine.recover_extract(label, directory).await
    }

    /// Gives an entry up for good.
    pub async fn recover_discard(&self, label: &str) -> Result<()> {
        self.quarantine.recover_discard(label).await
    }

    /// How far the merge or extraction under way is.
    pub fn recover_progress(&self) -> RecoverProgress {
        self.quarantine.recover_progress()
    }
}
