//! How old segments are, in days, and what leaving a storage class early costs.

use weir_meta::SegmentAge;
use weir_types::SegmentId;

use crate::volume::context::Counts;

/// Milliseconds of a day.
const DAY_MS: u64 = 86_400_000;

/// A day, counted from 1970.
pub(crate) fn day_of(unix_ms: u64) -> u32 {
    u32::try_from(unix_ms / DAY_MS).unwrap_or(u32::MAX)
}

/// What is noted of a segment's age; where nothing is, it was used when it was made.
pub(crate) fn age_of(id: SegmentId, noted: Option<SegmentAge>) -> SegmentAge {
    let made = day_of(id.unix_ms());
    noted.unwrap_or(SegmentAge { used_day: made, since_day: made, ..SegmentAge::default() })
}

/// Bytes times days for which an object is paid where it is, though it leaves on this day.
pub(crate) fn early_byte_days(age: &SegmentAge, bytes: u64, today: u32) -> u64 {
    let stayed = today.saturating_sub(age.since_day);
    bytes.saturating_mul(age.class.days_min().saturating_sub(stayed).into())
}

impl Counts {
    /// An object of so many bytes leaves its class: what is paid for it all the same.
    pub(crate) fn left_class(&self, age: &SegmentAge, bytes: u64, today: u32) {
        if let Some(at) = age.class.cold_index() {
            Self::add(&self.cold[at].early_byte_days, early_byte_days(age, bytes, today));
        }
    }
}

#[cfg(test)]
mod tests {
    use weir_types::StorageClass;

    use super::*;

    #[test]
    fn what_leaves_early_is_paid_for_the_days_that_are_left() {
        let id = SegmentId::new(20_000 * DAY_MS + 5, 7);
        let young = age_of(id, None);
        assert_eq!((young.used_day, young.class), (20_000, StorageClass::Standard));
        assert_eq!(early_byte_days(&young, 100, 20_000), 0);
        let cold = SegmentAge { class: StorageClass::GlacierIr, since_day: 20_010, ..young };
        assert_eq!(age_of(id, Some(cold)), cold);
        for (today, early) in [(20_010, 9_000), (20_099, 100), (20_100, 0), (20_000, 9_000)] {
            assert_eq!(early_byte_days(&cold, 100, today), early, "{today}");
        }
    }
}
