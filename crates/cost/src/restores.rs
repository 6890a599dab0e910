//! What it costs to have objects restored out of archive classes.

use crate::{Bill, Prices, Restored};

/// What restoring these objects costs.
pub fn price_restores(prices: Prices<'_>, restored: impl IntoIterator<Item = Restored>) -> Bill {
    let lines = restored.into_iter().flat_map(|restored| restored.lines(prices, 1.0));
    Bill::of(prices, lines.collect())
}

#[cfg(test)]
mod tests {
    use weir_types::{ArchiveClass, Restore, RestoreTier};

    use super::*;
    use crate::PriceBook;

    #[test]
    fn what_is_restored_is_paid_by_its_class_and_how_soon_it_is_to_come() {
        let book = PriceBook::built_in();
        let prices = book.at("us-east-1");
        let of = |class, tier, days| {
            let restore = Restore { tier, days };
            price_restores(prices, [Restored::of(class, restore, 15_000_000, 102_400 << 30)])
        };
        // 750 USD of requests and 1,024 of bytes, as AWS works it out; and 30.4 days are a month at 0.023.
        let standard = of(ArchiveClass::Glacier, RestoreTier::Standard, 0);
        assert_eq!((standard.amount().dollars(), standard.complete), (1_774.0, true));
        let kept = of(ArchiveClass::Glacier, RestoreTier::Bulk, 73);
        assert_eq!(kept.amount().dollars().round(), (102_400.0 * 0.023_f64 * 2.4).round());
        assert!(
            of(ArchiveClass::Glacier, RestoreTier::Expedited, 0).amount().dollars() > 150_000.0
        );
        let tiering = of(ArchiveClass::IntelligentTiering, RestoreTier::Bulk, 9);
        assert_eq!(tiering.amount().dollars(), 0.0);
        // Nobody says what the requests cost: the total is what is known.
        let deep = of(ArchiveClass::DeepArchive, RestoreTier::Bulk, 0);
        assert_eq!((deep.amount().dollars(), deep.complete), (256.0, false));
    }
}
