//! How fast an action may go. Pure: time is an argument.

/// A token bucket that may be overdrawn: who takes more than there is waits until it is paid back.
#[derive(Debug)]
pub(crate) struct Rate {
    bytes_per_s: u64,
    /// When all that was taken is paid back, in microseconds.
    paid_us: u64,
}

impl Rate {
    /// So many bytes a second, from now on. At most a second's worth is saved up by waiting.
    pub(crate) fn new(bytes_per_s: u64, now_ms: u64) -> Self {
        Self { bytes_per_s: bytes_per_s.max(1), paid_us: now_ms * 1_000 }
    }

    /// Takes `bytes`; answers how long to wait before they are moved, in milliseconds.
    pub(crate) fn take(&mut self, bytes: u64, now_ms: u64) -> u64 {
        let now_us = now_ms * 1_000;
        let begin_us = self.paid_us.max(now_us.saturating_sub(1_000_000));
        let takes_us = u128::from(bytes) * 1_000_000 / u128::from(self.bytes_per_s);
        self.paid_us = begin_us.saturating_add(u64::try_from(takes_us).unwrap_or(u64::MAX));
        begin_us.saturating_sub(now_us).div_ceil(1_000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn takers_wait_for_what_was_taken_before_and_no_longer() {
        let mut rate = Rate::new(1_000_000, 5_000);
        assert_eq!(rate.take(500_000, 5_000), 0, "the first one goes at once");
        assert_eq!(rate.take(2_000_000, 5_000), 500);
        assert_eq!(rate.take(1, 5_500), 2_000);
        assert_eq!(rate.take(1, 60_000), 0);
    }

    #[test]
    fn a_rest_saves_up_a_second_and_no_more() {
        let mut rate = Rate::new(1_000, 0);
        rate.take(1_000, 0);
        assert_eq!(rate.take(1_000, 100_000), 0);
        assert_eq!(rate.take(1_000, 100_000), 0, "the second saved up pays the first");
        assert_eq!(rate.take(1_000, 100_000), 1_000);
    }

    #[test]
    fn over_time_no_more_than_the_rate_goes_through() {
        for step in [999, 64 << 10, 8 << 20] {
            let mut rate = Rate::new(10 << 20, 1);
            let (mut now_ms, mut moved) = (1, 0);
            while now_ms < 20_000 {
                now_ms += rate.take(step, now_ms);
                moved += step;
            }
            let most = (now_ms + 1_000) * (10 << 20) / 1_000 + 2 * step;
            assert!(moved <= most, "steps of {step}: {moved} bytes in {now_ms} ms");
        }
    }
}
