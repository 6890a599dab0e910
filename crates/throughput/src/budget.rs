//! A budget: money per hour as a bucket.

use weir_types::NanoUsd;

use crate::{seconds_since, time_ns};

const HOUR_S: f64 = 3600.0;

/// The share of an hour's money that can be saved up: five minutes' worth.
const DEPTH_HOURS: f64 = 1.0 / 12.0;

/// What is left of the bucket when hydration stops, and when read-ahead does.
const NO_HYDRATION_BELOW: f64 = 0.5;
const NO_READ_AHEAD_BELOW: f64 = 0.25;

/// What a budget still allows: what nobody waits for is given up first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// Everything.
    Free,
    /// Read-ahead and demand.
    NoHydration,
    /// Demand only.
    NoReadAhead,
    /// Nothing for now.
    Wait {
        /// How long, in nanoseconds; never 0.
        ns: u64,
    },
}

/// Money per hour, of which five minutes' worth can be saved up.
#[derive(Clone, Debug)]
pub struct Budget {
    rate: NanoUsd,
    /// The share of it that is this one's, where several keep to the budget together: 0 to 1.
    share: f64,
    /// In nano-dollars; below zero after a spending larger than what was left.
    level: f64,
    at_ns: u64,
}

impl Budget {
    /// A budget of `rate` an hour, with a full bucket.
    pub fn new(rate: NanoUsd, now_ns: u64) -> Self {
        let mut budget = Self { rate, share: 1.0, level: 0.0, at_ns: now_ns };
        budget.level = budget.depth();
        budget
    }

    /// Money an hour.
    pub fn rate(&self) -> NanoUsd {
        self.rate
    }

    /// Changes the money an hour. What is saved up or owed stays, up to five minutes' worth.
    pub fn set_rate(&mut self, rate: NanoUsd, now_ns: u64) {
        self.advance(now_ns);
        self.rate = rate;
        self.level = self.level.min(self.depth());
    }

    /// Keeps to this share of the money from now on, 0 to 1. What is saved up or owed stays.
    pub fn set_share(&mut self, share: f64, now_ns: u64) {
        self.advance(now_ns);
        self.share = share;
    }

    /// Money comes from elsewhere, or goes there where it is below zero.
    pub fn add(&mut self, amount: NanoUsd, now_ns: u64) {
        self.advance(now_ns);
        self.level += amount.0 as f64;
    }

    /// The most that all who keep to the budget can have saved up.
    pub fn whole_depth(&self) -> NanoUsd {
        NanoUsd((self.rate.0 as f64 * DEPTH_HOURS) as i64)
    }

    /// Takes what something cost. It has happened, so it is taken even where there is nothing left,
    /// up to a debt of this very amount or of five minutes' worth: what is spent without asking is
    /// not to stop all else for hours afterwards.
    pub fn spend(&mut self, amount: NanoUsd, now_ns: u64) {
        self.advance(now_ns);
        let amount = amount.0 as f64;
        self.level = (self.level - amount).max(-self.depth().max(amount));
    }

    /// What is left; below zero, what is owed.
    pub fn level(&mut self, now_ns: u64) -> NanoUsd {
        self.advance(now_ns);
        NanoUsd(self.level.floor() as i64)
    }

    /// What is allowed now.
    pub fn stage(&mut self, now_ns: u64) -> Stage {
        self.advance(now_ns);
        if self.level <= 0.0 {
            let ns = time_ns(-self.level, self.rate.0 as f64 * self.share / HOUR_S);
            return Stage::Wait { ns: ns.max(1) };
        }
        match self.level / self.depth() {
            left if left < NO_READ_AHEAD_BELOW => Stage::NoReadAhead,
            left if left < NO_HYDRATION_BELOW => Stage::NoHydration,
            _ => Stage::Free,
        }
    }

    fn depth(&self) -> f64 {
        self.rate.0 as f64 * self.share * DEPTH_HOURS
    }

    fn advance(&mut self, now_ns: u64) {
        if self.level < self.depth() {
            let earned = self.rate.0 as f64 * self.share / HOUR_S;
            let earned = earned * seconds_since(self.at_ns, now_ns);
            self.level = (self.level + earned).min(self.depth());
        }
        self.at_ns = self.at_ns.max(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::SECOND_NS;

    const SECOND: u64 = SECOND_NS as u64;
    const USD: i64 = 1_000_000_000;

    #[test]
    fn hydration_stops_first_then_read_ahead_then_demand() {
        // 12 USD an hour: 1 USD in the bucket, which 300 s fill.
        let mut budget = Budget::new(NanoUsd(12 * USD), 0);
        assert_eq!(budget.stage(0), Stage::Free);
        budget.spend(NanoUsd(USD / 2), 0);
        assert_eq!(budget.stage(0), Stage::Free);
        budget.spend(NanoUsd(1), 0);
        assert_eq!(budget.stage(0), Stage::NoHydration);
        budget.spend(NanoUsd(USD / 4), 0);
        assert_eq!(budget.stage(0), Stage::NoReadAhead);
        budget.spend(NanoUsd(USD * 5 / 4), 0);
        assert_eq!(budget.level(0), NanoUsd(-USD - 1));
        let Stage::Wait { ns } = budget.stage(0) else { panic!("nothing is left") };
        assert_eq!(ns, 300 * SECOND + 300);
        assert_eq!(budget.stage(ns + SECOND), Stage::NoReadAhead);
        assert_eq!(budget.stage(ns + 100 * SECOND), Stage::NoHydration);
        assert_eq!(budget.stage(ns + 200 * SECOND), Stage::Free);
        assert_eq!(budget.level(ns + 999 * SECOND), NanoUsd(USD));
    }

    #[test]
    fn a_new_rate_holds_at_once() {
        let mut budget = Budget::new(NanoUsd(12 * USD), 0);
        budget.set_rate(NanoUsd(1_200_000_000), 0);
        assert_eq!(budget.level(0), NanoUsd(USD / 10));
        assert_eq!(budget.rate(), NanoUsd(1_200_000_000));
        budget.set_rate(NanoUsd(0), 0);
        assert_eq!(budget.stage(0), Stage::Wait { ns: 1 });
        budget.spend(NanoUsd(1), 0);
        assert_eq!(budget.stage(0), Stage::Wait { ns: u64::MAX });
    }

    #[test]
    fn what_nobody_asked_for_is_owed_for_five_minutes_only() {
        let mut budget = Budget::new(NanoUsd(12 * USD), 0);
        for _ in 0..1_000 {
            budget.spend(NanoUsd(USD / 10), 0);
        }
        assert_eq!(budget.stage(0), Stage::Wait { ns: 300 * SECOND });
    }

    proptest! {
        #[test]
        fn what_waits_for_its_stage_keeps_to_the_budget(
            usd_per_hour in 1_i64..100,
            costs in proptest::collection::vec(1_i64..USD, 1..200),
        ) {
            let mut budget = Budget::new(NanoUsd(usd_per_hour * USD), 0);
            let (mut now, mut spent) = (0, 0);
            for cost in &costs {
                while let Stage::Wait { ns } = budget.stage(now) {
                    now += ns;
                }
                spent += cost;
                budget.spend(NanoUsd(*cost), now);
            }
            let hours = now as f64 / SECOND_NS / HOUR_S + DEPTH_HOURS;
            let allowed = usd_per_hour as f64 * USD as f64 * hours + USD as f64;
            prop_assert!(spent as f64 <= allowed * (1.0 + 1e-9), "{spent} of {allowed}");
        }
    }
}
