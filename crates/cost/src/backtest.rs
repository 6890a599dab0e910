//! The models held against published measurements: predicted beside measured, row by row.
//!
//! The measurements are in `data/published-experiments.json`. What no vendor publishes (the depth
//! of burst credits, the CPU seconds of a program) is fitted on some rows, named in `fitted`, and
//! tested on the others. A row is excluded only where the file says what it contradicts.

mod cases;
mod costs;
mod data;
mod fit;
mod formula;
mod parameters;
mod published;

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;
use weir_throughput::efs::Rules;

use cases::Case;
pub use costs::{CostLine, Verdict};
use data::{Experiment, File};
pub use fit::Fitted;
use parameters::Fits;
pub use published::{Published, published};

/// Predictions beside measurements.
#[derive(Clone, Debug, Serialize, JsonSchema)]
#[schemars(rename = "BacktestReport")]
pub struct Report {
    /// One for each entry of the file; two for a rule with two numbers.
    pub rows: Vec<Row>,
    /// The median of the absolute errors of the rows with `Used::Test`.
    pub median_test_error: f64,
    /// The median of the absolute errors of the rows with `Used::Test` or `Used::Fit`.
    pub median_error: f64,
    /// The median of the absolute errors of the rows with `Used::Own`.
    pub median_own_error: f64,
    /// What was fitted, and on what.
    pub fitted: Vec<Fitted>,
    /// The published sums, computed again.
    pub cost_lines: Vec<CostLine>,
}

/// One number that was measured or stated.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "BacktestRow")]
pub struct Row {
    /// The name of its entry.
    pub id: String,
    /// What the models say; `None` for what has no result.
    pub predicted: Option<f64>,
    /// What was published.
    pub measured: Option<f64>,
    /// The unit of both.
    pub unit: &'static str,
    /// How far the prediction is off, as a share of what was measured: 0.1 is 10% too much.
    pub error: Option<f64>,
    /// What the row is for.
    pub used: Used,
}

/// What a row is used for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "used", rename_all = "snake_case")]
pub enum Used {
    /// Some parameter was fitted on it.
    Fit,
    /// Nothing was fitted on it.
    Test,
    /// We measured it ourselves, on a wire that is what the models take S3 for. Nothing was fitted on it.
    Own,
    /// It contradicts itself or others.
    Excluded {
        /// How.
        why: String,
    },
    /// It is no measurement, but a rule that was stated.
    Rule,
    /// It has no result.
    NoResult {
        /// Why not.
        why: String,
    },
}

/// Replays every published experiment, and computes every published cost line again.
pub fn run() -> Report {
    let file = File::embedded();
    let (fits, fitted) = fit::all(&file);
    let published = file.experiments.iter().flat_map(|of| rows(&file, of, &fits));
    let own = file.own.iter().map(|of| {
        let fitted = fit::rows().any(|row| row == of.id);
        predicted(of, &fits, if fitted { Used::Fit } else { Used::Own })
    });
    let rows: Vec<Row> = published.chain(own).collect();
    let errors = |wanted: &[Used]| {
        let rows = rows.iter().filter(|row| wanted.contains(&row.used));
        median(rows.filter_map(|row| row.error.map(f64::abs)).collect())
    };
    Report {
        median_test_error: errors(&[Used::Test]),
        median_error: errors(&[Used::Test, Used::Fit]),
        median_own_error: errors(&[Used::Own]),
        fitted,
        cost_lines: costs::check(&file),
        rows,
    }
}

fn rows(file: &File, experiment: &Experiment, fits: &Fits) -> Vec<Row> {
    if let Some(why) = experiment.no_result() {
        return vec![Row::new(&experiment.id, None, None, "s", Used::NoResult { why })];
    }
    if experiment.workload == "rule" {
        return rule_rows(experiment);
    }
    let used = if let Some(why) = file.contradiction(experiment) {
        Used::Excluded { why }
    } else if fit::rows().any(|row| row == experiment.id) {
        Used::Fit
    } else {
        Used::Test
    };
    vec![predicted(experiment, fits, used)]
}

fn predicted(experiment: &Experiment, fits: &Fits, used: Used) -> Row {
    let predicted = Case::of(experiment, fits).map(|case| case.predict());
    let (measured, unit) = experiment.measured();
    Row::new(&experiment.id, predicted, measured, unit, used)
}

/// Rules that were stated: throughput for a capacity, baseline and burst for a stored size.
fn rule_rows(experiment: &Experiment) -> Vec<Row> {
    let storage = &experiment.storage;
    let row = |name: String, predicted, stated, unit| {
        Row::new(&name, predicted, stated, unit, Used::Rule)
    };
    if let Some(size_gib) = storage.size_gib {
        let stored_bytes = (size_gib * f64::from(1 << 30)) as u64;
        let rules = Rules::on(cases::DATE_2018);
        let mib = |bytes_per_s: f64| Some(bytes_per_s / f64::from(1 << 20));
        let baseline = mib(rules.baseline_bytes_per_s(stored_bytes));
        let burst = mib(rules.burst_bytes_per_s(stored_bytes));
        return vec![
            row(experiment.id.clone(), baseline, experiment.baseline_mib_per_s, "MiB/s"),
            row(format!("{} burst", experiment.id), burst, experiment.burst_mib_per_s, "MiB/s"),
        ];
    }
    // A TB of FSx for Lustre, as sold, is 1,000 GiB, and rates are for each 1,024 GiB.
    let tib = storage.capacity_tb.map(|tb| tb * 1000.0 / 1024.0);
    let predicted = tib.zip(storage.per_unit_mb_per_s_per_tib).map(|(tib, unit)| tib * unit);
    vec![row(experiment.id.clone(), predicted, experiment.published_mb_per_s, "MB/s")]
}

impl Row {
    fn new(
        id: &str,
        predicted: Option<f64>,
        measured: Option<f64>,
        unit: &'static str,
        used: Used,
    ) -> Self {
        let error = predicted.zip(measured).map(|(predicted, measured)| predicted / measured - 1.0);
        Self { id: id.to_owned(), predicted, measured, unit, error, used }
    }
}

impl fmt::Display for Used {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fit => f.pad("fit"),
            Self::Test => f.pad("test"),
            Self::Own => f.pad("own"),
            Self::Excluded { why } => write!(f, "excluded: {why}"),
            Self::Rule => f.pad("rule"),
            Self::NoResult { why } => write!(f, "no result: {why}"),
        }
    }
}

/// The middle of some numbers; of an even count, the mean of the two in the middle.
fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    match numbers.len() {
        0 => f64::NAN,
        count if count % 2 == 1 => numbers[count / 2],
        count => f64::midpoint(numbers[count / 2 - 1], numbers[count / 2]),
    }
}

#[cfg(test)]
mod tests;
