//! Two reports of the same experiments, one beside the other.

use schemars::JsonSchema;
use serde::Serialize;
use thiserror::Error;

use crate::report::{Measurement, Report, SCHEMA, Size};
use crate::stats::{LEVEL, REPEATS_MIN, Significance, Stats, significant};
use crate::summary::{Row, summary};
use crate::words;

/// Why two reports cannot be compared.
#[derive(Debug, Error)]
pub enum CompareError {
    /// The text is no report.
    #[error("this is no report of weir bench: {0}")]
    Json(#[from] serde_json::Error),
    /// It is one of another version.
    #[error("report schema `{0}` is unknown: this version reads `{SCHEMA}`")]
    Schema(String),
    /// One ran the small size, the other the published one.
    #[error("the reports are of different sizes, {a} and {b}: run both with the same --size")]
    Size {
        /// That of the first.
        a: &'static str,
        /// That of the second.
        b: &'static str,
    },
    /// One waited for the disk, the other did not.
    #[error(
        "only one of the reports has fsync within the time of writes: run both with --no-sync or neither"
    )]
    Sync,
}

/// How the second report stands to the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "BenchVerdict")]
pub enum Verdict {
    /// It is faster by more than the threshold, and not by chance.
    Faster,
    /// It is slower by more than the threshold, and not by chance.
    Slower,
    /// The difference is within the threshold.
    Same,
    /// There are too few repeats, or they differ too much to tell.
    Unclear,
}

/// A phase that both reports have.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Compared {
    /// The suite.
    pub suite: String,
    /// The phase.
    pub phase: String,
    /// Copies, jobs or threads at once.
    pub copies: u32,
    /// The name of the target.
    pub target: String,
    /// What both say: `97.9 MB/s ± 2 %`.
    pub rates: (String, String),
    /// How many times as fast the second is.
    pub ratio: f64,
    /// Whether they differ by more than chance.
    #[serde(flatten)]
    pub significance: Significance,
    /// What that comes to.
    pub verdict: Verdict,
}

/// A phase that only one report has.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Missing {
    /// Suite, phase, copies and target, in words.
    pub what: String,
    /// Whether it is the second report that lacks it.
    pub from_second: bool,
}

/// Two reports compared.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "BenchComparison")]
pub struct Comparison {
    /// Differences up to this share of the first are none.
    pub threshold: f64,
    /// What both have, in the order of the first.
    pub compared: Vec<Compared>,
    /// What only one has.
    pub missing: Vec<Missing>,
    /// What else differs: machines, kernels, repeats.
    pub remarks: Vec<String>,
}

/// Reads a report.
///
/// # Errors
/// When the text is none, or one of a schema that this version does not know.
pub fn read(text: &str) -> Result<Report, CompareError> {
    let value: serde_json::Value = serde_json::from_str(text)?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(SCHEMA) => Ok(serde_json::from_value(value)?),
        Some(schema) => Err(CompareError::Schema(schema.to_owned())),
        None => Ok(serde_json::from_value(value)?),
    }
}

/// Compares `b` with `a`; differences up to the share `threshold` count for none.
///
/// # Errors
/// When the two did not measure the same.
pub fn compare(a: &Report, b: &Report, threshold: f64) -> Result<Comparison, CompareError> {
    for report in [a, b] {
        if report.schema != SCHEMA {
            return Err(CompareError::Schema(report.schema.clone()));
        }
    }
    if a.size != b.size {
        return Err(CompareError::Size { a: name(a.size), b: name(b.size) });
    }
    if a.synced != b.synced {
        return Err(CompareError::Sync);
    }
    let (rows_a, rows_b) = (summary(a), summary(b));
    let (mut compared, mut missing) = (Vec::new(), Vec::new());
    for row in &rows_a {
        match rows_b.iter().find(|other| same(a, row, b, other)) {
            Some(other) => compared.extend(one(a, row, b, other, threshold)),
            None => missing.push(Missing { what: words_of(a, row), from_second: true }),
        }
    }
    hold_together(&mut compared);
    let only_b = rows_b.iter().filter(|row| !rows_a.iter().any(|other| same(a, other, b, row)));
    missing.extend(only_b.map(|row| Missing { what: words_of(b, row), from_second: false }));
    Ok(Comparison { threshold, compared, missing, remarks: remarks(a, b) })
}

/// Of many differences some are chance: of those that are told apart, no more than one of 20 is to
/// be. Source: Benjamini and Hochberg, "Controlling the False Discovery Rate", 1995.
fn hold_together(compared: &mut [Compared]) {
    let p_of = |row: &Compared| match row.significance {
        Significance::TooFew => None,
        Significance::Chance { p } | Significance::Significant { p } => Some(p),
    };
    let mut ps: Vec<f64> = compared.iter().filter_map(p_of).collect();
    ps.sort_by(f64::total_cmp);
    let many = ps.len() as f64;
    let ranked = ps.iter().zip(1..).filter(|(p, rank)| **p <= f64::from(*rank) / many * LEVEL);
    let largest = ranked.map(|(p, _)| *p).fold(0.0, f64::max);
    for row in compared {
        if let Significance::Significant { p } = row.significance
            && p > largest
        {
            row.significance = Significance::Chance { p };
            if row.verdict != Verdict::Same {
                row.verdict = Verdict::Unclear;
            }
        }
    }
}

