//! What is the same of a disk wherever it is spoken of.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// What of a disk is kept on the local disk. The order is that of the stored numbers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum DiskCache {
    /// Whole records go past the tier both ways, an object each: for clients with caches of their
    /// own, such as ZFS. Parts of records still go through it.
    #[default]
    None,
    /// Everything goes through the tier, as files do: for clients that read the same bytes again
    /// and again, such as XFS or a virtual machine.
    Tier,
}
