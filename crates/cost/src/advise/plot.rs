//! The plot of advice: what a month costs over its runs.

use maud::Markup;

use super::advice::Advice;
use super::break_even::Linear;
use super::choice::Choice;
use super::table::runs;
use crate::page::chart::{Line, Lines, Mark};

/// Lines of the plot, at most.
const LINES_MAX: usize = 6;
/// How many times the runs of the workload the plot reaches at most.
const FAR: f64 = 5.0;

/// Dollars of a month over its runs: of what is the cheapest somewhere, and then of the best of the
/// others; with the points at which another one becomes the cheapest.
pub(super) fn over_runs(advice: &Advice, known: &[&Choice]) -> Markup {
    let somewhere = |of: &&Choice| advice.cheapest.iter().any(|stretch| stretch.name == of.name);
    let (mut drawn, others): (Vec<&Choice>, Vec<&Choice>) =
        known.iter().partition(|of| somewhere(of));
    drawn.extend(others);
    drawn.truncate(LINES_MAX);
    let costs: Vec<Linear> = drawn.iter().map(|of| of.linear()).collect();
    let now = advice.runs_per_month;
    // No point far from what is run: it would flatten the rest.
    let points = advice.cheapest.iter().skip(1).map(|of| of.from_runs_per_month);
    let points: Vec<f64> = points.filter(|runs| *runs <= FAR * now).collect();
    let most_runs = points.iter().copied().fold(now, f64::max).max(1.0) * 1.25;
    // Nor what shoots off.
    let ends = costs.iter().map(|of| of.usd(most_runs));
    let lowest_end = ends.clone().fold(f64::INFINITY, f64::min);
    let most_usd = ends.fold(0.0, f64::max).min(4.0 * lowest_end).max(1e-6);
    let line = |(choice, cost): (&&Choice, &Linear)| Line {
        name: choice.name.clone(),
        points: within(cost, most_runs, most_usd),
    };
    let lines: Vec<Line> = drawn.iter().zip(&costs).map(line).collect();
    let lowest = |at: f64| costs.iter().map(|of| of.usd(at)).fold(f64::INFINITY, f64::min);
    let mark = |at: &f64| Mark { at: (*at, lowest(*at)), text: runs(*at) };
    Lines {
        title: "Cost of a month by its runs",
        about: "Lines of dollars a month over runs a month, one for each choice, with their \
                break-even points. The numbers are in the tables.",
        x: "runs a month",
        y: "$ a month",
        lines: &lines,
        marks: &points.iter().map(mark).collect::<Vec<_>>(),
        marked: "from so many runs a month on, another one costs least",
        now: Some(now),
        ..Lines::default()
    }
    .figure()
}

/// Both ends of what is within the plot; nothing of what is above all of it.
fn within(cost: &Linear, most_runs: f64, most_usd: f64) -> Vec<(f64, f64)> {
    if cost.fixed_usd > most_usd {
        return Vec::new();
    }
    let leaves = cost.usd(most_runs) > most_usd;
    let end = if leaves { (most_usd - cost.fixed_usd) / cost.per_run_usd } else { most_runs };
    vec![(0.0, cost.fixed_usd), (end, cost.usd(end))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_ends_where_it_leaves_the_plot() {
        let of = |fixed_usd, per_run_usd| within(&Linear { fixed_usd, per_run_usd }, 10.0, 100.0);
        assert_eq!(of(20.0, 2.0), [(0.0, 20.0), (10.0, 40.0)]);
        assert_eq!(of(20.0, 16.0), [(0.0, 20.0), (5.0, 100.0)]);
        assert_eq!(of(100.0, 0.0), [(0.0, 100.0), (10.0, 100.0)]);
        assert_eq!(of(101.0, 1.0), []);
    }
}
