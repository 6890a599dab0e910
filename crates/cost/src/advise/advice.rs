//! What the advisor answers.

use schemars::JsonSchema;
use serde::Serialize;

use super::break_even::{BreakEven, Stretch};
use super::choice::Choice;
use crate::Workload;

/// A storage that cannot be had as it was asked for.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "AdviceRefusal")]
pub struct Refusal {
    /// What was asked for.
    pub name: String,
    /// Why AWS refuses it, and what it sells.
    pub why: String,
}

/// What to do, what else could be done, and what each costs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Advice {
    /// The workload.
    pub workload: Workload,
    /// Its runs in a month of 730 hours.
    pub runs_per_month: f64,
    /// What an hour of somebody who waits costs, in dollars.
    pub usd_per_hour: f64,
    /// Whether machines are priced as Spot instances.
    pub spot: bool,
    /// The choices, the best first.
    pub choices: Vec<Choice>,
    /// What was asked for and cannot be had.
    pub refused: Vec<Refusal>,
    /// Which choice costs least, by the runs of a month.
    pub cheapest: Vec<Stretch>,
    /// The same with the time of those who wait.
    pub cheapest_with_waiting: Vec<Stretch>,
    /// Where any two choices cost the same.
    pub break_even: Vec<BreakEven>,
    /// What to do, unless prices are missing.
    pub recommendation: Option<Recommendation>,
    /// Names of the items whose unknown prices matter here.
    pub unknown_prices: Vec<String>,
}

/// What to do, and why.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Recommendation {
    /// The storage, with its size and mode.
    pub storage: String,
    /// The kind of machine.
    pub machine: String,
    /// How many of them.
    pub machines: u64,
    /// What to do and what it saves, in a sentence.
    pub summary: String,
    /// Why it is better than the next best, in a sentence; nothing where there is no other.
    pub why: Option<String>,
    /// The reasons, each a sentence.
    pub reasons: Vec<String>,
}
