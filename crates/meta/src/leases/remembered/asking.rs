//! Whether others go on asking for leases.

/// Asking goes on as long as no pause is longer than this.
const PAUSE_MS: u64 = 250;
/// What was before the asking is known after this long.
const IDLE_MS: u64 = 1_000;

/// Others ask for leases again and again.
#[derive(Default)]
pub(super) struct Asking {
    last_ms: u64,
    /// When it began, or when a while had passed, and the stamp of then.
    since: Option<(u64, u64)>,
    /// The stamp of a while before that.
    before: Option<u64>,
}

impl Asking {
    /// Somebody asks, now; answers the stamp of a while ago, if asking goes on since.
    pub(super) fn goes_on(&mut self, now_ms: u64, stamp: u64) -> Option<u64> {
        if now_ms > self.last_ms + PAUSE_MS {
            (self.since, self.before) = (None, None);
        }
        self.last_ms = now_ms;
        match self.since {
            None => self.since = Some((now_ms, stamp)),
            Some((since_ms, then)) if now_ms >= since_ms + IDLE_MS => {
                self.before = Some(then);
                self.since = Some((now_ms, stamp));
            }
            Some(_) => {}
        }
        self.before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_goes_on_where_no_pause_is_long_and_a_while_has_passed() {
        let mut asking = Asking::default();
        for now_ms in (1_000..2_000).step_by(100) {
            assert_eq!(asking.goes_on(now_ms, now_ms), None);
        }
        assert_eq!(asking.goes_on(2_000, 2_000), Some(1_000), "what was used since stays");
        assert_eq!(asking.goes_on(2_100, 2_100), Some(1_000));
        for now_ms in (2_200..3_000).step_by(100) {
            assert_eq!(asking.goes_on(now_ms, now_ms), Some(1_000));
        }
        assert_eq!(asking.goes_on(3_000, 3_000), Some(2_000));
        assert_eq!(asking.goes_on(3_251, 3_251), None, "a pause");
        for now_ms in (3_351..4_251).step_by(100) {
            assert_eq!(asking.goes_on(now_ms, now_ms), None);
        }
        assert_eq!(asking.goes_on(4_251, 4_251), Some(3_251));
    }
}
