//! What is worth a lease, and what is left alone.

use weir_types::Ino;

use super::looks::Looks;
use super::{Remembered, Taking};

/// Most inodes of which it is known how often they were looked at.
const LOOKS_MAX: usize = 1 << 16;

impl Remembered {
    /// Others ask for leases on these, because they want to change them.
    pub(in crate::leases) fn asked_back(&mut self, inos: &[Ino], now_ms: u64) {
        self.forget(inos);
        inos.iter().for_each(|ino| self.looks(*ino).asked_back(now_ms));
    }

    /// Somebody looks at an inode; answers whether there is one to take a lease on.
    pub(in crate::leases) fn looked_at(&mut self, ino: Ino, now_ms: u64) -> bool {
        if self.held.contains_key(&ino) || self.taking.contains_key(&ino) {
            return false;
        }
        self.make_room();
        let is_worth_one = self.looks(ino).look(now_ms);
        if is_worth_one {
            self.taking.insert(ino, Taking::default());
            self.wanted.push(ino);
        }
        is_worth_one
    }

    pub(super) fn looks(&mut self, ino: Ino) -> &mut Looks {
        if self.looks.len() >= LOOKS_MAX && !self.looks.contains_key(&ino) {
            self.looks.clear();
        }
        self.looks.entry(ino).or_default()
    }

    /// Nobody asked for anything back.
    #[cfg(test)]
    pub(in crate::leases) fn forgive(&mut self) {
        self.looks.values_mut().for_each(Looks::forgive);
    }
}
