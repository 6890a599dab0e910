//! AWS's public price lists ("offer files"), read as entries of a price book.
//!
//! A list is a table of all that a service sells in a region. Of its rows, those are read that
//! price an [`Item`]: on demand, in dollars. What a list does not have is named, not guessed.

mod error;
mod offer;
mod rules;
mod table;

use std::io::BufRead;

use schemars::JsonSchema;
use serde::Serialize;
use weir_types::NanoUsd;

use super::entry::{Confidence, Entry, Price};
use super::item::Item;
pub use error::OfferError;
pub use offer::Offer;
use table::{Row, Table};

/// What a price list says of the items of a price book.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PriceList")]
pub struct Found {
    /// Which list it is.
    pub offer: Offer,
    /// When AWS published it, such as `2026-08-31T09:22:25Z`.
    pub published: String,
    /// The prices, in the order of the catalogue.
    #[serde(skip)]
    pub entries: Vec<Entry>,
    /// What the list could have priced and does not.
    pub missing: Vec<Item>,
    /// What the list prices in a way that is not understood.
    pub refused: Vec<Refused>,
}

/// An item whose price is not taken from a list that has one.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "RefusedPrice")]
pub struct Refused {
    /// The item.
    pub item: Item,
    /// Why not.
    pub why: String,
}

impl Offer {
    /// The items that it may price, these types of instances among them.
    pub fn items(self, instances: &[String]) -> Vec<Item> {
        rules::items(self, instances)
    }

    /// The items that no list prices: S3 Files, for which there is none, and what is free.
    pub fn unlisted() -> Vec<Item> {
        let listed = |item: &Item| Self::ALL.iter().any(|offer| offer.items(&[]).contains(item));
        Item::all().filter(|item| !listed(item)).collect()
    }
}

/// A row that prices an item.
struct Offered {
    item: Item,
    usd: f64,
    /// Where its tier begins.
    from: f64,
    sku: String,
    usage: String,
    /// Some rows are for one operation only.
    any_operation: bool,
}

/// Reads a price list (index.csv), of a region or of all, as prices in `region`. `source` is what
/// it was read from, a URL or a file. Of EC2, only `instances` are read.
///
/// Memory does not grow with the list.
///
/// # Errors
/// When it is no price list, or broken, of other regions, or not in USD.
pub fn read_offer(
    from: impl BufRead,
    region: &str,
    source: &str,
    instances: &[String],
) -> Result<Found, OfferError> {
    let mut table = Table::open(from)?;
    let code = table.about("OfferCode")?;
    let offer = Offer::ALL.into_iter().find(|offer| offer.code() == code);
    let offer = offer.ok_or_else(|| OfferError::OtherOffer(code.to_owned()))?;
    let published = table.about("Publication Date")?.to_owned();
    for column in rules::columns(offer) {
        table.need(column)?;
    }
    let mut read = Read { offer, instances, offered: Vec::new(), refused: Vec::new() };
    let (mut here, mut elsewhere) = (false, None);
    while let Some(row) = table.row()? {
        if row.get("TermType") != "OnDemand" {
            continue;
        }
        let of = row.get(offer.region_column());
        if of != region {
            elsewhere.get_or_insert_with(|| of.to_owned());
            continue;
        }
        here = true;
        read.row(&row)?;
    }
    match elsewhere {
        _ if here => {}
        Some(found) => return Err(OfferError::Region { wanted: region.to_owned(), found }),
        None => return Err(OfferError::Empty),
    }
    Ok(read.found(region, source, published))
}

/// What was read so far: at most a few rows for each item.
struct Read<'a> {
    offer: Offer,
    instances: &'a [String],
    offered: Vec<Offered>,
    refused: Vec<Refused>,
}

impl Read<'_> {
    fn row(&mut self, row: &Row<'_>) -> Result<(), OfferError> {
        if !matches!(row.get(self.offer.place_column()), "" | "AWS Region") {
            return Ok(());
        }
        let Some(item) = rules::item(self.offer, row, self.instances) else { return Ok(()) };
        let line = row.line;
        let found = row.get("Currency");
        if found != "USD" {
            return Err(OfferError::Currency { line, found: found.to_owned() });
        }
        let number = |column: &str| {
            let value: Option<f64> = row.get(column).parse().ok();
            let value = value.filter(|value| (0.0..=1e6).contains(value));
            let why = || format!("its {column} is `{}`", row.get(column));
            value.ok_or_else(|| OfferError::Row { line, why: why() })
        };
        let price = number("PricePerUnit")?;
        // A row for nothing is what is included or a free tier, and the price stands in another.
        if price == 0.0 {
            return Ok(());
        }
        let unit = row.get("Unit");
        let Some(usd) = rules::convert(&item, price, unit) else {
            let why = format!("its unit is `{unit}` and not a {}", item.unit());
            if self.refused.iter().all(|refused| refused.item != item) {
                self.refused.push(Refused { item, why });
            }
            return Ok(());
        };
        self.take(Offered {
            item,
            usd,
            from: number("StartingRange")?,
            sku: row.get("SKU").to_owned(),
            usage: row.get("usageType").to_owned(),
            any_operation: row.get("operation").is_empty(),
        });
        Ok(())
    }

    /// Keeps the first tier of each product.
    fn take(&mut self, new: Offered) {
        let same = |of: &&mut Offered| of.item == new.item && of.sku == new.sku;
        match self.offered.iter_mut().find(same) {
            Some(kept) if new.from < kept.from => *kept = new,
            Some(_) => {}
            None => self.offered.push(new),
        }
    }

    fn found(mut self, region: &str, source: &str, published: String) -> Found {
        let (mut entries, mut missing) = (Vec::new(), Vec::new());
        for item in self.offer.items(self.instances) {
            let of_item = || self.offered.iter().filter(|offered| offered.item == item);
            // A row for one operation only is not the price of the item where there is another.
            let general = of_item().any(|of| of.any_operation);
            let rows: Vec<&Offered> = of_item().filter(|of| of.any_operation || !general).collect();
            let refused = self.refused.iter().any(|refused| refused.item == item);
            let Some(first) = rows.first() else {
                missing.extend((!refused).then_some(item));
                continue;
            };
            let usd = NanoUsd((first.usd * 1e9).round() as i64);
            if let Some(other) = rows.iter().find(|of| (of.usd / first.usd - 1.0).abs() > 1e-6) {
                let why = format!(
                    "two products have different prices: {} ({}) and {} ({})",
                    first.usd, first.sku, other.usd, other.sku
                );
                self.refused.push(Refused { item, why });
                continue;
            }
            let (code, sku, usage) = (self.offer.code(), &first.sku, &first.usage);
            let day = published.split('T').next().unwrap_or(&published).to_owned();
            let price = Price {
                usd,
                date: Some(day),
                source: format!("AWS price list {code}, {usage}, SKU {sku}, in {source}"),
                confidence: Confidence::Vendor,
            };
            entries.push(Entry { region: region.to_owned(), item, price });
        }
        self.refused.retain(|refused| !entries.iter().any(|entry| entry.item == refused.item));
        Found { offer: self.offer, published, entries, missing, refused: self.refused }
    }
}
