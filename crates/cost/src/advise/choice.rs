//! One way to run a workload, and which of two is better.

use std::cmp::Ordering;

use schemars::JsonSchema;
use serde::Serialize;
use weir_types::NanoUsd;

use super::break_even::Linear;
use crate::bill::Amount;
use crate::{Bill, Line, Machine, Storage};

/// One way to run the workload.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Choice {
    /// The storage, as people call it.
    pub name: String,
    /// The storage.
    pub storage: Storage,
    /// The kind of machine.
    pub machine: Machine,
    /// How many of them: fewer than jobs, where some run on one; more, where queries are split.
    pub machines: u64,
    /// Seconds of a run, as an average over warm and cold ones.
    pub run_seconds: f64,
    /// Seconds of the first run, which may have to load data.
    pub first_run_seconds: f64,
    /// What makes a run take so long.
    pub bound_by: String,
    /// Whether a day is long enough for its runs.
    pub keeps_up: bool,
    /// What each month costs, however much is run.
    pub monthly: Bill,
    /// What each run costs on top, the machines among it.
    pub per_run: Bill,
    /// A month with the runs of the workload.
    pub month: Amount,
    /// That by its runs; without any, what one would add.
    pub cost_per_run: Amount,
    /// A month with Spot instances: at 80% and at 60% off.
    pub spot_month: (Amount, Amount),
    /// What the time of one who waits for a run costs.
    #[serde(rename = "waiting_per_run_nano_usd")]
    pub waiting_per_run: NanoUsd,
    /// A month with the runs, and with the time of those who wait.
    pub month_with_waiting: Amount,
}

impl Choice {
    /// What is better comes first: what keeps up, then that whose prices are known, then what costs
    /// least with waiting. What has no price looks free, so of that the least is best: first of
    /// kinds, then of machines and of units.
    pub(super) fn rank(&self, other: &Choice) -> Ordering {
        let key = |of: &Choice| {
            let unknown: Vec<_> = of.unknown_lines().collect();
            let machines = if unknown.is_empty() { 0 } else { of.machines };
            (!of.keeps_up, unknown.len(), machines)
        };
        let units = |of: &Choice| of.unknown_lines().map(|line| line.quantity).sum::<f64>();
        key(self)
            .cmp(&key(other))
            .then(units(self).total_cmp(&units(other)))
            .then(self.month_with_waiting.usd.cmp(&other.month_with_waiting.usd))
            .then(self.run_seconds.total_cmp(&other.run_seconds))
    }

    fn unknown_lines(&self) -> impl Iterator<Item = &Line> {
        self.monthly.unknown_lines().chain(self.per_run.unknown_lines())
    }

    pub(super) fn linear(&self) -> Linear {
        Linear {
            fixed_usd: self.monthly.amount().dollars(),
            per_run_usd: self.per_run.amount().dollars(),
        }
    }

    pub(super) fn linear_with_waiting(&self) -> Linear {
        let Linear { fixed_usd, per_run_usd } = self.linear();
        Linear { fixed_usd, per_run_usd: per_run_usd + self.waiting_per_run.0 as f64 / 1e9 }
    }
}
