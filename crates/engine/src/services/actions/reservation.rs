//! Room in the tier that a hydration has for what is not here yet.

use std::sync::Arc;

use weir_tier::Amount;

use crate::services::actions::parts::Actions;

/// Room in the tier for what is not here yet.
pub(super) struct Reserved {
    pub(super) actions: Arc<Actions>,
    pub(super) amount: Amount,
}

impl Reserved {
    /// A part with so many of the bytes; the first one takes the files.
    pub(super) fn split(&mut self, bytes: u64) -> Self {
        let part = Amount { bytes: bytes.min(self.amount.bytes), files: self.amount.files };
        self.amount = Amount { bytes: self.amount.bytes - part.bytes, files: 0 };
        Self { actions: self.actions.clone(), amount: part }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.actions.space.unreserve(self.amount);
    }
}
