//! Credits as a fluid: a fast rate while they last, a slow one after.

/// A rate with credits for bursts: they grow at `baseline`, and what passes is taken from them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Burst {
    /// Bytes a second that credits grow by.
    pub baseline: f64,
    /// Bytes a second with credits.
    pub fast: f64,
    /// Bytes a second without.
    pub slow: f64,
    /// Credits at the start.
    pub credit_bytes: f64,
}

impl Burst {
    /// A rate that never changes.
    pub fn steady(bytes_per_s: f64) -> Self {
        Self { baseline: bytes_per_s, fast: bytes_per_s, slow: bytes_per_s, credit_bytes: 0.0 }
    }

    /// The same for clients that ask for at most `demand` bytes a second.
    #[must_use]
    pub fn asked_for(self, demand: f64) -> Self {
        Self { fast: self.fast.min(demand), slow: self.slow.min(demand), ..self }
    }

    /// Of `bytes`, what passes before the last credit is taken. Credits last at the fast rate for
    /// `credits / (fast - baseline)`, as some are earned meanwhile.
    pub fn fast_bytes(&self, bytes: f64) -> f64 {
        let drains = self.fast > self.baseline;
        if drains {
            bytes.min(self.credit_bytes / (1.0 - self.baseline / self.fast))
        } else {
            bytes
        }
    }

    /// How many seconds `bytes` take.
    pub fn seconds(&self, bytes: f64) -> f64 {
        let fast_bytes = self.fast_bytes(bytes);
        let slow_bytes = bytes - fast_bytes;
        let slow_s = if slow_bytes > 0.0 { slow_bytes / self.slow } else { 0.0 };
        if fast_bytes > 0.0 { fast_bytes / self.fast + slow_s } else { slow_s }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fast_while_credits_last_then_slow() {
        let burst = Burst { baseline: 50.0, fast: 100.0, slow: 50.0, credit_bytes: 500.0 };
        // 500 credits drain at 50 a second: 10 s at 100, then 50 a second.
        assert_eq!(burst.fast_bytes(2000.0), 1000.0);
        assert_eq!(burst.seconds(2000.0), 30.0);
        assert_eq!(burst.seconds(700.0), 7.0);
        assert_eq!(burst.asked_for(40.0).seconds(700.0), 17.5);
        assert_eq!(Burst { credit_bytes: 0.0, ..burst }.seconds(100.0), 2.0);
        assert_eq!(Burst { fast: f64::INFINITY, ..burst }.seconds(700.0), 4.0);
        assert_eq!(Burst::steady(7.0).seconds(700.0), 100.0);
    }
}
