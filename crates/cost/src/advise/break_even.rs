//! Break-even points: from how many runs a month on one choice costs less than another.
//!
//! The cost of a month is linear in its runs, so two choices cost the same at one number of runs
//! at most, and it can be computed exactly.

use schemars::JsonSchema;
use serde::Serialize;

/// The cost of a month in dollars: `fixed_usd`, and `per_run_usd` for each run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Linear {
    pub(crate) fixed_usd: f64,
    pub(crate) per_run_usd: f64,
}

/// Where two choices cost the same.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct BreakEven {
    /// What costs less below.
    pub below: String,
    /// What costs less above.
    pub above: String,
    /// Runs of a month at which both cost the same.
    pub runs_per_month: f64,
}

/// From so many runs a month on, up to the next stretch, this choice costs least.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Stretch {
    /// The choice.
    pub name: String,
    /// Where the stretch begins.
    pub from_runs_per_month: f64,
}

impl Linear {
    /// Dollars of a month with so many runs.
    pub(crate) fn usd(&self, runs: f64) -> f64 {
        self.fixed_usd + self.per_run_usd * runs
    }

    /// The runs of a month at which both cost the same, if there is such a number above zero.
    pub(crate) fn meets(&self, other: &Linear) -> Option<f64> {
        let runs = (other.fixed_usd - self.fixed_usd) / (self.per_run_usd - other.per_run_usd);
        (runs.is_finite() && runs > 0.0).then_some(runs)
    }
}

/// All points at which two of these cost the same, in the order of their runs.
pub(crate) fn break_evens(costs: &[(String, Linear)]) -> Vec<BreakEven> {
    let mut points = Vec::new();
    for (at, (name, cost)) in costs.iter().enumerate() {
        for (other_name, other) in &costs[at + 1..] {
            let Some(runs_per_month) = cost.meets(other) else { continue };
            let (below, above) = match cost.per_run_usd > other.per_run_usd {
                true => (name, other_name),
                false => (other_name, name),
            };
            points.push(BreakEven { below: below.clone(), above: above.clone(), runs_per_month });
        }
    }
    points.sort_by(|a, b| a.runs_per_month.total_cmp(&b.runs_per_month));
    points
}

/// Which of these costs least, from no run on.
pub(crate) fn cheapest(costs: &[(String, Linear)]) -> Vec<Stretch> {
    let order = |a: &Linear, b: &Linear| {
        a.fixed_usd.total_cmp(&b.fixed_usd).then(a.per_run_usd.total_cmp(&b.per_run_usd))
    };
    let mut stretches = Vec::new();
    let mut next = costs.iter().min_by(|(_, a), (_, b)| order(a, b)).map(|first| (0.0_f64, first));
    while let Some((from_runs_per_month, (name, now))) = next {
        stretches.push(Stretch { name: name.clone(), from_runs_per_month });
        // What costs less for each run overtakes at some point; the first to do so is next, and of
        // two at the same point the one that stays below.
        let overtakes = costs.iter().filter(|(_, other)| other.per_run_usd < now.per_run_usd);
        next = overtakes
            .filter_map(|other| Some((now.meets(&other.1)?.max(from_runs_per_month), other)))
            .min_by(|(a, (_, x)), (b, (_, y))| {
                a.total_cmp(b).then(x.per_run_usd.total_cmp(&y.per_run_usd))
            });
    }
    stretches
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn linear(fixed_usd: f64, per_run_usd: f64) -> Linear {
        Linear { fixed_usd, per_run_usd }
    }

    #[test]
    fn the_published_break_even_is_seven_runs_a_month() {
        // EFS: $91.56 a month and $10.93 a run; FSx: $168 a month, runs are free.
        // (168 - 91.56) / 10.93 = 6.9936 runs a month, where "4 runs a day" was published.
        let (efs, fsx) = (linear(91.56, 10.93), linear(168.0, 0.0));
        let runs = efs.meets(&fsx).expect("they meet");
        assert!((runs - 6.9936).abs() < 1e-4, "{runs}");
        let costs = [("EFS".to_owned(), efs), ("FSx".to_owned(), fsx)];
        let points = break_evens(&costs);
        assert_eq!((points[0].below.as_str(), points[0].above.as_str()), ("EFS", "FSx"));
        let stretches = cheapest(&costs);
        assert_eq!(stretches.len(), 2);
        assert_eq!((stretches[1].name.as_str(), stretches[1].from_runs_per_month), ("FSx", runs));
    }

    #[test]
    fn what_is_dearer_in_both_never_overtakes() {
        assert_eq!(linear(1.0, 1.0).meets(&linear(2.0, 2.0)), None);
        assert_eq!(linear(1.0, 1.0).meets(&linear(1.0, 1.0)), None);
        assert!(cheapest(&[]).is_empty());
    }

    proptest! {
        #[test]
        fn at_a_break_even_both_cost_the_same(
            a in (0.0..1e4_f64, 0.0..100.0_f64),
            b in (0.0..1e4_f64, 0.0..100.0_f64),
        ) {
            let (a, b) = (linear(a.0, a.1), linear(b.0, b.1));
            if let Some(runs) = a.meets(&b) {
                let (x, y) = (a.usd(runs), b.usd(runs));
                prop_assert!((x - y).abs() <= 1e-6 * x.max(1.0), "{x} and {y} at {runs}");
            }
        }

        #[test]
        fn no_choice_costs_less_than_the_cheapest(
            costs in prop::collection::vec((0.0..1e4_f64, 0.0..100.0_f64), 1..12),
            runs in 0.0..1e4_f64,
        ) {
            let named = |(at, (fixed, per_run)): (usize, &(f64, f64))| {
                (at.to_string(), linear(*fixed, *per_run))
            };
            let costs: Vec<(String, Linear)> = costs.iter().enumerate().map(named).collect();
            let stretches = cheapest(&costs);
            let now = stretches.iter().rfind(|of| of.from_runs_per_month <= runs);
            let name = &now.expect("the first begins at zero").name;
            let best = costs.iter().find(|(of, _)| of == name).expect("one of them").1.usd(runs);
            for (_, cost) in &costs {
                prop_assert!(best <= cost.usd(runs) * (1.0 + 1e-9) + 1e-6);
            }
        }
    }
}
