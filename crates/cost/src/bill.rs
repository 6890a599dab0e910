//! Bills: quantities times prices, line by line.

use std::fmt;
use std::time::Duration;

use serde::Serialize;
use weir_types::NanoUsd;

use crate::{Price, S3Prices};

/// Bytes in a GB as S3 bills it.
const GB: f64 = (1_u64 << 30) as f64;

/// Hours in a month as price lists count it: 8,760 / 12.
const MONTH_SECONDS: f64 = 730.0 * 3600.0;

/// Requests by what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// PUT, COPY and LIST.
    pub put: u64,
    /// GET and HEAD.
    pub get: u64,
    /// DELETE.
    pub delete: u64,
}

/// What was used while somebody watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that were stored, as an average over the time watched.
    pub stored_bytes: u64,
    /// Requests made.
    pub requests: Requests,
    /// Bytes sent out of the region; 0 for a client inside it.
    pub out_bytes: u64,
    /// How long this was watched.
    pub observed: Duration,
}

/// One line of a bill.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Line {
    /// What was used.
    pub what: &'static str,
    /// How many units of it.
    pub quantity: f64,
    /// The unit, in words.
    pub unit: &'static str,
    /// The price of one unit, unless unknown.
    #[serde(rename = "unit_price_nano_usd")]
    pub unit_price: Option<NanoUsd>,
    /// The whole line, unless unknown. Nothing used costs nothing whatever its price.
    #[serde(rename = "amount_nano_usd")]
    pub amount: Option<NanoUsd>,
}

/// What something costs.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Bill {
    /// Its lines, those with nothing used among them.
    pub lines: Vec<Line>,
    /// The sum of the known amounts: all that is owed when `complete`, else the least of it.
    #[serde(rename = "total_nano_usd")]
    pub total: NanoUsd,
    /// Whether every amount is known.
    pub complete: bool,
}

/// What `usage` cost: the time that the bytes were kept, the requests, and the transfer.
pub fn so_far(prices: &S3Prices, usage: &Usage) -> Bill {
    let months = usage.observed.as_secs_f64() / MONTH_SECONDS;
    let Requests { put, get, delete } = usage.requests;
    let out_gb = usage.out_bytes as f64 / GB;
    Bill::of(vec![
        storage(prices, usage.stored_bytes, months),
        requests("PUT, COPY and LIST requests", put, &prices.put_1k),
        requests("GET and HEAD requests", get, &prices.get_1k),
        requests("DELETE requests", delete, &prices.delete_1k),
        Line::of("transfer out of the region", out_gb, "GB", &prices.transfer_out_gb),
    ])
}

/// What keeping `stored_bytes` for a month of 730 hours costs, with no request made.
pub fn month(prices: &S3Prices, stored_bytes: u64) -> Bill {
    Bill::of(vec![storage(prices, stored_bytes, 1.0)])
}

fn storage(prices: &S3Prices, stored_bytes: u64, months: f64) -> Line {
    let gb_months = stored_bytes as f64 / GB * months;
    Line::of("storage", gb_months, "GB-month", &prices.storage_gb_month)
}

fn requests(what: &'static str, count: u64, price_1k: &Option<Price>) -> Line {
    Line::of(what, count as f64 / 1000.0, "1,000 requests", price_1k)
}

impl Line {
    fn of(what: &'static str, quantity: f64, unit: &'static str, price: &Option<Price>) -> Self {
        let unit_price = price.as_ref().map(|price| price.usd);
        // Exact to the nano-dollar below 2^53 of them, which is nine million dollars; `as` takes
        // more than the largest amount for the largest.
        let times = |price: NanoUsd| NanoUsd((price.0 as f64 * quantity).round() as i64);
        let nothing = (quantity == 0.0).then_some(NanoUsd(0));
        Self { what, quantity, unit, unit_price, amount: nothing.or(unit_price.map(times)) }
    }
}

