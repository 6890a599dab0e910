//! How long a peer is waited for before the bucket is asked as well.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A bucket's own answer may take as long as this; sooner, two passes over the bucket would be the rule.
const LEAST_US: u64 = 1_000_000;
const MOST_US: u64 = 10_000_000;
/// So many times what is usual is slow.
const FACTOR: u64 = 4;
/// The share of a new answer in what is usual: one in so many.
const SHARE: u64 = 8;

/// What is usual, in microseconds.
#[derive(Default)]
pub(super) struct Patience(AtomicU64);

impl Patience {
    pub(super) fn now(&self) -> Duration {
        let usual = self.0.load(Ordering::Relaxed);
        Duration::from_micros((usual * FACTOR).clamp(LEAST_US, MOST_US))
    }

    /// An answer took so long. One that is lost in a race with another changes nothing of note.
    pub(super) fn answered(&self, took: Duration) {
        let took = (took.as_micros() as u64).min(MOST_US);
        let usual = self.0.load(Ordering::Relaxed);
        self.0.store(usual - usual / SHARE + took / SHARE, Ordering::Relaxed);
    }
}
