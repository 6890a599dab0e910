//! Throughput and use.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::{Period, Subject, ThroughputChange, ThroughputReport, Totals};

use super::call::call;

/// How throughput stands.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetThroughput {}
call!(Get "/v1/throughput", GetThroughput => ThroughputReport);

/// Changes the rule of the volume, a directory or a user.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetThroughput {
    // Programs write the name that it had first.
    #[serde(rename = "whose")]
    pub(crate) subject: Subject,
    /// The directory's path in the volume, or the user's number; empty for the volume.
    pub(crate) name: String,
    pub(crate) change: ThroughputChange,
}
call!(Post "/v1/throughput/set", SetThroughput => ThroughputReport);

/// What was used.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetUsed {
    /// Since this time; if nothing is said, since the mount.
    #[serde(default)]
    pub(crate) since_unix_ms: Option<u64>,
    /// By this node alone; else by all that share the volume.
    #[serde(default)]
    pub(crate) node: bool,
}
call!(Get "/v1/used", GetUsed => Period);

/// The counters of each minute, oldest first, and now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetHistory {
    /// From the minute before this time on; if nothing is said, since the mount, a week at most.
    #[serde(default)]
    pub(crate) since_unix_ms: Option<u64>,
}
call!(Get "/v1/history", GetHistory => Vec<Totals>);
