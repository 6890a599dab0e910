//! Which plots a suite has: throughput over time and latency for each phase, and how phases scale.

use maud::{Markup, html};
use weir_cost::page::chart::{Line, Lines, Scale};

use crate::report::{Latency, Report, TargetFacts};
use crate::summary::Row;

const PERCENTILES: [&str; 5] = ["p50", "p90", "p99", "p99.9", "max"];

/// All plots of a suite.
pub(super) fn plots(report: &Report, rows: &[&Row]) -> Markup {
    let mut phases: Vec<&str> = Vec::new();
    for row in rows {
        if !phases.contains(&row.phase.as_str()) {
            phases.push(&row.phase);
        }
    }
    let of = |phase: &str| -> Vec<&Row> {
        rows.iter().copied().filter(|row| row.phase == phase).collect()
    };
    html! {
        div class="charts" {
            @for phase in phases {
                (scaling(report, phase, &of(phase)))
                (over_time(report, phase, &of(phase)))
                (latency(report, phase, &of(phase)))
            }
        }
    }
}

/// The rows with the most copies: those that ask the most of a target.
fn busiest<'a>(rows: &[&'a Row]) -> (u32, Vec<&'a Row>) {
    let most = rows.iter().map(|row| row.copies).max().unwrap_or(0);
    (most, rows.iter().copied().filter(|row| row.copies == most).collect())
}

fn over_time(report: &Report, phase: &str, rows: &[&Row]) -> Markup {
    let (copies, rows) = busiest(rows);
    let line = |row: &&Row| Line {
        name: row.target_name(report).to_owned(),
        points: row.series.iter().map(|point| (point.at_s, point.bytes_per_s / 1e6)).collect(),
    };
    let lines: Vec<Line> = rows.iter().map(line).collect();
    Lines {
        title: &format!("{phase} x{copies}: throughput over time"),
        about: "MB a second over seconds, a line for each target.",
        x: "seconds",
        y: "MB/s",
        lines: &lines,
        ..Lines::default()
    }
    .figure()
}

fn latency(report: &Report, phase: &str, rows: &[&Row]) -> Markup {
    let (copies, rows) = busiest(rows);
    let line = |row: &&Row| {
        let name = row.target_name(report).to_owned();
        Some(Line { name, points: points(row.latency.as_ref()?) })
    };
    let lines: Vec<Line> = rows.iter().filter_map(line).collect();
    let places = PERCENTILES.iter().enumerate();
    let places: Vec<_> = places.map(|(at, name)| (at as f64, (*name).to_owned())).collect();
    Lines {
        title: &format!("{phase} x{copies}: latency"),
        about: "Milliseconds of an operation at each percentile, a line for each target.",
        x: "percentile of operations",
        y: "ms",
        places: &places,
        scale: Scale::Log,
        lines: &lines,
        ..Lines::default()
    }
    .figure()
}

/// Milliseconds at [`PERCENTILES`].
fn points(of: &Latency) -> Vec<(f64, f64)> {
    let all = [of.p50_us, of.p90_us, of.p99_us, of.p999_us, of.max_us];
    all.into_iter().enumerate().map(|(at, us)| (at as f64, us / 1e3)).collect()
}

/// Rates over copies; nothing when only one number of them ran.
fn scaling(report: &Report, phase: &str, rows: &[&Row]) -> Markup {
    let mut copies: Vec<u32> = rows.iter().map(|row| row.copies).collect();
    copies.sort_unstable();
    copies.dedup();
    if copies.len() < 2 {
        return Markup::default();
    }
    let bytes = rows.iter().all(|row| row.bytes_per_s.is_some());
    let unit = rows.first().map_or("operations", |row| &row.unit);
    let rate = |row: &Row| match bytes {
        true => row.bytes_per_s.as_ref().map(|rate| rate.median / 1e6),
        false => row.operations_per_s.as_ref().map(|rate| rate.median),
    };
    let line = |(at, target): (usize, &TargetFacts)| {
        let mine = rows.iter().filter(|row| row.target == at);
        let mut points: Vec<(f64, f64)> =
            mine.filter_map(|row| Some((f64::from(row.copies), rate(row)?))).collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        Line { name: target.name.clone(), points }
    };
    let lines: Vec<Line> = report.targets.iter().enumerate().map(line).collect();
    let places: Vec<_> =
        copies.iter().map(|count| (f64::from(*count), count.to_string())).collect();
    Lines {
        title: &format!("{phase}: more at once"),
        about: "The rate of all together over copies at once, a line for each target.",
        x: "at once",
        y: &if bytes { "MB/s".to_owned() } else { format!("{unit}/s") },
        places: &places,
        lines: &lines,
        ..Lines::default()
    }
    .figure()
}
