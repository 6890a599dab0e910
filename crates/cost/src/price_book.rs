//! The price book: what each unit costs, where, since when, and who says so.

use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_types::NanoUsd;

const SCHEMA: &str = "weir-prices/1";
const BUILT_IN: &str = include_str!("s3-prices.json");

/// How well a price is founded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
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

/// The price of one unit. Which unit is said by the field that holds it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    /// What one unit costs; written in dollars.
    #[serde(with = "dollars")]
    pub usd: NanoUsd,
    /// The day on which it was valid, as YYYY-MM-DD, where known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub date: Option<String>,
    /// What it was read from.
    pub source: String,
    /// How well it is founded.
    pub confidence: Confidence,
}

/// Prices of S3, or a store like it, in one region. `None` is unknown; free is a price of 0.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct S3Prices {
    /// The region's name, such as `us-east-1`.
    pub region: String,
    /// Keeping 1 GB (2^30 bytes, as AWS counts) for a month.
    #[serde(default)]
    pub storage_gb_month: Option<Price>,
    /// 1,000 requests of the kinds PUT, COPY and LIST.
    #[serde(default)]
    pub put_1k: Option<Price>,
    /// 1,000 requests of the kinds GET and HEAD.
    #[serde(default)]
    pub get_1k: Option<Price>,
    /// 1,000 DELETE requests.
    #[serde(default)]
    pub delete_1k: Option<Price>,
    /// 1 GB (2^30 bytes) sent out of the region.
    #[serde(default)]
    pub transfer_out_gb: Option<Price>,
}

/// All prices that are known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PriceBook {
    schema: String,
    s3: Vec<S3Prices>,
}

/// Why a price book could not be read.
#[derive(Debug, Error)]
pub enum PriceBookError {
    /// It is not the JSON that a price book is.
    #[error("this is no price book: {0}")]
    Json(#[from] serde_json::Error),
    /// It is a price book of another kind.
    #[error("price book schema `{0}` is unknown: this version reads `{SCHEMA}`")]
    Schema(String),
    /// A region is listed twice, so that it is not clear which prices hold.
    #[error("price book: region `{0}` is listed twice; keep one of them")]
    Twice(String),
}

impl PriceBook {
    /// The prices that come with Weir.
    pub fn built_in() -> Self {
        // A test reads it, so this holds in every build that passed the tests.
        Self::from_json(BUILT_IN).expect("the built-in price book is sound")
    }

    /// Reads a price book, which then stands instead of the built-in one.
    ///
    /// # Errors
    /// When the text is no sound price book; nothing in it is guessed.
    pub fn from_json(text: &str) -> Result<Self, PriceBookError> {
        let book: Self = serde_json::from_str(text)?;
        if book.schema != SCHEMA {
            return Err(PriceBookError::Schema(book.schema));
        }
        for (at, prices) in book.s3.iter().enumerate() {
            if book.s3[..at].iter().any(|earlier| earlier.region == prices.region) {
                return Err(PriceBookError::Twice(prices.region.clone()));
            }
        }
        Ok(book)
    }

    /// The prices of S3 in `region`; all unknown when the book does not list it.
    pub fn s3(&self, region: &str) -> S3Prices {
        let found = self.s3.iter().find(|prices| prices.region == region);
        found
            .cloned()
            .unwrap_or_else(|| S3Prices { region: region.to_owned(), ..S3Prices::default() })
    }
}

/// Prices are written in dollars, as price lists print them, and kept in whole nano-dollars.
mod dollars {
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
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_book_is_sound_and_says_where_its_prices_are_from() {
        let book = PriceBook::built_in();
        let prices = book.s3("us-east-1");
        // 0.023 dollars for a GB-month, 0.005 and 0.0004 for 1,000 requests.
        assert_eq!(prices.storage_gb_month.expect("known").usd, NanoUsd(23_000_000));
        assert_eq!(prices.put_1k.expect("known").usd, NanoUsd(5_000_000));
        assert_eq!(prices.get_1k.expect("known").usd, NanoUsd(400_000));
        assert_eq!(prices.transfer_out_gb, None);
        let text = serde_json::to_string(&book).expect("writes");
        assert_eq!(PriceBook::from_json(&text).expect("reads"), book);
    }

    #[test]
    fn a_region_not_listed_has_no_prices() {
        let prices = PriceBook::built_in().s3("moon-1");
        assert_eq!(prices, S3Prices { region: "moon-1".to_owned(), ..S3Prices::default() });
    }

    #[test]
    fn bad_books_are_refused_with_their_reason() {
        let price = |usd: &str| {
            format!(r#""put_1k": {{"usd": {usd}, "source": "test", "confidence": "unsourced"}}"#)
        };
        let book = |regions: &str| format!(r#"{{"schema": "{SCHEMA}", "s3": [{regions}]}}"#);
        let region = |usd: &str| format!(r#"{{"region": "here", {}}}"#, price(usd));
        PriceBook::from_json(&book(&region("0.5"))).expect("fine");
        for (text, reason) in [
            ("{".to_owned(), "no price book"),
            (r#"{"schema": "other/9", "s3": []}"#.to_owned(), "other/9"),
            (book(&region("-1")), "price -1"),
            (book(&format!("{0}, {0}", region("1"))), "`here` is listed twice"),
            (book(r#"{"region": "here", "put_price": 1}"#), "put_price"),
        ] {
            let error = PriceBook::from_json(&text).expect_err(&text).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
