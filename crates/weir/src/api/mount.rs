//! The mount as a whole.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::Residency;
use weir_types::Ino;

use super::call::call;

/// Where the bytes of a file are.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetResidency {
    pub(crate) ino: Ino,
}
call!(Get "/v1/residency", GetResidency => Residency);

/// Sends all that is dirty to the bucket; answers when it is there.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Flush {}
call!(Post "/v1/flush", Flush => Flushed);

/// What came of a [`Flush`].
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Flushed {
    /// Always true: what cannot be flushed is an error.
    pub(crate) flushed: bool,
}

/// Ends the daemon. Answers when all is flushed and it is about to end; a lazy one when the mount is
/// out of the tree.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unmount {
    /// Take the mount out of the tree at once, and end when nobody uses it any more.
    #[serde(default)]
    pub(crate) lazy: bool,
    /// Take it from those who still use it after five seconds.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub(crate) force: bool,
}
call!(Post "/v1/unmount", Unmount => Unmounted);

/// What came of an [`Unmount`].
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Unmounted {
    /// All is flushed; false where the daemon goes on until nobody uses the mount.
    pub(crate) ended: bool,
}