impl Bill {
    fn of(lines: Vec<Line>) -> Self {
        let complete = lines.iter().all(|line| line.amount.is_some());
        let total = lines.iter().filter_map(|line| line.amount).sum();
        Self { lines, total, complete }
    }
}

impl fmt::Display for Bill {
    /// The total alone: `$12.34`, or `at least $12.34` when some price is unknown.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let least = if self.complete { "" } else { "at least " };
        write!(f, "{least}{}", self.total)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PriceBook;

    const GIB: u64 = 1 << 30;

    fn amounts(bill: &Bill) -> Vec<Option<i64>> {
        bill.lines.iter().map(|line| line.amount.map(|amount| amount.0)).collect()
    }

    #[test]
    fn a_month_of_a_terabyte() {
        let prices = PriceBook::built_in().s3("us-east-1");
        // 1,024 GB x $0.023 = $23.552.
        let bill = month(&prices, 1024 * GIB);
        assert_eq!(bill.total, NanoUsd(23_552_000_000));
        assert!(bill.complete);
        assert_eq!(bill.to_string(), "$23.55");
    }

    #[test]
    fn an_hour_of_work() {
        let prices = PriceBook::built_in().s3("us-east-1");
        let usage = Usage {
            stored_bytes: 73 * GIB,
            requests: Requests { put: 250, get: 1_000_000, delete: 9_000 },
            out_bytes: 0,
            observed: Duration::from_secs(3600),
        };
        let bill = so_far(&prices, &usage);
        // 73 GB for 1 of 730 hours = 0.1 GB-month x $0.023 = $0.0023.
        // 250 PUTs = 0.25 thousand x $0.005 = $0.00125.
        // 1,000,000 GETs = 1,000 thousand x $0.0004 = $0.40.
        // DELETE is free; nothing left the region, so its unknown price does not matter.
        let expected = [2_300_000, 1_250_000, 400_000_000, 0, 0].map(Some);
        assert_eq!(amounts(&bill), expected);
        assert_eq!(bill.total, NanoUsd(403_550_000));
        assert!(bill.complete);
    }

    #[test]
    fn the_promise_in_the_settings_holds() {
        // One PUT a second for a month of 730 hours = 2,628,000 x $0.000005 = $13.14.
        let prices = PriceBook::built_in().s3("us-east-1");
        let requests = Requests { put: 730 * 3600, ..Requests::default() };
        let bill = so_far(&prices, &Usage { requests, ..Usage::default() });
        assert_eq!(bill.total, NanoUsd(13_140_000_000));
    }

    #[test]
    fn seoul_has_its_own_prices() {
        // 100 GB x $0.025 = $2.50 a month; 1,000 PUTs = $0.0045; 1,000 GETs = $0.00035.
        let prices = PriceBook::built_in().s3("ap-northeast-2");
        let requests = Requests { put: 1000, get: 1000, delete: 0 };
        let observed = Duration::from_secs(730 * 3600);
        let usage = Usage { stored_bytes: 100 * GIB, requests, out_bytes: 0, observed };
        let bill = so_far(&prices, &usage);
        let expected = [2_500_000_000, 4_500_000, 350_000, 0, 0].map(Some);
        assert_eq!(amounts(&bill), expected);
    }

    #[test]
    fn unknown_is_never_zero() {
        let prices = PriceBook::built_in().s3("us-east-1");
        let usage = Usage { out_bytes: 1, ..Usage::default() };
        let bill = so_far(&prices, &usage);
        assert_eq!(bill.lines[4].amount, None);
        assert!(!bill.complete);
        assert_eq!(bill.to_string(), "at least $0.00");

        let nowhere = month(&S3Prices::default(), 1);
        assert_eq!((nowhere.lines[0].amount, nowhere.complete), (None, false));
        assert!(month(&S3Prices::default(), 0).complete, "nothing stored costs nothing");
    }
}
