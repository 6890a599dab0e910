//! Whether others go on asking for leases.

/// Asking goes on as long as no pause is longer than this: nodes may be far from their database.
const PAUSE_MS: u64 = 2_000;
/// And after so many times.
const TIMES: u32 = 16;
/// What was before the asking is known after this long.
const IDLE_MS: u64 = 1_000;

/// Others ask for leases again and again.
#[derive(Default)]
pub(super) struct Asking {
    last_ms: u64,
    times: u32,
    /// When it began, or when a while had passed, and the stamp of then.
    since: Option<(u64, u64)>,
    /// The stamp of a while before that.
    before: Option<u64>,
}

impl Asking {
    /// Somebody asks, now; answers the stamp of a while ago, if asking goes on since.
    pub(super) fn goes_on(&mut self, now_ms: u64, stamp: u64) -> Option<u64> {
        if now_ms > self.last_ms + PAUSE_MS {
            *self = Self::default();
        }
        self.last_ms = now_ms;
        self.times = self.times.saturating_add(1);
        match self.since {
            None => self.since = Some((now_ms, stamp)),
            Some((since_ms, then)) if now_ms >= since_ms + IDLE_MS => {
                self.before = Some(then);
                self.since = Some((now_ms, stamp));
            }
            Some(_) => {}
        }
        self.before.filter(|_| self.times > TIMES)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_goes_on_where_no_pause_is_long_and_a_while_has_passed() {
        let mut asking = Asking::default();
        let mut asks = |now_ms| asking.goes_on(now_ms, now_ms);
        assert!((1_000..2_000).step_by(50).all(|now_ms| asks(now_ms).is_none()));
        assert_eq!(asks(2_000), Some(1_000), "what was used since stays");
        assert!((2_100..3_000).step_by(100).all(|now_ms| asks(now_ms) == Some(1_000)));
        assert_eq!(asks(3_000), Some(2_000));
        assert_eq!(asks(5_001), None, "a pause");
        assert!((5_101..6_001).step_by(50).all(|now_ms| asks(now_ms).is_none()));
        assert_eq!(asks(6_001), Some(5_001));
        // Some now and then are not again and again.
        assert!((1..=16).all(|n| asks(10_000 + n * 1_500).is_none()));
        assert!(asks(10_000 + 17 * 1_500).is_some());
    }
}
