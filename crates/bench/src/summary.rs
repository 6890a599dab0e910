//! Measurements of all repeats, put together: one row for each phase on each target.

use schemars::JsonSchema;
use serde::Serialize;

use crate::report::{Latency, Measurement, Point, Report, Warning};
use crate::stats::{Stats, median};
use crate::words;

/// A phase of a suite on one target, over all repeats.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Row {
    /// The suite.
    pub suite: String,
    /// The phase.
    pub phase: String,
    /// Copies, jobs or threads at once.
    pub copies: u32,
    /// The target, by its place in [`Report::targets`].
    pub target: usize,
    /// Seconds.
    pub seconds: Stats,
    /// Bytes moved; the median.
    pub bytes: u64,
    /// Operations; the median.
    pub operations: u64,
    /// What an operation is.
    pub unit: String,
    /// Bytes a second, where it moved any.
    pub bytes_per_s: Option<Stats>,
    /// Operations a second, where they were counted.
    pub operations_per_s: Option<Stats>,
    /// How many times as fast as the first target, where that was measured.
    pub ratio: Option<f64>,
    /// Medians of the percentiles.
    pub latency: Option<Latency>,
    /// Throughput over time of the repeat that took the median time, or the next longer one.
    pub series: Vec<Point>,
    /// What is doubtful, each once.
    pub warnings: Vec<Warning>,
}

/// The rows of a report, in the order of its measurements.
pub fn summary(report: &Report) -> Vec<Row> {
    let mut groups: Vec<Vec<&Measurement>> = Vec::new();
    for of in &report.measurements {
        match groups.iter_mut().find(|group| key(group[0]) == key(of)) {
            Some(group) => group.push(of),
            None => groups.push(vec![of]),
        }
    }
    let mut rows: Vec<Row> = groups.iter().filter_map(|group| row(group)).collect();
    let speeds: Vec<_> = rows.iter().map(|row| (row.key(), row.speed())).collect();
    for row in &mut rows {
        let first = speeds
            .iter()
            .find(|(key, _)| *key == (row.suite.clone(), row.phase.clone(), row.copies, 0));
        row.ratio = first.and_then(|(_, first)| Some(row.speed()? / (*first)?));
    }
    rows
}

fn key(of: &Measurement) -> (&str, &str, u32, usize) {
    (&of.suite, &of.phase, of.copies, of.target)
}

fn row(group: &[&Measurement]) -> Option<Row> {
    let of = |value: &dyn Fn(&Measurement) -> f64| -> Vec<f64> {
        group.iter().map(|measurement| value(measurement)).collect()
    };
    let first = group.first()?;
    let seconds = Stats::of(&of(&|one| one.seconds))?;
    let mut by_time = group.to_vec();
    by_time.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    let middle = by_time[by_time.len() / 2];
    let mut warnings: Vec<Warning> = Vec::new();
    for warning in group.iter().flat_map(|one| &one.warnings) {
        if !warnings.contains(warning) {
            warnings.push(warning.clone());
        }
    }
    Some(Row {
        suite: first.suite.clone(),
        phase: first.phase.clone(),
        copies: first.copies,
        target: first.target,
        bytes: median(&of(&|one| one.bytes as f64)) as u64,
        operations: median(&of(&|one| one.operations as f64)) as u64,
        unit: first.unit.clone(),
        bytes_per_s: rates(group, |one| one.bytes),
        operations_per_s: rates(group, |one| one.operations),
        ratio: None,
        latency: latency(group),
        series: middle.series.clone(),
        seconds,
        warnings,
    })
}

/// The rate of each repeat, where there is one in all.
fn rates(group: &[&Measurement], count: fn(&Measurement) -> u64) -> Option<Stats> {
    let of = |one: &&Measurement| {
        (count(one) > 0 && one.seconds > 0.0).then(|| count(one) as f64 / one.seconds)
    };
    Stats::of(&group.iter().map(of).collect::<Option<Vec<f64>>>()?)
}

