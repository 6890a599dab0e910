//! A book of prices: reading, writing and asking it.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use weir_types::NanoUsd;

use super::dollars;
use super::entry::{Confidence, Entry, Price};
use super::item::Item;
use super::v1;

const SCHEMA: &str = "weir-prices/2";
const SCHEMA_1: &str = "weir-prices/1";
const BUILT_IN: &str = include_str!("../../data/prices.json");

/// All prices that are known. It is written as the text that [`PriceBook::from_json`] reads: a
/// start for a book of one's own.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(into = "File")]
pub struct PriceBook {
    pub(super) entries: Vec<Entry>,
}

/// The prices of one region.
#[derive(Clone, Copy, Debug)]
pub struct Prices<'a> {
    book: &'a PriceBook,
    region: &'a str,
}

/// One line of a listing: an item in a region, and its price where that is known.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct PriceRow {
    /// The region's name.
    pub region: String,
    /// What is bought.
    pub item: Item,
    /// What the price is the price of one of.
    pub unit: &'static str,
    /// The price; `None` is unknown.
    pub price: Option<Price>,
}

/// Why a price book could not be read.
#[derive(Debug, Error)]
pub enum PriceBookError {
    /// It is not the JSON that a price book is.
    #[error("this is no price book: {0}")]
    Json(#[from] serde_json::Error),
    /// It is a price book of another kind.
    #[error("price book schema `{0}` is unknown: this version reads `{SCHEMA}` and `{SCHEMA_1}`")]
    Schema(String),
    /// An item is listed twice in a region, so that it is not clear which price holds.
    #[error("price book: `{item}` is listed twice in region `{region}`; keep one of them")]
    Twice {
        /// The region.
        region: String,
        /// The item.
        item: Item,
    },
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
        let Schema { schema } = serde_json::from_str(text)?;
        let entries = match schema.as_str() {
            SCHEMA => {
                serde_json::from_str::<File>(text)?.prices.into_iter().map(Entry::from).collect()
            }
            SCHEMA_1 => serde_json::from_str::<v1::Book>(text)?.entries(),
            _ => return Err(PriceBookError::Schema(schema)),
        };
        let book = Self { entries };
        book.check()?;
        Ok(book)
    }

    fn check(&self) -> Result<(), PriceBookError> {
        for (at, entry) in self.entries.iter().enumerate() {
            let same = |other: &Entry| other.region == entry.region && other.item == entry.item;
            if self.entries[..at].iter().any(same) {
                let Entry { region, item, .. } = entry.clone();
                return Err(PriceBookError::Twice { region, item });
            }
        }
        Ok(())
    }

    /// The prices of `region`; all unknown when the book does not list it.
    pub fn at<'a>(&'a self, region: &'a str) -> Prices<'a> {
        Prices { book: self, region }
    }

    /// The prices of `region`, if the book lists it.
    pub fn listed<'a>(&'a self, region: &'a str) -> Option<Prices<'a>> {
        self.regions().contains(&region).then(|| self.at(region))
    }

    /// The regions that have a price, in the order of their first one.
    pub fn regions(&self) -> Vec<&str> {
        let mut regions: Vec<&str> = Vec::new();
        for Entry { region, .. } in &self.entries {
            if !regions.contains(&region.as_str()) {
                regions.push(region);
            }
        }
        regions
    }

    /// The whole catalogue in each region, the unknown prices among it.
    pub fn rows(&self) -> Vec<PriceRow> {
        self.regions().into_iter().flat_map(|region| self.at(region).rows()).collect()
    }
}

impl<'a> Prices<'a> {
    /// The region's name.
    pub fn region(&self) -> &'a str {
        self.region
    }

    /// The price of an item, where it is known.
    pub fn of(&self, item: &Item) -> Option<&'a Price> {
        let here = |entry: &&Entry| entry.region == self.region && entry.item == *item;
        self.book.entries.iter().find(here).map(|entry| &entry.price)
    }

    /// The whole catalogue here: known prices, unknown ones, and the instances that the book lists
    /// in any region.
    pub fn rows(&self) -> Vec<PriceRow> {
        let mut instances: Vec<Item> = Vec::new();
        for Entry { item, .. } in &self.book.entries {
            if matches!(item, Item::Instance(_)) && !instances.contains(item) {
                instances.push(item.clone());
            }
        }
        let row = |item: Item| PriceRow {
            region: self.region.to_owned(),
            unit: item.unit(),
            price: self.of(&item).cloned(),
            item,
        };
        Item::all().chain(instances).map(row).collect()
    }
}

#[derive(Deserialize)]
struct Schema {
    schema: String,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    schema: String,
    prices: Vec<FileEntry>,
}

