//! What something was over time, and what of that a loss may bring back.

use weir_engine::AcceptLoss;

/// What something was, in order, and how much of that is safe from what.
pub(super) struct History<T> {
    values: Vec<T>,
    /// The oldest value that may be there when a tier is lost, or the power was cut.
    synced: usize,
    /// The oldest one when the journal is lost as well.
    in_bucket: usize,
}

impl<T: Copy + PartialEq + std::fmt::Debug> History<T> {
    pub(super) fn new(value: T) -> Self {
        Self { values: vec![value], synced: 0, in_bucket: 0 }
    }

    pub(super) fn now(&self) -> T {
        self.values[self.values.len() - 1]
    }

    pub(super) fn set(&mut self, value: T) {
        self.values.push(value);
    }

    pub(super) fn sync(&mut self, to_bucket: bool) {
        self.synced = self.values.len() - 1;
        if to_bucket {
            self.in_bucket = self.synced;
        }
    }

    /// What is there after a loss is what it is now; it is no safer than what it was before.
    pub(super) fn found(&mut self, value: T, lost: AcceptLoss, what: &str) {
        let oldest = match lost {
            AcceptLoss::Nothing => self.values.len() - 1,
            AcceptLoss::Tier => self.synced,
            AcceptLoss::All => self.in_bucket,
        };
        let allowed = &self.values[oldest..];
        assert!(allowed.contains(&value), "{what}: {value:?} is none of {allowed:?}");
        if lost == AcceptLoss::All {
            self.synced = self.in_bucket;
        }
        if lost > AcceptLoss::Nothing {
            self.values.push(value);
        }
    }
}