fn latency(group: &[&Measurement]) -> Option<Latency> {
    let all: Vec<Latency> = group.iter().filter_map(|one| one.latency).collect();
    let of = |value: fn(&Latency) -> f64| median(&all.iter().map(value).collect::<Vec<_>>());
    (!all.is_empty()).then(|| Latency {
        mean_us: of(|one| one.mean_us),
        p50_us: of(|one| one.p50_us),
        p90_us: of(|one| one.p90_us),
        p99_us: of(|one| one.p99_us),
        p999_us: of(|one| one.p999_us),
        max_us: of(|one| one.max_us),
    })
}

impl Row {
    /// The name of its target.
    pub(crate) fn target_name<'a>(&self, report: &'a Report) -> &'a str {
        report.targets.get(self.target).map_or("unknown", |target| &target.name)
    }

    /// The rate that the row is known by: bytes a second, or operations where no bytes are moved.
    pub fn rate(&self) -> Option<&Stats> {
        self.bytes_per_s.as_ref().or(self.operations_per_s.as_ref())
    }

    /// [`Row::rate`] with its unit and its spread: `97.9 MB/s ± 2 %`.
    pub fn rate_text(&self) -> String {
        let text = match (&self.bytes_per_s, &self.operations_per_s) {
            (Some(rate), _) => words::bytes_per_s(rate.median),
            (None, Some(rate)) => format!("{} {}/s", words::digits(rate.median), self.unit),
            (None, None) => return "unknown".to_owned(),
        };
        match self.rate().and_then(Stats::relative_sd) {
            Some(share) => format!("{text} ± {:.0} %", share * 100.0),
            None => text,
        }
    }

    /// The rate, or runs a second where neither bytes nor operations were counted.
    fn speed(&self) -> Option<f64> {
        let runs = (self.seconds.median > 0.0).then(|| 1.0 / self.seconds.median);
        self.rate().map(|rate| rate.median).or(runs)
    }

    fn key(&self) -> (String, String, u32, usize) {
        (self.suite.clone(), self.phase.clone(), self.copies, self.target)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sample;

    #[test]
    fn repeats_become_one_row_beside_the_first_target() {
        let mut report = sample::report();
        report.measurements.clear();
        for (target, seconds) in [(0, [2.0, 4.0, 2.5]), (1, [5.0, 4.0, 8.0])] {
            for (repeat, seconds) in seconds.into_iter().enumerate() {
                report.measurements.push(Measurement {
                    target,
                    repeat: repeat as u32,
                    ..sample::measurement("small-files", "create", 1, seconds)
                });
            }
        }
        let rows = summary(&report);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].seconds.median, rows[1].seconds.median), (2.5, 5.0));
        // The samples move 100 MB in 1,000 files.
        assert_eq!(rows[0].bytes_per_s.map(|rate| rate.median), Some(40e6));
        assert_eq!(rows[1].operations_per_s.map(|rate| rate.median), Some(200.0));
        assert_eq!((rows[0].ratio, rows[1].ratio), (Some(1.0), Some(0.5)));
        assert!(rows[1].rate_text().starts_with("20.0 MB/s ± "), "{}", rows[1].rate_text());
        assert_eq!(rows[0].latency.expect("timed").p50_us, 2500.0, "that of the median");
        assert_eq!(rows[0].warnings.len(), 1, "the same warning of three repeats");
    }

    #[test]
    fn what_moves_no_bytes_is_known_by_its_operations() {
        let mut report = sample::report();
        let stat = Measurement { bytes: 0, ..sample::measurement("metadata", "stat", 1, 0.5) };
        let nothing = Measurement { bytes: 0, operations: 0, ..stat.clone() };
        let second = Measurement { target: 1, seconds: 2.0, ..nothing.clone() };
        report.measurements = vec![stat];
        assert_eq!(summary(&report)[0].rate_text(), "2000 files/s");
        report.measurements = vec![nothing, second];
        let rows = summary(&report);
        assert_eq!((rows[1].rate_text().as_str(), rows[1].ratio), ("unknown", Some(0.25)));
    }

    #[test]
    fn a_target_that_the_first_has_nothing_beside_has_no_ratio() {
        let mut report = sample::report();
        report.measurements =
            vec![Measurement { target: 1, ..sample::measurement("hydrate", "dd", 1, 3.0) }];
        assert_eq!(summary(&report)[0].ratio, None);
    }
}
