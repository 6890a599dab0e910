//! Links to buckets.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::{HiddenObject, LinkId, LinkOptions, LinkPlan, LinkView, PlannedExports};
use weir_types::Ino;

use super::call::call;

/// All links of the volume.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListLinks {}
call!(Get "/v1/links", ListLinks => Vec<LinkView>);

/// Makes a directory show the objects of a bucket.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MakeLink {
    /// The directory.
    pub(crate) ino: Ino,
    /// Its path in the volume, for people.
    pub(crate) path: String,
    pub(crate) options: LinkOptions,
}
call!(Post "/v1/links/make", MakeLink => LinkView);

/// Ends a link; its files and objects stay.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Unlink {
    /// The directory.
    pub(crate) ino: Ino,
}
call!(Post "/v1/links/end", Unlink => LinkView);

/// What a link would show and ask for, without making it.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct PlanLink(pub(crate) LinkOptions);
call!(Post "/v1/links/plan", PlanLink => LinkPlan);

/// What of a link waits for its export.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListPending {
    pub(crate) link: LinkId,
    /// How much to tell: 1,000 if nothing is said, 10,000 at most.
    #[serde(default)]
    pub(crate) limit: Option<usize>,
}
call!(Get "/v1/links/pending", ListPending => PlannedExports);

/// A page of the objects that cannot show; the last page is empty.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListHidden {
    pub(crate) link: LinkId,
    /// The last key of the page before.
    #[serde(default)]
    pub(crate) after: Option<String>,
    /// How much to tell: 1,000 if nothing is said, 10,000 at most.
    #[serde(default)]
    pub(crate) limit: Option<usize>,
}
call!(Get "/v1/links/hidden", ListHidden => Vec<HiddenObject>);

/// Imports what changed in the bucket.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RefreshLink {
    pub(crate) link: LinkId,
    /// Only these keys; if nothing is said, all of the link.
    #[serde(default)]
    pub(crate) keys: Option<Vec<String>>,
    /// Deletions that were held back are done as well; for all of a link only.
    #[serde(default)]
    pub(crate) confirm: bool,
}
call!(Post "/v1/links/refresh", RefreshLink => LinkView);
