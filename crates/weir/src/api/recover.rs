//! What was set aside.

use std::path::PathBuf;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::{AsideView, ExtractReport, MergeReport, RecoverProgress};

use super::call::call;

/// What is set aside and not settled.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListAside {}
call!(Get "/v1/recover", ListAside => Vec<AsideView>);

/// Puts back what nobody changed since.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MergeAside {
    /// One entry; if nothing is said, all.
    #[serde(default)]
    pub(crate) label: Option<String>,
}
call!(Post "/v1/recover/merge", MergeAside => MergeReport);

/// Writes what is set aside into a directory of this machine, outside of the volume.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ExtractAside {
    /// One entry; if nothing is said, all.
    #[serde(default)]
    pub(crate) label: Option<String>,
    pub(crate) directory: PathBuf,
}
call!(Post "/v1/recover/extract", ExtractAside => ExtractReport);

/// Gives an entry up.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DiscardAside {
    pub(crate) label: String,
}
call!(Post "/v1/recover/discard", DiscardAside => Discarded);

/// What came of a [`DiscardAside`].
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Discarded {
    /// The label of the entry that was.
    pub(crate) discarded: String,
}

/// How far a merge or extraction is.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetRecoverProgress {}
call!(Get "/v1/recover/progress", GetRecoverProgress => RecoverProgress);
