//! When to send a second request because the first is slow.
//!
//! Slow is more than twice what nine of ten took lately. A budget keeps a store that is slow as a
//! whole from getting twice the requests.

use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

/// First bytes that are remembered.
const SAMPLES: usize = 64;
/// So many must have come before anything is called slow.
const SAMPLES_MIN: usize = 24;
/// Nothing faster is worth a second request.
const PATIENCE_MIN: Duration = Duration::from_millis(20);
/// One second request, in hundredths of a request.
const COST: u32 = 100;
/// Second requests that may be saved up.
const SAVED_MAX: u32 = 8 * COST;

/// How long first bytes take, and how many second requests may be sent.
pub(crate) struct Hedger {
    percent: u8,
    recent: Mutex<Recent>,
}

struct Recent {
    micros: [u32; SAMPLES],
    count: usize,
    patience: Option<Duration>,
    saved: u32,
}

impl Hedger {
    /// Of a hundred requests, `percent` may be sent twice; 0 for none.
    pub(crate) fn new(percent: u8) -> Self {
        let recent = Recent { micros: [0; SAMPLES], count: 0, patience: None, saved: 0 };
        Self { percent, recent: Mutex::new(recent) }
    }

    /// A request begins. Answers after how long without an answer it is slow, if that is known.
    pub(crate) fn begin(&self) -> Option<Duration> {
        let mut recent = self.recent();
        recent.saved = (recent.saved + u32::from(self.percent)).min(SAVED_MAX);
        recent.patience.filter(|_| self.percent > 0)
    }

    /// A request turned out to be slow. Answers whether a second one may be sent.
    pub(crate) fn spend(&self) -> bool {
        let mut recent = self.recent();
        let may = recent.saved >= COST;
        if may {
            recent.saved -= COST;
        }
        may
    }

    /// A first byte came after so long.
    pub(crate) fn answered(&self, after: Duration) {
        let mut recent = self.recent();
        let at = recent.count % SAMPLES;
        recent.micros[at] = u32::try_from(after.as_micros()).unwrap_or(u32::MAX);
        recent.count += 1;
        if recent.count >= SAMPLES_MIN && recent.count.is_multiple_of(8) {
            let mut sorted = recent.micros;
            let known = &mut sorted[..recent.count.min(SAMPLES)];
            known.sort_unstable();
            let usual = Duration::from_micros(known[known.len() * 9 / 10].into());
            recent.patience = Some((2 * usual).max(PATIENCE_MIN));
        }
    }

    fn recent(&self) -> MutexGuard<'_, Recent> {
        self.recent.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn nothing_is_slow_before_much_is_known() {
        let hedger = Hedger::new(5);
        for _ in 0..SAMPLES_MIN - 1 {
            assert_eq!(hedger.begin(), None);
            hedger.answered(30 * MS);
        }
        hedger.answered(30 * MS);
        assert_eq!(hedger.begin(), Some(60 * MS));
    }

    #[test]
    fn a_store_that_becomes_slow_is_not_asked_twice_for_all() {
        let hedger = Hedger::new(5);
        let mut second = 0;
        for _ in 0..1000 {
            hedger.begin();
            second += u32::from(hedger.spend());
        }
        assert!((40..=50).contains(&second), "{second} of 1000");
        let off = Hedger::new(0);
        (0..100).for_each(|_| off.answered(30 * MS));
        assert_eq!((off.begin(), off.spend()), (None, false));
    }

    #[test]
    fn quick_answers_are_not_worth_it() {
        let hedger = Hedger::new(5);
        (0..100).for_each(|_| hedger.answered(MS));
        assert_eq!(hedger.begin(), Some(PATIENCE_MIN));
    }
}