/// An entry as it is written: flat, one line each.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileEntry {
    region: String,
    item: Item,
    #[serde(with = "dollars")]
    usd: NanoUsd,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    date: Option<String>,
    source: String,
    confidence: Confidence,
}

impl From<PriceBook> for File {
    fn from(book: PriceBook) -> Self {
        let prices = book.entries.into_iter().map(FileEntry::from).collect();
        Self { schema: SCHEMA.to_owned(), prices }
    }
}

impl From<FileEntry> for Entry {
    fn from(of: FileEntry) -> Self {
        let FileEntry { region, item, usd, date, source, confidence } = of;
        Self { region, item, price: Price { usd, date, source, confidence } }
    }
}

impl From<Entry> for FileEntry {
    fn from(Entry { region, item, price }: Entry) -> Self {
        let Price { usd, date, source, confidence } = price;
        Self { region, item, usd, date, source, confidence }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn usd(book: &PriceBook, region: &str, item: Item) -> Option<NanoUsd> {
        book.at(region).of(&item).map(|price| price.usd)
    }

    #[test]
    fn the_built_in_book_is_sound_and_says_where_its_prices_are_from() {
        let book = PriceBook::built_in();
        for (region, item, nano_usd) in [
            ("us-east-1", Item::S3Storage, 23_000_000),
            ("us-east-1", Item::S3Get, 400_000),
            ("us-east-1", Item::FsxScratch2, 140_000_000),
            ("us-east-1", Item::Instance("r6i.24xlarge".to_owned()), 6_048_000_000),
            ("ap-northeast-2", Item::EfsStandard, 330_000_000),
            ("ap-northeast-2", Item::EfsElasticRead, 30_000_000),
            ("ap-northeast-2", Item::FsxScratch2, 165_000_000),
            ("ap-northeast-2", Item::Instance("r6i.24xlarge".to_owned()), 7_296_000_000),
        ] {
            assert_eq!(usd(&book, region, item.clone()), Some(NanoUsd(nano_usd)), "{item}");
        }
        for Entry { item, price, .. } in &book.entries {
            let founded = !price.source.is_empty() && price.confidence != Confidence::Unsourced;
            assert!(founded, "{item}: who has no source says nothing, and it is unknown");
        }
        let text = serde_json::to_string(&book).expect("writes");
        assert_eq!(PriceBook::from_json(&text).expect("reads"), book);
    }

    #[test]
    fn what_is_not_known_is_listed_as_unknown() {
        let book = PriceBook::built_in();
        assert_eq!(book.at("moon-1").of(&Item::S3Storage), None);
        assert!(book.at("moon-1").rows().iter().all(|row| row.price.is_none()));
        // Nobody knows what Tokyo takes for elastic reads and for Scratch 2.
        for item in [Item::EfsElasticRead, Item::EfsElasticWrite, Item::FsxScratch2] {
            let rows = book.at("ap-northeast-1").rows();
            let row = rows.iter().find(|row| row.item == item).expect("listed");
            assert_eq!((row.price.as_ref(), row.unit), (None, item.unit()));
        }
        let known = book.rows().iter().filter(|row| row.price.is_some()).count();
        assert_eq!(known, book.entries.len(), "each entry is in exactly one row");
    }

    #[test]
    fn books_of_the_first_schema_are_read() {
        let text = r#"{"schema": "weir-prices/1", "s3": [{"region": "here",
            "put_1k": {"usd": 0.005, "source": "test", "confidence": "vendor"}}]}"#;
        let book = PriceBook::from_json(text).expect("reads");
        assert_eq!(usd(&book, "here", Item::S3Put), Some(NanoUsd(5_000_000)));
        assert_eq!(usd(&book, "here", Item::S3Get), None);
    }

    #[test]
    fn bad_books_are_refused_with_their_reason() {
        let entry = |item: &str, usd: &str| {
            format!(
                r#"{{"region": "here", "item": "{item}", "usd": {usd},
                     "source": "test", "confidence": "unsourced"}}"#
            )
        };
        let book = |prices: &str| format!(r#"{{"schema": "{SCHEMA}", "prices": [{prices}]}}"#);
        PriceBook::from_json(&book(&entry("s3.put", "0.5"))).expect("fine");
        let twice = format!("{}, {}", entry("s3.put", "1"), entry("s3.put", "2"));
        for (text, reason) in [
            ("{".to_owned(), "no price book"),
            (r#"{"schema": "other/9", "prices": []}"#.to_owned(), "other/9"),
            (book(&entry("s3.put", "-1")), "price -1"),
            (book(&entry("s3.puts", "1")), "no item is called `s3.puts`"),
            (book(&twice), "`s3.put` is listed twice in region `here`"),
            (book(r#"{"region": "here", "put_price": 1}"#), "put_price"),
        ] {
            let error = PriceBook::from_json(&text).expect_err(&text).to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}
