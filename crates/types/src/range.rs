//! A part of a file, or of anything else that has bytes.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The bytes from `start` up to `end`, without the one at `end`. Kept and shown as `[start, end]`.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(from = "(u64, u64)", into = "(u64, u64)")]
pub struct ByteRange {
    /// The first byte of it.
    pub start: u64,
    /// The first byte behind it.
    pub end: u64,
}

impl ByteRange {
    /// The bytes from `start` up to `end`.
    pub const fn new(start: u64, end: u64) -> Self {
        Self { start, end }
    }

    /// How many bytes it has.
    pub const fn len(self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Whether it has none.
    pub const fn is_empty(self) -> bool {
        self.start >= self.end
    }

    /// What of it lies within `start..end`; may be empty.
    pub fn within(self, start: u64, end: u64) -> Self {
        Self { start: self.start.max(start), end: self.end.min(end) }
    }
}

impl From<(u64, u64)> for ByteRange {
    fn from((start, end): (u64, u64)) -> Self {
        Self { start, end }
    }
}

impl From<ByteRange> for (u64, u64) {
    fn from(range: ByteRange) -> Self {
        (range.start, range.end)
    }
}

impl PartialEq<(u64, u64)> for ByteRange {
    fn eq(&self, other: &(u64, u64)) -> bool {
        (self.start, self.end) == *other
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_is_kept_as_the_pair_that_it_was() {
        let range = ByteRange::new(4, 9);
        assert_eq!(serde_json::to_string(&range).expect("JSON"), "[4,9]");
        assert_eq!(serde_json::from_str::<ByteRange>("[4,9]").expect("JSON"), range);
    }

    #[test]
    fn what_lies_outside_is_empty() {
        let range = ByteRange::new(4, 9);
        assert_eq!(range.within(0, 6), (4, 6));
        assert!(range.within(9, 20).is_empty() && range.within(0, 4).is_empty());
        assert_eq!((range.len(), ByteRange::new(9, 4).len()), (5, 0));
    }
}
