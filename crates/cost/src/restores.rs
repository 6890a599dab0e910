//! What it costs to have objects restored out of archive classes.

use weir_types::Restore;

use crate::bill::{GB, MONTH_HOURS};
use crate::{Bill, Item, Line, Prices};

/// What restoring these objects costs, each kind with its class, its number and its bytes: the requests, what is read
/// from the archive, and the copies for as many days, which are kept at the price of the first class. What
/// INTELLIGENT_TIERING had put away stays where it is kept.
pub fn price_restores<'a>(
    prices: Prices<'_>,
    restore: Restore,
    objects: impl IntoIterator<Item = (&'a str, u64, u64)>,
) -> Bill {
    let mut lines = Vec::new();
    for (class, objects, bytes) in objects {
        let gb = bytes as f64 / GB;
        if let Some((read, asked)) = Item::of_restore(class, restore.tier) {
            let thousands = objects as f64 / 1000.0;
            lines.push(Line::of(prices, &format!("restored from {class}"), read, gb));
            lines.push(Line::of(prices, &format!("asked of {class}"), asked, thousands));
        }
        if class != "INTELLIGENT_TIERING" {
            let months = f64::from(restore.days) * 24.0 / MONTH_HOURS;
            let what = format!("copies of {class}, {} days", restore.days);
            lines.push(Line::of(prices, &what, Item::S3Storage, gb * months));
        }
    }
    Bill::of(prices, lines)
}

#[cfg(test)]
mod tests {
    use weir_types::RestoreTier;

    use super::*;
    use crate::PriceBook;

    #[test]
    fn what_is_restored_is_paid_by_its_class_and_how_soon_it_is_to_come() {
        let book = PriceBook::built_in();
        let prices = book.at("us-east-1");
        let of = |class, tier, days| {
            let restore = Restore { tier, days };
            price_restores(prices, restore, [(class, 15_000_000, 102_400 << 30)])
        };
        // 750 USD of requests and 1,024 of bytes, as AWS works it out; and 30.4 days are a month at 0.023.
        let standard = of("GLACIER", RestoreTier::Standard, 0);
        assert_eq!((standard.amount().dollars(), standard.complete), (1_774.0, true));
        let kept = of("GLACIER", RestoreTier::Bulk, 73);
        assert_eq!(kept.amount().dollars().round(), (102_400.0 * 0.023_f64 * 2.4).round());
        assert!(of("GLACIER", RestoreTier::Expedited, 0).amount().dollars() > 150_000.0);
        assert_eq!(of("INTELLIGENT_TIERING", RestoreTier::Bulk, 9).amount().dollars(), 0.0);
        // Nobody says what the requests cost: the total is what is known.
        let deep = of("DEEP_ARCHIVE", RestoreTier::Bulk, 0);
        assert_eq!((deep.amount().dollars(), deep.complete), (256.0, false));
    }
}
