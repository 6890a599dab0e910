//! What moves into cheaper storage classes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::{LifecyclePlan, LifecycleRule, LifecycleView};

use super::call::call;

/// The rules, what is in which class, and how far the pass over all objects is.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetLifecycle {}
call!(Get "/v1/lifecycle", GetLifecycle => LifecycleView);

/// What would move at once if a directory had this rule.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PlanLifecycle {
    /// The directory, from the volume's root.
    pub(crate) path: String,
    /// None: as if it had none.
    pub(crate) rule: Option<LifecycleRule>,
}
call!(Post "/v1/lifecycle/plan", PlanLifecycle => LifecyclePlan);

/// Gives a directory, and all below it, a rule, or takes the one that it has; then a pass begins.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetLifecycle {
    /// The directory, from the volume's root.
    pub(crate) path: String,
    /// None: it has none of its own any more.
    pub(crate) rule: Option<LifecycleRule>,
}
call!(Post "/v1/lifecycle/set", SetLifecycle => LifecycleView);

/// Has a pass over all objects begin soon.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RunLifecycle {}
call!(Post "/v1/lifecycle/run", RunLifecycle => LifecycleView);
