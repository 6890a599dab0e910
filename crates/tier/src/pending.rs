//! What the metadata does not know of a file yet, beside its bytes.

use serde::{Deserialize, Serialize};
use weir_types::UnixTime;

/// Attributes that local writers changed and the metadata does not have yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pending {
    /// The size may differ from the metadata's.
    pub size: bool,
    /// When data was last written, unless somebody set the time since.
    pub mtime: Option<UnixTime>,
    /// When the inode last changed by a write.
    pub ctime: Option<UnixTime>,
}

impl Pending {
    /// `mtime` and `ctime` both now, the size as well.
    pub(crate) fn written(now: UnixTime) -> Self {
        Self { size: true, mtime: Some(now), ctime: Some(now) }
    }
}
