//! Reading every byte of the volume.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::ScrubView;

use super::call::call;

/// How far the scrub is, or how the last one ended.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetScrub {}
call!(Get "/v1/scrub", GetScrub => ScrubView);

/// Begins one, or gives the one that runs another rate.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct BeginScrub {
    /// Bytes a second at most.
    #[serde(default)]
    pub(crate) max_bytes_per_s: Option<u64>,
}
call!(Post "/v1/scrub/begin", BeginScrub => ScrubView);

/// Ends the one that runs.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct EndScrub {}
call!(Post "/v1/scrub/end", EndScrub => ScrubView);
