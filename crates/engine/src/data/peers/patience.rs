//! How long a peer is waited for before another way is gone as well.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

/// A bucket's own answer may take as long as this; sooner, two passes over the bucket would be the rule.
const LEAST_US: u64 = 1_000_000;
const MOST_US: u64 = 10_000_000;
/// So many times what is usual is slow.
const FACTOR: u64 = 4;
/// The share of a faster answer in what is usual: one in so many.
const SHARE: u64 = 8;

/// What is usual, of peers and of the bucket. Where the bucket takes its time, as where this machine is too busy
/// to take what comes, to ask it as well is of no use.
#[derive(Default)]
pub(crate) struct Patience {
    peers: Usual,
    bucket: Usual,
}

impl Patience {
    pub(super) fn now(&self) -> Duration {
        let usual = self.peers.get().max(self.bucket.get());
        Duration::from_micros((usual * FACTOR).clamp(LEAST_US, MOST_US))
    }

    /// A peer gave what it was asked for, after so long.
    pub(super) fn peer_took(&self, took: Duration) {
        self.peers.note(took);
    }

    /// The bucket did.
    pub(super) fn bucket_took(&self, took: Duration) {
        self.bucket.note(took);
    }
}

/// In microseconds.
#[derive(Default)]
struct Usual(AtomicU64);

impl Usual {
    fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// What is slower than usual counts much: a machine that is busy now mostly is so for the next one, too. One that
    /// is lost in a race with another changes nothing of note.
    fn note(&self, took: Duration) {
        let (took, usual) = ((took.as_micros() as u64).min(MOST_US), self.get());
        let now = match took > usual {
            true => usual + (took - usual) / 2,
            false => usual - (usual - took) / SHARE,
        };
        self.0.store(now, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_slow_is_slow_beside_peers_and_bucket() {
        let patience = Patience::default();
        assert_eq!(patience.now(), Duration::from_secs(1));
        let many = |note: &dyn Fn()| (0..64).for_each(|_| note());
        many(&|| patience.peer_took(Duration::from_millis(2)));
        assert_eq!(patience.now(), Duration::from_secs(1), "a moment is no reason");
        many(&|| patience.bucket_took(Duration::from_millis(500)));
        assert!((1_900..=2_000).contains(&patience.now().as_millis()), "{:?}", patience.now());
        many(&|| patience.peer_took(Duration::from_secs(60)));
        assert_eq!(patience.now(), Duration::from_secs(10), "and not for ever");
    }
}
