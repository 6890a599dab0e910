//! Quotas.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::{QuotaChange, QuotaView};

use super::call::call;

/// Whose quota.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub(crate) enum QuotaTarget {
    /// That of a directory and all below it, by its path below the volume's root.
    Directory(String),
    /// That of all files of a user, by number.
    User(u32),
    /// That of all files of a group, by number.
    Group(u32),
}

/// All quotas, and what counts for them.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListQuotas {}
call!(Get "/v1/quotas", ListQuotas => Vec<QuotaView>);

/// The quotas that a file or directory counts for: of trees from the inside out.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetQuotas {
    /// Its path, below the volume's root.
    pub(crate) path: String,
}
call!(Get "/v1/quotas/of", GetQuotas => Vec<QuotaView>);

/// Sets a quota, or changes it. Holds at once for what counts; what is there already is counted in the background.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetQuota {
    pub(crate) target: QuotaTarget,
    pub(crate) change: QuotaChange,
}
call!(Post "/v1/quotas/set", SetQuota => QuotaView);

/// Removes a quota: from now on nothing is refused for it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RemoveQuota {
    pub(crate) target: QuotaTarget,
}
call!(Post "/v1/quotas/remove", RemoveQuota => QuotaView);
