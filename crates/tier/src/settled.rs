//! When what was pending in a mirror went to the metadata.
//!
//! Who wants to know a file's attributes reads the metadata, then asks the mirror what it knows
//! better. Where a flush ends between the two, the metadata was read too early and the mirror asked
//! too late: together they tell the size and times of before. So each mirror counts here *before*
//! it lets go of what is pending, and *after* the metadata has it; whoever finds that something was
//! counted meanwhile looks again.

use std::sync::atomic::{AtomicU64, Ordering};

use weir_types::Ino;

/// Inodes share counters, so that a moment is small.
const COUNTERS: usize = 64;

#[derive(Debug)]
pub(crate) struct Settling([AtomicU64; COUNTERS]);

impl Default for Settling {
    fn default() -> Self {
        Self(std::array::from_fn(|_| AtomicU64::new(0)))
    }
}

impl Settling {
    /// The metadata has what the mirror of `ino` is about to forget.
    pub(crate) fn note(&self, ino: Ino) {
        self.0[counter(ino)].fetch_add(1, Ordering::AcqRel);
    }

    /// Now.
    pub(crate) fn moment(&self) -> Moment {
        Moment(std::array::from_fn(|at| self.0[at].load(Ordering::Acquire)))
    }

    /// Whether anything was noted of `ino` since.
    pub(crate) fn noted_since(&self, moment: &Moment, ino: Ino) -> bool {
        let at = counter(ino);
        self.0[at].load(Ordering::Acquire) != moment.0[at]
    }
}

/// A moment before a look at the metadata.
#[derive(Clone, Copy, Debug)]
pub struct Moment([u64; COUNTERS]);

fn counter(ino: Ino) -> usize {
    (ino.0 % COUNTERS as u64) as usize
}
