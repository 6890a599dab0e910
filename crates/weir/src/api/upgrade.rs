//! Another binary in the place of a daemon's.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::call::call;

/// Has the daemon execute another binary in its own place, which goes on with the mount. Where that
/// comes about the connection ends without an answer, and [`GetUpgrade`] tells how it came out; an
/// answer says why it did not, and nothing has changed then.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Upgrade {
    /// The program, as a whole path.
    pub(crate) binary: PathBuf,
    /// A name for this upgrade, to know its outcome by.
    pub(crate) id: String,
}
call!(Post "/v1/upgrade", Upgrade => Upgrading);

/// Never answered: see [`Upgrade`].
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Upgrading {}

/// How the upgrade came out by which this daemon came to the mount.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetUpgrade {}
call!(Get "/v1/upgrade", GetUpgrade => LastUpgrade);

/// The last upgrade.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct LastUpgrade {
    /// `null` if there was none since the volume was mounted.
    pub(crate) last: Option<Upgraded>,
}

/// How an upgrade came out.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Upgraded {
    /// The name that it was asked for by.
    pub(crate) id: String,
    /// The version that ran.
    pub(crate) from: String,
    /// The version that goes on.
    pub(crate) to: String,
    /// How long the mount stood still.
    pub(crate) waited_ms: u64,
    /// Why the new binary could not take over, where the one that ran goes on.
    pub(crate) failed: Option<String>,
}
