//! The price of an item in a region.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::NanoUsd;

use super::dollars;
use super::item::Item;

/// How well a price is founded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum Confidence {
    /// Read from the vendor's own text or price list.
    Vendor,
    /// From somebody who quotes the vendor's price list.
    Quoted,
    /// From somebody else, not verified.
    Unverified,
    /// Noted without its source.
    Unsourced,
}

/// The price of one unit. Which unit is said by its item.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// What one unit costs; written in dollars. Free is a price of 0.
    #[serde(with = "dollars")]
    #[schemars(with = "f64")]
    pub usd: NanoUsd,
    /// The day on which it was valid, as YYYY-MM-DD or as much of that as is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// What it was read from.
    pub source: String,
    /// How well it is founded.
    pub confidence: Confidence,
}

/// What one item costs in one region.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The region's name, such as `us-east-1`.
    pub region: String,
    /// What is bought.
    pub item: Item,
    /// Its price.
    pub price: Price,
}
