//! Which leases are forgotten where there are too many.

use super::Remembered;

/// Most leases. When there would be more the half that was used least lately is forgotten: those that matter are soon taken again.
pub(super) const LEASES_MAX: usize = 1 << 17;

impl Remembered {
    pub(super) fn make_room(&mut self) {
        if self.held.len() + self.taking.len() >= LEASES_MAX {
            self.forget_idle();
        }
    }

    /// Forgets the half of the leases that were used least lately. A directory in which names are made stays.
    pub(super) fn forget_idle(&mut self) {
        let mut used: Vec<u64> = self.held.values().map(|held| held.used.get()).collect();
        if used.is_empty() {
            return;
        }
        let middle = used.len() / 2;
        let median = *used.select_nth_unstable(middle).1;
        self.held.retain(|_, held| held.used.get() > median);
        self.rows = self.held.values().map(|held| held.rows.len()).sum();
        self.now += 1;
    }
}
