//! List prices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::NanoUsd;

use super::call::call;

/// What requests and storage cost, by the built-in price book.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetPrices {
    /// Where; if nothing is said, that of the budget, else us-east-1.
    #[serde(default)]
    pub(crate) region: Option<String>,
}
call!(Get "/v1/prices", GetPrices => ListPrices);

/// List prices of a region; `null` is unknown.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct ListPrices {
    pub(crate) region: String,
    /// Of 1,000 PUT, COPY or LIST requests.
    pub(crate) put_nano_usd_per_1000: Option<NanoUsd>,
    /// Of 1,000 GET or HEAD requests.
    pub(crate) get_nano_usd_per_1000: Option<NanoUsd>,
    /// Of 1,000 DELETE requests.
    pub(crate) delete_nano_usd_per_1000: Option<NanoUsd>,
    /// Of 2^30 bytes for a month of 730 hours.
    pub(crate) storage_nano_usd_per_gib_month: Option<NanoUsd>,
    /// The regions that the price book lists.
    pub(crate) regions: Vec<String>,
}