fn name(size: Size) -> &'static str {
    match size {
        Size::Small => "small",
        Size::Published => "published",
    }
}

fn same(a: &Report, row: &Row, b: &Report, other: &Row) -> bool {
    (&row.suite, &row.phase, row.copies) == (&other.suite, &other.phase, other.copies)
        && row.target_name(a) == other.target_name(b)
}

fn words_of(report: &Report, row: &Row) -> String {
    format!("{} {} x{} on {}", row.suite, row.phase, row.copies, row.target_name(report))
}

/// The two rows; `None` where one took no time at all, which no clock says.
fn one(a: &Report, row: &Row, b: &Report, other: &Row, threshold: f64) -> Option<Compared> {
    let both = |rate: fn(&Row) -> bool| rate(row) && rate(other);
    let amount: fn(&Measurement) -> f64 = if both(|row| row.bytes_per_s.is_some()) {
        |one| one.bytes as f64
    } else if both(|row| row.operations_per_s.is_some()) {
        |one| one.operations as f64
    } else {
        |_| 1.0
    };
    let (speeds_a, speeds_b) = (speeds(a, row, amount), speeds(b, other, amount));
    let ratio = Stats::of(&speeds_b)?.median / Stats::of(&speeds_a)?.median;
    let significance = significant(&speeds_a, &speeds_b);
    let verdict = match significance {
        Significance::TooFew => Verdict::Unclear,
        _ if (ratio - 1.0).abs() <= threshold => Verdict::Same,
        Significance::Chance { .. } => Verdict::Unclear,
        Significance::Significant { .. } if ratio > 1.0 => Verdict::Faster,
        Significance::Significant { .. } => Verdict::Slower,
    };
    Some(Compared {
        suite: row.suite.clone(),
        phase: row.phase.clone(),
        copies: row.copies,
        target: row.target_name(a).to_owned(),
        rates: (text(row), text(other)),
        ratio,
        significance,
        verdict,
    })
}

fn text(row: &Row) -> String {
    match row.rate() {
        Some(_) => row.rate_text(),
        None => words::span(row.seconds.median),
    }
}

/// `amount` a second of each repeat.
fn speeds(report: &Report, row: &Row, amount: fn(&Measurement) -> f64) -> Vec<f64> {
    let of = |one: &&Measurement| {
        (&one.suite, &one.phase, one.copies, one.target)
            == (&row.suite, &row.phase, row.copies, row.target)
            && one.seconds > 0.0
    };
    report.measurements.iter().filter(of).map(|one| amount(one) / one.seconds).collect()
}

fn remarks(a: &Report, b: &Report) -> Vec<String> {
    let mut remarks = Vec::new();
    let mut differ = |what: &str, a: &str, b: &str| {
        if a != b {
            remarks.push(format!("{what} differs: {a} and {b}"));
        }
    };
    differ("the machine", &a.machine.host, &b.machine.host);
    differ("the processor", &a.machine.cpu, &b.machine.cpu);
    differ("the number of processors", &a.machine.cpus.to_string(), &b.machine.cpus.to_string());
    differ("the kernel", &a.machine.kernel, &b.machine.kernel);
    differ("the program", &a.made_by, &b.made_by);
    for (report, which) in [(a, "first"), (b, "second")] {
        if report.stopped {
            remarks.push(format!("the {which} run was stopped before its end"));
        }
        if (report.repeats as usize) < REPEATS_MIN {
            remarks.push(format!(
                "the {which} has too few repeats to tell: --repeats {REPEATS_MIN} or more"
            ));
        }
    }
    remarks
}

impl Comparison {
    /// Whether anything is slower: what an exit code says.
    pub fn regressed(&self) -> bool {
        self.compared.iter().any(|row| row.verdict == Verdict::Slower)
    }

    /// Whether it says nothing of what the first report has: a phase is missing in the second, or
    /// there were too few repeats of all.
    pub fn says_too_little(&self) -> bool {
        let told = |row: &Compared| row.significance != Significance::TooFew;
        self.missing.iter().any(|missing| missing.from_second) || !self.compared.iter().any(told)
    }

    /// As rows of a table; the first is the head.
    pub fn table(&self) -> Vec<Vec<String>> {
        let head =
            ["suite", "phase", "copies", "target", "first", "second", "ratio", "p", "verdict"];
        let row = |of: &Compared| {
            let p = match of.significance {
                Significance::TooFew => "too few".to_owned(),
                Significance::Chance { p } | Significance::Significant { p } => format!("{p:.3}"),
            };
            let verdict = match of.verdict {
                Verdict::Faster => "faster",
                Verdict::Slower => "slower",
                Verdict::Same => "same",
                Verdict::Unclear => "unclear",
            };
            vec![
                of.suite.clone(),
                of.phase.clone(),
                of.copies.to_string(),
                of.target.clone(),
                of.rates.0.clone(),
                of.rates.1.clone(),
                format!("{:.2}", of.ratio),
                p,
                verdict.to_owned(),
            ]
        };
        let head = head.map(str::to_owned).to_vec();
        [head].into_iter().chain(self.compared.iter().map(row)).collect()
    }
}

#[cfg(test)]
mod tests;
