//! What it costs to list a bucket again and again.

use std::time::Duration;

use crate::Prices;
use crate::bill::{Amount, Requests, Usage, per_month};

/// Keys in the answer to one LIST.
const PAGE_KEYS: u64 = 1_000;

/// LISTs that show so many objects: at least one.
pub fn lists_of(objects: u64) -> u64 {
    objects.div_ceil(PAGE_KEYS).max(1)
}

/// What a month costs of so many LISTs `every` so often.
pub fn polls_per_month(prices: Prices<'_>, lists: u64, every: Duration) -> Amount {
    let requests = Requests { put: lists, ..Requests::default() };
    let bill = per_month(prices, &Usage { requests, observed: every, ..Usage::default() });
    Amount { usd: bill.total, complete: bill.complete }
}

#[cfg(test)]
mod tests {
    use weir_types::NanoUsd;

    use super::*;
    use crate::PriceBook;

    #[test]
    fn a_million_objects_each_minute_cost_two_hundred_dollars_a_month() {
        let book = PriceBook::built_in();
        let minute = Duration::from_secs(60);
        let cost = polls_per_month(book.at("us-east-1"), lists_of(1_000_000), minute);
        assert_eq!(cost, Amount { usd: NanoUsd(219_000_000_000), complete: true });
        assert_eq!([0, 1, 1_000, 1_001].map(lists_of), [1, 1, 1, 2]);
        assert!(!polls_per_month(book.at("nowhere"), 1, minute).complete);
    }
}
