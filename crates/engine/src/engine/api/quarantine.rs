//! What was set aside.

use std::path::Path;

use weir_types::Result;

use crate::engine::Engine;
use crate::services::quarantine::{AsideView, ExtractReport, MergeReport, RecoverProgress};
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// Everything that is set aside, beside what the volume has now.
    pub fn recover_list(&self) -> Boxed<'_, Result<Vec<AsideView>>> {
        boxed(self.quarantine.recover_list())
    }

    /// Puts back into the volume what nobody changed since, of one entry or of all. What is wholly
    /// settled is gone then; of the others the report tells what is left.
    pub fn recover_merge<'a>(&'a self, label: Option<&'a str>) -> Boxed<'a, Result<MergeReport>> {
        boxed(self.quarantine.recover_merge(label))
    }

    /// Writes files out below `directory`, of one entry or of all.
    pub fn recover_extract<'a>(
        &'a self,
        label: Option<&'a str>,
        directory: &'a Path,
    ) -> Boxed<'a, Result<ExtractReport>> {
        boxed(self.quarantine.recover_extract(label, directory))
    }

    /// Gives an entry up for good.
    pub fn recover_discard<'a>(&'a self, label: &'a str) -> Boxed<'a, Result<()>> {
        boxed(self.quarantine.recover_discard(label))
    }

    /// How far the merge or extraction under way is.
    pub fn recover_progress(&self) -> RecoverProgress {
        self.quarantine.recover_progress()
    }
}
