//! Prices are written in dollars, as price lists print them, and kept in whole nano-dollars.

use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serializer};
use weir_types::NanoUsd;

const NANO: f64 = 1e9;

pub(super) fn serialize<S: Serializer>(price: &NanoUsd, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_f64(price.0 as f64 / NANO)
}

pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<NanoUsd, D::Error> {
    let usd = f64::deserialize(from)?;
    if !(0.0..=1e6).contains(&usd) {
        return Err(D::Error::custom(format!("price {usd}: need 0 to 1,000,000 dollars")));
    }
    Ok(NanoUsd((usd * NANO).round() as i64))
}
