//! The plot of advice: what a month costs over its runs.

use super::break_even::Linear;
use crate::page::escape;
use crate::page::svg::{DASHES, WIDTH, letter, open, push, ticks};

const HEIGHT: f64 = 260.0;
/// Where the plot begins and ends; labels are around it.
const LEFT: f64 = 52.0;
const RIGHT: f64 = 24.0;
const TOP: f64 = 14.0;
const FLOOR: f64 = HEIGHT - 40.0;
/// Height of a letter.
const LETTER: f64 = 12.0;
/// How many times the runs of the workload the plot reaches at most.
const FAR: f64 = 5.0;

/// A line of a plot, and what people call it.
pub(super) struct Series {
    pub(super) name: String,
    pub(super) cost: Linear,
}

/// Dollars of a month over its runs, with the points at which another line becomes the lowest, and
/// with the runs of the workload.
pub(super) fn lines(series: &[Series], points: &[f64], now: f64) -> String {
    // Nor does a point far from what is run.
    let points: Vec<f64> = points.iter().copied().filter(|runs| *runs <= FAR * now).collect();
    let most_runs = points.iter().copied().fold(now, f64::max).max(1.0) * 1.25;
    // What shoots off does not flatten the rest.
    let ends = series.iter().map(|of| of.cost.usd(most_runs));
    let lowest_end = ends.clone().fold(f64::INFINITY, f64::min);
    let most_usd = ends.fold(0.0, f64::max).min(4.0 * lowest_end).max(1e-6);
    let scale = Scale { most_runs, most_usd };
    let mut svg = open(
        HEIGHT,
        "Cost of a month by its runs",
        "Lines of dollars a month over runs a month, one for each choice, with their break-even \
         points. The numbers are in the tables.",
    );
    axes(&mut svg, &scale, now);
    // From the top down, each letter below the one before.
    let mut order: Vec<usize> = (0..series.len()).collect();
    order.sort_by(|a, b| scale.end(&series[*a]).1.total_cmp(&scale.end(&series[*b]).1));
    let mut above = f64::NEG_INFINITY;
    for at in order {
        let label_y = (scale.end(&series[at]).1 + 4.0).max(above + LETTER);
        line(&mut svg, &scale, at, &series[at], label_y);
        above = label_y;
    }
    for runs in &points {
        let lowest = series.iter().map(|of| of.cost.usd(*runs)).fold(f64::INFINITY, f64::min);
        let (x, y) = (scale.x(*runs), scale.y(lowest));
        let runs = super::table::runs(*runs);
        push(
            &mut svg,
            &format!(
                "<circle class=\"point\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\">\
             <title>break-even at {runs} runs a month</title></circle>\
             <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{runs}</text>",
                y - 8.0
            ),
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Where runs and dollars are on the plot.
struct Scale {
    most_runs: f64,
    most_usd: f64,
}

impl Scale {
    fn x(&self, runs: f64) -> f64 {
        LEFT + runs / self.most_runs * (WIDTH - LEFT - RIGHT)
    }

    fn y(&self, usd: f64) -> f64 {
        FLOOR - usd.min(self.most_usd) / self.most_usd * (FLOOR - TOP)
    }

    /// Where a line ends; one that leaves at the top ends there.
    fn end(&self, of: &Series) -> (f64, f64) {
        let leaves = of.cost.usd(self.most_runs) > self.most_usd && of.cost.per_run_usd > 0.0;
        let runs = match leaves {
            true => ((self.most_usd - of.cost.fixed_usd) / of.cost.per_run_usd).max(0.0),
            false => self.most_runs,
        };
        (self.x(runs), self.y(of.cost.usd(runs)))
    }
}

fn axes(svg: &mut String, scale: &Scale, now: f64) {
    for tick in ticks(scale.most_usd) {
        let (y, end, label) = (scale.y(tick), WIDTH - RIGHT, LEFT - 4.0);
        push(
            svg,
            &format!(
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{end}\" y1=\"{y:.1}\" y2=\"{y:.1}\" />\
             <text x=\"{label}\" y=\"{:.1}\" text-anchor=\"end\">${tick}</text>",
                y + 4.0
            ),
        );
    }
    for tick in ticks(scale.most_runs) {
        push(
            svg,
            &format!(
                "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{tick}</text>",
                scale.x(tick),
                FLOOR + 16.0
            ),
        );
    }
    let x = scale.x(now);
    push(
        svg,
        &format!(
            "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">runs a month</text>\
         <line class=\"now\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{TOP}\" y2=\"{FLOOR}\" />\
         <text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\">now</text>",
            (LEFT + WIDTH - RIGHT) / 2.0,
            HEIGHT - 8.0,
            TOP - 3.0
        ),
    );
}

fn line(svg: &mut String, scale: &Scale, at: usize, of: &Series, label_y: f64) {
    let (x, y) = scale.end(of);
    let look = at % DASHES.len();
    push(
        svg,
        &format!(
            "<line class=\"series c{look}\" stroke-dasharray=\"{}\" x1=\"{LEFT}\" y1=\"{:.1}\" \
         x2=\"{x:.1}\" y2=\"{y:.1}\"><title>{}</title></line>\
         <text class=\"letter\" x=\"{:.1}\" y=\"{label_y:.1}\">{}</text>",
            DASHES[look],
            scale.y(of.cost.fixed_usd),
            escape(&of.name),
            x + 4.0,
            letter(at)
        ),
    );
}
