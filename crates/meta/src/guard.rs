//! Which mount may change the volume, where the engine below fences nobody by itself: the one that
//! put the guard's row last. The engine holds each of its commits against the row's version.

use weir_types::Result;

use crate::kv::{Key, Kv, Version};

/// The guard's row, as one mount put it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The row.
    pub key: Key,
    /// Of which version it is as long as that mount may change the volume.
    pub version: Version,
}

impl Guard {
    /// Whether that mount still may. One read.
    pub async fn holds(&self, kv: &dyn Kv) -> Result<bool> {
        let found = kv.get_many(std::slice::from_ref(&self.key)).await?;
        Ok(found[0].as_ref().is_some_and(|found| found.version == self.version))
    }
}
