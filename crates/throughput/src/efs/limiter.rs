//! The limiter: what may go now, and how long the rest waits.
//!
//! Two accounts, both exact in time. The *balance* holds the credits: it grows at the baseline rate
//! up to the cap, and every metered byte is taken from it. Where it is below zero nothing is left
//! to burst with: what is owed is paid back at the sustained rate, and only then do credits grow
//! again. The *peak debt* is what went ahead of the peak rate. An I/O goes while neither owes more
//! than the little bucket holds, so the rate is the peak rate while there are credits, and the
//! sustained rate from the very byte that takes the last of them.

use serde::{Deserialize, Serialize};
use thiserror::Error;

use super::rules::{Io, Mode, Rules};
use crate::credits::Burst;
use crate::{MIB, SECOND_NS, seconds_since, time_ns};

/// How much of the permitted rate may go ahead of it: what a late timer would lose otherwise.
const BUCKET_S: f64 = 0.05;

/// What is kept over a restart.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LimiterState {
    /// The mode.
    pub mode: Mode,
    /// Credits left.
    pub credit_bytes: f64,
    /// When the mode was set, in Unix milliseconds.
    pub mode_since_ms: u64,
    /// When this was noted, in Unix milliseconds.
    pub at_unix_ms: u64,
}

/// Why a mode cannot be set yet.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "cannot {change} for another {} min: provisioned throughput is kept for {} h after it was set",
    self.wait_ms.div_ceil(60_000), self.lock_ms / 3_600_000
)]
pub struct Locked {
    /// What was asked for.
    pub change: &'static str,
    /// How long the rules hold a provisioned throughput.
    pub lock_ms: u64,
    /// How long it is held from now.
    pub wait_ms: u64,
}

/// One file system, or one directory of one, under its rules. Times are nanoseconds on a clock that
/// never goes back.
#[derive(Clone, Debug)]
pub struct Limiter {
    rules: Rules,
    mode: Mode,
    /// When the mode was set; before the clock began for one kept over a restart.
    mode_since_ns: i128,
    stored_bytes: u64,
    /// The share of all rates that is this one's, where several keep to the limit together: 0 to 1.
    share: f64,
    /// Credits; below zero, what is owed to the sustained rate.
    balance_bytes: f64,
    peak_debt_bytes: f64,
    at_ns: u64,
}

/// What a mode permits, in metered bytes a second.
#[derive(Clone, Copy)]
struct Rates {
    /// With credits.
    peak: f64,
    /// Without.
    sustained: f64,
}

impl Limiter {
    /// A new file system with its initial credits.
    pub fn new(rules: Rules, mode: Mode, stored_bytes: u64, now_ns: u64) -> Self {
        let credit_bytes = rules.initial_credit_bytes;
        let limiter = Self {
            rules,
            mode,
            mode_since_ns: now_ns.into(),
            stored_bytes,
            share: 1.0,
            balance_bytes: 0.0,
            peak_debt_bytes: 0.0,
            at_ns: now_ns,
        };
        limiter.with_credits(credit_bytes)
    }

    /// The file system as `state` left it, with what it earned since.
    pub fn restore(
        rules: Rules,
        state: &LimiterState,
        stored_bytes: u64,
        now_ns: u64,
        unix_ms: u64,
    ) -> Self {
        let mut limiter =
            Self::new(rules, state.mode, stored_bytes, now_ns).with_credits(state.credit_bytes);
        let age_ns = i128::from(unix_ms.saturating_sub(state.mode_since_ms)) * 1_000_000;
        limiter.mode_since_ns = i128::from(now_ns) - age_ns;
        if limiter.limits() {
            limiter.earn(unix_ms.saturating_sub(state.at_unix_ms) as f64 / 1000.0);
        }
        limiter
    }

    /// What to keep over a restart.
    pub fn state(&mut self, now_ns: u64, unix_ms: u64) -> LimiterState {
        let credit_bytes = self.credit_bytes(now_ns);
        let age_ms = (i128::from(self.at_ns) - self.mode_since_ns) / 1_000_000;
        let age_ms = u64::try_from(age_ms).unwrap_or(0);
        let mode_since_ms = unix_ms.saturating_sub(age_ms);
        LimiterState { mode: self.mode, credit_bytes, mode_since_ms, at_unix_ms: unix_ms }
    }

    /// The same with other credits, at most the cap.
    #[must_use]
    pub fn with_credits(mut self, credit_bytes: f64) -> Self {
        self.balance_bytes = credit_bytes.min(self.credit_cap_bytes()).max(0.0);
        self
    }

    /// Keeps to this share of the rates from now on, 0 to 1. What was saved up or is owed stays.
    pub fn set_share(&mut self, share: f64, now_ns: u64) {
        self.advance(now_ns);
        self.share = share;
    }

