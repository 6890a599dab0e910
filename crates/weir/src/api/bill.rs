//! The bill of a mount's work, beside what it would have cost elsewhere.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::Period;
use weir_types::NanoUsd;

use super::call::call;

/// What the work of the mount cost, or that of all nodes that share the volume, and what the same work would have cost elsewhere, by the built-in
/// price book: storage, requests and transfer. Neither the machine nor the disk of the tier is on it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetBill {
    /// Where; if nothing is said, that of the budget, else us-east-1.
    #[serde(default)]
    pub(crate) region: Option<String>,
    /// Since this time, a week at most; if nothing is said, since the mount.
    #[serde(default)]
    pub(crate) since_unix_ms: Option<u64>,
    /// What this node did; else what all did that share the volume.
    #[serde(default)]
    pub(crate) node: bool,
}
call!(Get "/v1/bill", GetBill => CostReport);

/// What work cost here and would have cost elsewhere.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CostReport {
    /// Whose list prices these are.
    pub(crate) region: String,
    /// What it rests on.
    pub(crate) used: Period,
    /// Bytes of objects of linked buckets that show as files, as an average: kept there, and stored elsewhere as well.
    pub(crate) linked_bytes: u64,
    /// A month is told from so many seconds on: what was used before is mostly what a mount begins
    /// with.
    pub(crate) month_from_s: u64,
    pub(crate) weir: Cost,
    pub(crate) elsewhere: Vec<CostElsewhere>,
}

/// What work costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Cost {
    pub(crate) so_far: Sum,
    /// A month of 730 hours at that rate; `None` before `month_from_s`.
    pub(crate) month: Option<Sum>,
}

/// The sum of what is known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Sum {
    pub(crate) nano_usd: NanoUsd,
    /// Whether that is all of it: a price that nobody knows is in no sum.
    pub(crate) complete: bool,
}

/// The same work on another storage.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct CostElsewhere {
    pub(crate) service: Service,
    /// The storage, as people call it.
    pub(crate) name: String,
    #[serde(flatten)]
    pub(crate) cost: Cost,
    /// What the same bytes would have taken there, with nothing else to do; `None` if they never
    /// came.
    pub(crate) io_seconds: Option<f64>,
    /// What makes it take so long.
    pub(crate) bound_by: String,
}

/// Whose storage it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Service {
    /// Amazon EFS.
    Efs,
    /// Amazon FSx for Lustre.
    FsxLustre,
    /// An EBS volume of one machine.
    Ebs,
    /// The machine's own disk, which forgets.
    InstanceStore,
    /// Amazon S3 Files.
    S3Files,
    /// Weir.
    Weir,
}
