//! A book with newer prices, and what changes by them.

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::Serialize;
use weir_types::NanoUsd;

use super::book::PriceBook;
use super::entry::{Entry, Price};
use super::item::Item;
use crate::machines;

/// A price does not change by more than this factor: a list that was misread is likelier.
const SUSPICIOUS: f64 = 3.0;

/// Which prices a book takes from others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Take {
    /// Those that are plausible, and not older than what the book has.
    Plausible,
    /// All.
    All,
}

/// What a found price is beside the one that the book has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "PriceChangeKind")]
pub enum ChangeKind {
    /// The book had none.
    New,
    /// The same amount: what changes is its date and source.
    Confirmed,
    /// Another amount.
    Changed,
    /// More than three times as much as before, or less than a third. Without a price before, it
    /// is held against the item's price in another region.
    Suspicious,
    /// As of an earlier day than the price that the book has.
    Older,
}

/// What becomes of one price of a book.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "PriceChange")]
pub struct Change {
    /// The region.
    pub region: String,
    /// What is bought.
    pub item: Item,
    /// The price that the book had.
    pub before: Option<Price>,
    /// The price that was found.
    pub after: Price,
    /// How many times as much it is as before, or as in another region.
    pub times: Option<f64>,
    /// What it is beside the one before.
    pub kind: ChangeKind,
    /// Whether the new book has it.
    pub taken: bool,
}

impl PriceBook {
    /// The types of instances that are worth a price: those that the book lists anywhere, and the
    /// machines that the advisor knows.
    pub fn instance_types(&self) -> Vec<String> {
        let listed = self.entries.iter().filter_map(|entry| match &entry.item {
            Item::Instance(instance) => Some(instance.clone()),
            _ => None,
        });
        let known = machines().into_iter().map(|machine| machine.instance);
        listed.chain(known).collect::<BTreeSet<_>>().into_iter().collect()
    }

    /// A book with the prices that were found, and what each of them changes. This book stays as
    /// it is: show the changes before the new one replaces it.
    pub fn updated(&self, found: &[Entry], take: Take) -> (Self, Vec<Change>) {
        let mut book = self.clone();
        let changes = found.iter().map(|entry| book.take(entry, take)).collect();
        (book, changes)
    }

    fn take(&mut self, new: &Entry, take: Take) -> Change {
        let Entry { region, item, price } = new;
        let before = self.at(region).of(item).cloned();
        let yardstick = before.as_ref().or_else(|| {
            let same = self.entries.iter().find(|entry| entry.item == *item);
            same.map(|entry| &entry.price)
        });
        let times = yardstick.and_then(|old| times(price.usd, old.usd));
        let kind = kind(before.as_ref(), price, times, yardstick.is_some());
        let taken =
            take == Take::All || !matches!(kind, ChangeKind::Suspicious | ChangeKind::Older);
        if taken {
            self.put(new.clone());
        }
        let (region, item) = (region.clone(), item.clone());
        Change { region, item, before, after: price.clone(), times, kind, taken }
    }

    /// In place of the one before, or after the last one of its region.
    fn put(&mut self, new: Entry) {
        let here = |entry: &Entry| entry.region == new.region && entry.item == new.item;
        if let Some(old) = self.entries.iter_mut().find(|entry| here(entry)) {
            *old = new;
            return;
        }
        let last = self.entries.iter().rposition(|entry| entry.region == new.region);
        self.entries.insert(last.map_or(self.entries.len(), |at| at + 1), new);
    }
}

fn kind(before: Option<&Price>, after: &Price, times: Option<f64>, compared: bool) -> ChangeKind {
    let plausible = times.is_some_and(|times| (1.0 / SUSPICIOUS..=SUSPICIOUS).contains(&times));
    match before {
        Some(before) if older(after, before) => ChangeKind::Older,
        Some(before) if before.usd == after.usd => ChangeKind::Confirmed,
        _ if compared && !plausible => ChangeKind::Suspicious,
        Some(_) => ChangeKind::Changed,
        None => ChangeKind::New,
    }
}

/// How many times as much; not said where either is free.
fn times(after: NanoUsd, before: NanoUsd) -> Option<f64> {
    (after.0 > 0 && before.0 > 0).then(|| after.0 as f64 / before.0 as f64)
}

/// Days are written so that they sort; of one of which less is known, that much is compared.
fn older(after: &Price, before: &Price) -> bool {
    let (Some(after), Some(before)) = (&after.date, &before.date) else { return false };
    let known = after.len().min(before.len());
    after.get(..known) < before.get(..known)
}

