//! Quotas.

use weir_types::{Ino, Result};

use crate::engine::Engine;
use crate::services::quotas::{QuotaChange, QuotaSubject, QuotaView};
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// All quotas as they stand, with what counts for them. A few read rounds.
    pub fn quotas(&self) -> Boxed<'_, Result<Vec<QuotaView>>> {
        boxed(self.quotas.list())
    }

    /// The quotas that a file, or a directory and what is made in it, counts for: of trees from the inside
    /// out. A few read rounds.
    pub fn quotas_over(&self, ino: Ino) -> Boxed<'_, Result<Vec<QuotaView>>> {
        boxed(self.quotas.over(ino))
    }

    /// Sets a quota, or changes it, durably. It holds at once for what counts; what is there already is
    /// counted in the background. A few read rounds and a commit; the walk takes a commit for each 250 files.
    /// `NotDirectory` for a tree below what is none.
    pub fn set_quota(
        &self,
        subject: QuotaSubject,
        change: QuotaChange,
    ) -> Boxed<'_, Result<QuotaView>> {
        boxed(self.quotas.set(subject, change))
    }

    /// Removes a quota: from now on nothing is refused for it. `NotFound` if there is none.
    pub fn remove_quota(&self, subject: QuotaSubject) -> Boxed<'_, Result<QuotaView>> {
        boxed(self.quotas.remove(subject))
    }
}