    /// Credits come from elsewhere, or go there where it is below zero. Nothing is cut off at the cap.
    pub fn add_credits(&mut self, bytes: f64, now_ns: u64) {
        self.advance(now_ns);
        self.balance_bytes += bytes;
    }

    /// Credits left; below zero, what is owed.
    pub fn balance_bytes(&mut self, now_ns: u64) -> f64 {
        self.advance(now_ns);
        self.balance_bytes
    }

    /// What all who keep to the limit may do together, in metered bytes a second: with credits, or
    /// without.
    pub fn whole_bytes_per_s(&self, with_credits: bool) -> f64 {
        let Rates { peak, sustained } = self.whole_rates();
        if with_credits { peak } else { sustained }
    }

    /// Its rules.
    pub fn rules(&self) -> &Rules {
        &self.rules
    }

    /// Its mode.
    pub fn mode(&self) -> Mode {
        self.mode
    }

    /// Follows a new stored size.
    pub fn set_stored_bytes(&mut self, bytes: u64, now_ns: u64) {
        self.advance(now_ns);
        self.stored_bytes = bytes;
        self.balance_bytes = self.balance_bytes.min(self.credit_cap_bytes());
    }

    /// Changes the mode, at once. Credits stay.
    ///
    /// # Errors
    /// When the rules hold the provisioned throughput for some time yet.
    pub fn set_mode(&mut self, mode: Mode, now_ns: u64) -> Result<(), Locked> {
        self.advance(now_ns);
        if mode == self.mode {
            return Ok(());
        }
        if let (Some(lock_ms), Some(change)) = (self.rules.lock_ms, held_back(self.mode, mode)) {
            let until_ns = self.mode_since_ns + i128::from(lock_ms) * 1_000_000;
            let wait_ns = u64::try_from(until_ns - i128::from(self.at_ns)).unwrap_or(0);
            if wait_ns > 0 {
                return Err(Locked { change, lock_ms, wait_ms: wait_ns.div_ceil(1_000_000) });
            }
        }
        self.mode = mode;
        self.mode_since_ns = self.at_ns.into();
        Ok(())
    }

    /// What an I/O of `bytes` is metered at.
    pub fn metered_bytes(&self, io: Io, bytes: u64) -> u64 {
        self.rules.metered_bytes(io, bytes)
    }

    /// Whether anything is ever held back.
    pub fn limits(&self) -> bool {
        self.mode != Mode::Elastic
    }

    /// What may pass now of its share, in metered bytes a second; without others the metric `PermittedThroughput`.
    pub fn permitted_bytes_per_s(&mut self, now_ns: u64) -> f64 {
        self.advance(now_ns);
        let Rates { peak, sustained } = self.rates();
        if self.balance_bytes > 0.0 { peak } else { sustained }
    }

    /// What the stored size may do for ever, in metered bytes a second.
    pub fn baseline_bytes_per_s(&self) -> f64 {
        self.rules.baseline_bytes_per_s(self.stored_bytes)
    }

    /// Credits left: the metric `BurstCreditBalance`.
    pub fn credit_bytes(&mut self, now_ns: u64) -> f64 {
        self.advance(now_ns);
        self.balance_bytes.max(0.0)
    }

    /// The most credits that the stored size allows.
    pub fn credit_cap_bytes(&self) -> f64 {
        self.rules.credit_cap_bytes(self.stored_bytes)
    }

    /// Takes what an I/O is metered at, or tells how many nanoseconds to wait before asking again.
    /// An I/O larger than the little bucket goes too, and is paid back before the next one.
    ///
    /// # Errors
    /// The wait, never 0.
    pub fn take(&mut self, metered_bytes: u64, now_ns: u64) -> Result<(), u64> {
        self.advance(now_ns);
        if !self.limits() {
            return Ok(());
        }
        let Rates { peak, sustained } = self.rates();
        let wait_ns =
            wait_ns(self.peak_debt_bytes, peak).max(wait_ns(-self.balance_bytes, sustained));
        if wait_ns > 0 {
            return Err(wait_ns);
        }
        self.peak_debt_bytes += metered_bytes as f64;
        self.balance_bytes -= metered_bytes as f64;
        Ok(())
    }

    /// What is permitted from the last moment that was asked about, as a fluid.
    pub fn burst(&self) -> Burst {
        let Rates { peak, sustained } = self.rates();
        if !self.limits() {
            return Burst::steady(f64::INFINITY);
        }
        Burst {
            baseline: self.baseline_bytes_per_s(),
            fast: peak,
            slow: sustained,
            credit_bytes: self.balance_bytes.max(0.0),
        }
    }