#[cfg(test)]
mod tests {
    use super::super::Confidence;
    use super::*;

    fn entry(region: &str, item: &Item, usd: f64, date: Option<&str>) -> Entry {
        let price = Price {
            usd: NanoUsd((usd * 1e9) as i64),
            date: date.map(str::to_owned),
            source: "test".to_owned(),
            confidence: Confidence::Vendor,
        };
        Entry { region: region.to_owned(), item: item.clone(), price }
    }

    fn book() -> PriceBook {
        let entries = vec![
            entry("here", &Item::S3Get, 0.0004, Some("2026-09")),
            entry("here", &Item::S3Delete, 0.0, None),
            entry("there", &Item::S3Put, 0.005, None),
        ];
        PriceBook { entries }
    }

    /// What becomes of one found price, and what the book then has.
    fn found(new: &Entry, take: Take) -> (Change, Option<NanoUsd>) {
        let (book, changes) = book().updated(std::slice::from_ref(new), take);
        let price = book.at(&new.region).of(&new.item).map(|price| price.usd);
        (changes.into_iter().next().expect("one"), price)
    }

    #[test]
    fn a_found_price_is_held_against_the_one_before() {
        for (item, usd, date, kind) in [
            (Item::S3Get, 0.0005, "2026-10-01", ChangeKind::Changed),
            (Item::S3Get, 0.0004, "2026-09-30", ChangeKind::Confirmed),
            (Item::S3Get, 0.0013, "2026-10-01", ChangeKind::Suspicious),
            (Item::S3Get, 0.0001, "2026-10-01", ChangeKind::Suspicious),
            (Item::S3Get, 0.0005, "2026-08-31", ChangeKind::Older),
            (Item::S3Get, 0.0, "2026-10-01", ChangeKind::Suspicious),
            (Item::S3Delete, 0.001, "2026-10-01", ChangeKind::Suspicious),
            (Item::S3Put, 0.0045, "2026-10-01", ChangeKind::New),
            (Item::S3Put, 0.0000045, "2026-10-01", ChangeKind::Suspicious),
            (Item::Gp3Storage, 0.08, "2026-10-01", ChangeKind::New),
        ] {
            let new = entry("here", &item, usd, Some(date));
            let before = book().at("here").of(&item).cloned();
            let (change, price) = found(&new, Take::Plausible);
            assert_eq!((change.kind, &change.before), (kind, &before), "{item} {usd}");
            let taken = !matches!(kind, ChangeKind::Suspicious | ChangeKind::Older);
            let kept = if taken { Some(new.price.usd) } else { before.map(|price| price.usd) };
            assert_eq!((change.taken, price), (taken, kept), "{item} {usd}");
            let (change, price) = found(&new, Take::All);
            assert_eq!((change.taken, price), (true, Some(new.price.usd)), "{item} {usd}");
        }
    }

    #[test]
    fn machines_are_worth_a_price_before_the_book_has_one() {
        let mut book = book();
        book.put(entry("here", &Item::Instance("x9.huge".to_owned()), 9.0, None));
        let types = book.instance_types();
        assert!(types.contains(&"x9.huge".to_owned()) && types.contains(&"c5.2xlarge".to_owned()));
        assert_eq!(types.len(), machines().len() + 1);
    }

    #[test]
    fn an_updated_book_is_sound_and_keeps_what_was_not_found() {
        let twice = [
            entry("here", &Item::S3Put, 0.005, Some("2026-10-01")),
            entry("here", &Item::S3Put, 0.005, Some("2026-10-01")),
            entry("nowhere", &Item::S3Put, 0.005, None),
        ];
        let (updated, changes) = book().updated(&twice, Take::Plausible);
        let kinds: Vec<ChangeKind> = changes.iter().map(|change| change.kind).collect();
        assert_eq!(kinds, [ChangeKind::New, ChangeKind::Confirmed, ChangeKind::New]);
        assert_eq!(updated.regions(), ["here", "there", "nowhere"]);
        let text = serde_json::to_string(&updated).expect("writes");
        assert_eq!(PriceBook::from_json(&text).expect("sound"), updated);
        let kept = updated.at("here").of(&Item::S3Get).map(|price| price.usd);
        assert_eq!(kept, Some(NanoUsd(400_000)));
        let shown = serde_json::to_value(&changes[0]).expect("writes");
        assert_eq!((shown["item"].as_str(), shown["kind"].as_str()), (Some("s3.put"), Some("new")));
    }
}
