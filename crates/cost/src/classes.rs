//! What it costs to move objects between storage classes, and what that saves.

use schemars::JsonSchema;
use serde::Serialize;
use weir_types::ClassMove;

use crate::bill::{GB, MONTH_HOURS};
use crate::{Amount, Bill, Item, Line, Prices};

/// What moves cost once, and what is kept costs before and after them.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct MovesPrice {
    /// The requests, and what leaves too early.
    pub once: Bill,
    /// A month of keeping what moves, where it is.
    pub month_before: Bill,
    /// The same after the moves.
    pub month_after: Bill,
    /// GB that may be read back from there each month until that costs what is saved; none where nothing is saved, or
    /// a price is not known.
    pub even_gb_a_month: Option<f64>,
}

/// What these moves cost. They are COPY requests, at the price of the class that they lead to; nothing is read.
pub fn price_moves(prices: Prices<'_>, moves: &[ClassMove]) -> MovesPrice {
    let (mut once, mut before, mut after) = (Vec::new(), Vec::new(), Vec::new());
    let mut read_back = Amount { usd: Default::default(), complete: true };
    for ClassMove { from, to, objects, bytes, early_byte_days } in moves.iter().copied() {
        let (old, new) = (Item::of_class(from), Item::of_class(to));
        let gb = bytes as f64 / GB;
        let line = |what: String, item, quantity| Line::of(prices, &what, item, quantity);
        once.push(line(format!("moved into {to}"), new.put, objects as f64 / 1000.0));
        let early = early_byte_days as f64 / GB / (MONTH_HOURS / 24.0);
        if early > 0.0 {
            once.push(line(format!("left {from} before its days"), old.keep.clone(), early));
        }
        before.push(line(format!("storage in {from}"), old.keep, gb));
        after.push(line(format!("storage in {to}"), new.keep, gb));
        let more = new.retrieve.map(|item| line(String::new(), item, gb));
        read_back = read_back + Bill::of(prices, more.into_iter().collect()).amount();
    }
    let bill = |lines| Bill::of(prices, lines);
    let (once, month_before, month_after) = (bill(once), bill(before), bill(after));
    let all_gb = moves.iter().map(|of| of.bytes).sum::<u64>() as f64 / GB;
    let saved = month_before.amount().dollars() - month_after.amount().dollars();
    let known = month_before.complete && month_after.complete && read_back.complete;
    let even = known && saved > 0.0 && read_back.dollars() > 0.0;
    let even_gb_a_month = even.then(|| saved / read_back.dollars() * all_gb);
    MovesPrice { once, month_before, month_after, even_gb_a_month }
}

#[cfg(test)]
mod tests {
    use weir_types::StorageClass;

    use super::*;
    use crate::PriceBook;

    #[test]
    fn a_tib_that_is_cold_pays_its_move_back_in_minutes_and_its_reads_by_the_gb() {
        let book = PriceBook::built_in();
        let prices = book.at("us-east-1");
        let of = |to| ClassMove {
            from: StorageClass::Standard,
            to,
            objects: 65_536,
            bytes: 1 << 40,
            early_byte_days: 0,
        };
        let cold = price_moves(prices, &[of(StorageClass::StandardIa)]);
        assert_eq!(cold.once.to_string(), "$0.655");
        assert_eq!(cold.month_before.to_string(), "$23.55");
        assert_eq!(cold.month_after.to_string(), "$12.80");
        // 10.75 USD are saved, and a GB read costs a cent.
        assert_eq!(cold.even_gb_a_month.map(f64::round), Some(1_075.0));
        let early = ClassMove { from: StorageClass::GlacierIr, ..of(StorageClass::Standard) };
        let early = ClassMove { early_byte_days: 73 << 40, ..early };
        let back = price_moves(prices, &[early]);
        // 2.4 months of 1,024 GB at 0.004, and the requests.
        assert_eq!(back.once.to_string(), "$10.16");
        assert_eq!(back.even_gb_a_month, None);
    }
}