    /// How many nanoseconds `metered_bytes` take from now, when clients ask for at most
    /// `demand_bytes_per_s`: the fluid that `take` follows I/O by I/O. Moves to their end.
    pub fn transfer(&mut self, metered_bytes: f64, demand_bytes_per_s: f64, now_ns: u64) -> u64 {
        self.advance(now_ns);
        let burst = self.burst().asked_for(demand_bytes_per_s);
        let burst_bytes =
            if self.limits() { burst.fast_bytes(metered_bytes) } else { metered_bytes };
        let burst_ns = self.pass(burst_bytes, burst.fast);
        burst_ns.saturating_add(self.pass(metered_bytes - burst_bytes, burst.slow))
    }

    /// Lets `bytes` pass at a steady rate, and tells how long that took.
    fn pass(&mut self, bytes: f64, bytes_per_s: f64) -> u64 {
        if bytes <= 0.0 {
            return 0;
        }
        let ns = time_ns(bytes, bytes_per_s);
        if self.limits() {
            let owed_bytes = self.balance_bytes.min(0.0);
            let gained = (self.baseline_bytes_per_s() - bytes_per_s) * ns as f64 / SECOND_NS;
            let balance = (self.balance_bytes + gained).max(owed_bytes);
            self.balance_bytes = balance.min(self.credit_cap_bytes());
        }
        self.at_ns = self.at_ns.saturating_add(ns);
        ns
    }

    fn advance(&mut self, now_ns: u64) {
        let seconds = seconds_since(self.at_ns, now_ns);
        self.at_ns = self.at_ns.max(now_ns);
        if self.limits() {
            self.earn(seconds);
            self.peak_debt_bytes = (self.peak_debt_bytes - self.rates().peak * seconds).max(0.0);
        }
    }

    /// Pays back, then earns credits, up to its share of the cap. Not for elastic mode, where none are
    /// earned or spent: EFS user guide, "Elastic throughput".
    fn earn(&mut self, seconds: f64) {
        let sustained = self.rates().sustained;
        let cap_bytes = self.credit_cap_bytes() * self.share;
        if self.share <= 0.0 || self.balance_bytes >= cap_bytes {
            return;
        }
        let owed_bytes = (-self.balance_bytes).max(0.0);
        let paid_bytes = owed_bytes.min(sustained * seconds);
        let idle_s = if owed_bytes > 0.0 { seconds - paid_bytes / sustained } else { seconds };
        let baseline = self.baseline_bytes_per_s() * self.share;
        let earned_bytes = paid_bytes + baseline * idle_s.max(0.0);
        self.balance_bytes = (self.balance_bytes + earned_bytes).min(cap_bytes);
    }

    fn rates(&self) -> Rates {
        let Rates { peak, sustained } = self.whole_rates();
        // A share of nothing of a rate without end is nothing.
        let part = |rate: f64| if self.share > 0.0 { rate * self.share } else { 0.0 };
        Rates { peak: part(peak), sustained: part(sustained) }
    }

    /// EFS user guide, "Provisioned throughput": it holds whatever the size or the credits, but for
    /// a baseline that exceeds it, where the file system has its bursting throughput.
    fn whole_rates(&self) -> Rates {
        let baseline = self.baseline_bytes_per_s();
        let bursting =
            Rates { peak: self.rules.burst_bytes_per_s(self.stored_bytes), sustained: baseline };
        match self.mode {
            Mode::Bursting => bursting,
            Mode::Provisioned { mib_per_s }
                if self.rules.provisioned_is_all || mib_per_s * MIB > baseline =>
            {
                Rates { peak: mib_per_s * MIB, sustained: mib_per_s * MIB }
            }
            Mode::Provisioned { .. } => bursting,
            Mode::Elastic => Rates { peak: f64::INFINITY, sustained: f64::INFINITY },
        }
    }
}

/// How long until what is owed to a rate is within the little bucket. Less than a byte is rounding.
fn wait_ns(owed_bytes: f64, bytes_per_s: f64) -> u64 {
    if bytes_per_s <= 0.0 {
        return u64::MAX;
    }
    let excess_bytes = owed_bytes - bytes_per_s * BUCKET_S;
    if excess_bytes < 1.0 { 0 } else { time_ns(excess_bytes, bytes_per_s) }
}

/// What going from one mode to another is called, where the rules hold it back: leaving or lowering
/// a provisioned throughput.
fn held_back(from: Mode, to: Mode) -> Option<&'static str> {
    match (from, to) {
        (Mode::Provisioned { mib_per_s: old }, Mode::Provisioned { mib_per_s: new }) => {
            (new < old).then_some("lower the provisioned throughput")
        }
        (Mode::Provisioned { .. }, Mode::Bursting) => Some("change to bursting throughput"),
        (Mode::Provisioned { .. }, Mode::Elastic) => Some("change to elastic throughput"),
        (Mode::Bursting | Mode::Elastic, _) => None,
    }
}

#[cfg(test)]
mod tests;
