//! Runs suites on targets, and makes the report.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

use tempfile::TempDir;

use crate::report::{Measurement, Report, SCHEMA, Size, Skipped, Warning};
use crate::suite::{BenchError, Progress, Run, Stop, Suite};
use crate::target::{RunDir, Target};
use crate::{machine, timing};

/// Repeats whose relative standard deviation is above this are noisy.
const NOISY: f64 = 0.1;
/// Measurements below this are too short.
const SHORT_SECONDS: f64 = 1.0;

/// What is to be run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The directories.
    pub paths: Vec<PathBuf>,
    /// How much.
    pub size: Size,
    /// How often.
    pub repeats: u32,
    /// Copies at once; empty for what each suite has of its own.
    pub copies: Vec<u32>,
    /// Whether a write's time includes an fsync.
    pub sync: bool,
    /// What random data begins from.
    pub seed: u64,
    /// The `weir` program.
    pub weir: PathBuf,
    /// Region whose prices are used to say the cost of requests.
    pub region: String,
    /// The program that makes the report, with its version.
    pub made_by: String,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            paths: Vec::new(),
            size: Size::Small,
            repeats: 1,
            copies: Vec::new(),
            sync: true,
            seed: 1,
            weir: PathBuf::from("weir"),
            region: "us-east-1".to_owned(),
            made_by: String::new(),
        }
    }
}

/// Runs the suites on all targets. The targets take turns, and another one begins in each repeat,
/// so that what disturbs the machine for a while hits all of them alike.
///
/// A suite that cannot run somewhere is in the report with its reason. A run that is stopped gives
/// the report of what was measured until then.
///
/// # Errors
/// When a target is no directory that can be written.
pub fn run(
    options: &Options,
    suites: &[&dyn Suite],
    progress: &dyn Progress,
    stop: &Stop,
) -> Result<Report, BenchError> {
    let targets: Result<Vec<_>, _> = options.paths.iter().map(|path| Target::at(path)).collect();
    let targets = targets?;
    let scratch = scratch()?;
    let mut report = Report {
        schema: SCHEMA.to_owned(),
        made_by: options.made_by.clone(),
        began_unix_ms: timing::unix_ms(),
        machine: machine::facts(),
        size: options.size,
        repeats: options.repeats,
        synced: options.sync,
        targets: targets.iter().map(|target| target.facts.clone()).collect(),
        measurements: Vec::new(),
        skipped: Vec::new(),
        stopped: false,
    };
    let all = options.repeats as usize * suites.len() * targets.len();
    let mut turns = 0;
    'all: for repeat in 0..options.repeats {
        for suite in suites {
            for turn in 0..targets.len() {
                let at = (turn + repeat as usize) % targets.len();
                turns += 1;
                if is_skipped(&report.skipped, suite.name(), at) {
                    continue;
                }
                let one = One {
                    options,
                    suite: *suite,
                    target: (at, &targets[at]),
                    repeat,
                    turn: (turns, all),
                    scratch: scratch.path(),
                    stop,
                };
                let (measured, removed) = one.run(progress);
                report.skipped.extend(removed.err().map(|error| one.skipped(&error)));
                match measured {
                    Ok(measured) => report.measurements.extend(measured),
                    Err(BenchError::Stopped) => {
                        report.stopped = true;
                        break 'all;
                    }
                    Err(error) => report.skipped.push(one.skipped(&error)),
                }
            }
        }
    }
    settle(&mut report);
    Ok(report)
}

/// Sorts the measurements of a report that is complete, and adds what only all of them together tell.
pub fn settle(report: &mut Report) {
    sort(&mut report.measurements);
    warn(&mut report.measurements);
}

/// A directory for what is not measured.
fn scratch() -> Result<TempDir, BenchError> {
    let made = tempfile::Builder::new()
        .prefix("weir-bench-")
        .permissions(Permissions::from_mode(0o700))
        .tempdir();
    made.map_err(|error| BenchError::io("make a directory for temporary files", error))
}

/// One run of a suite on one target.
struct One<'a> {
    options: &'a Options,
    suite: &'a dyn Suite,
    target: (usize, &'a Target),
    repeat: u32,
    /// Which turn it is, from 1, of how many.
    turn: (usize, usize),
    scratch: &'a Path,
    stop: &'a Stop,
}

impl One<'_> {
    /// Runs it in a directory of its own, which is removed afterwards, whatever came of the run:
    /// answers the measurements, and whether that could be done.
    fn run(
        &self,
        progress: &dyn Progress,
    ) -> (Result<Vec<Measurement>, BenchError>, Result<(), BenchError>) {
        match self.begin() {
            Ok(own) => (self.measure(own.path(), progress), own.remove()),
            Err(error) => (Err(error), Ok(())),
        }
    }

    fn begin(&self) -> Result<RunDir, BenchError> {
        self.stop.check()?;
        let (_, target) = self.target;
        target.check_room(&self.suite.demand(self.options.size, &self.options.copies))?;
        RunDir::within(&target.facts.path)
    }

    fn measure(&self, dir: &Path, progress: &dyn Progress) -> Result<Vec<Measurement>, BenchError> {
        let (at, target) = self.target;
        let Options { size, copies, sync, seed, weir, .. } = self.options;
        let (turn, all) = self.turn;
        let title = format!("{turn} of {all}: {} on {}", self.suite.name(), target.facts.name);
        self.suite.run(&Run {
            dir,
            target: at,
            is_weir: target.facts.is_weir,
            repeat: self.repeat,
            size: *size,
            copies,
            sync: *sync,
            seed: *seed,
            scratch: self.scratch,
            weir: weir.clone(),
            progress: &Titled { title: &title, progress },
            stop: self.stop,
        })
    }

    /// That it did not go as it should. A missing program is missing for all targets.
    fn skipped(&self, error: &BenchError) -> Skipped {
        let of_all = matches!(error, BenchError::Missing { .. });
        let target = (!of_all).then_some(self.target.0);
        Skipped { suite: self.suite.name().to_owned(), target, why: error.to_string() }
    }
}

fn is_skipped(skipped: &[Skipped], suite: &str, target: usize) -> bool {
    let hits = |of: &Skipped| of.target.is_none_or(|at| at == target);
    skipped.iter().any(|of| of.suite == suite && hits(of))
}

/// Says of each phase which suite and target it belongs to.
struct Titled<'a> {
    title: &'a str,
    progress: &'a dyn Progress,
}

impl Progress for Titled<'_> {
    fn phase(&self, name: &str, steps: u64) {
        self.progress.phase(&format!("{}, {name}", self.title), steps);
    }

    fn step(&self, steps: u64) {
        self.progress.step(steps);
    }
}

/// By suite and phase in the order in which they ran first, then copies, target and repeat.
fn sort(measurements: &mut [Measurement]) {
    let mut order: Vec<(String, String)> = Vec::new();
    let key = |of: &Measurement| (of.suite.clone(), of.phase.clone());
    for measured in measurements.iter() {
        if !order.contains(&key(measured)) {
            order.push(key(measured));
        }
    }
    let place = |of: &Measurement, wanted: fn(&(String, String), &Measurement) -> bool| {
        order.iter().position(|known| wanted(known, of)).unwrap_or(order.len())
    };
    measurements.sort_by_key(|of| {
        let suite = place(of, |known, of| known.0 == of.suite);
        let phase = place(of, |known, of| known.0 == of.suite && known.1 == of.phase);
        (suite, phase, of.copies, of.target, of.repeat)
    });
}

/// Adds the warnings that can be given only afterwards. The measurements are sorted.
fn warn(measurements: &mut [Measurement]) {
    for measured in measurements.iter_mut() {
        if measured.seconds < SHORT_SECONDS {
            measured.warnings.push(Warning::TooShort { seconds: measured.seconds });
        }
    }
    let same = |a: &Measurement, b: &Measurement| {
        (&a.suite, &a.phase, a.copies, a.target) == (&b.suite, &b.phase, b.copies, b.target)
    };
    for repeats in measurements.chunk_by_mut(same) {
        let seconds: Vec<_> = repeats.iter().map(|measured| measured.seconds).collect();
        let deviation = relative_deviation(&seconds);
        if deviation > NOISY {
            for measured in repeats {
                measured.warnings.push(Warning::Noisy { deviation });
            }
        }
    }
}

/// The standard deviation of a sample as a share of its mean; 0 for fewer than two values.
fn relative_deviation(values: &[f64]) -> f64 {
    let count = values.len() as f64;
    let mean = values.iter().sum::<f64>() / count;
    if values.len() < 2 || mean <= 0.0 {
        return 0.0;
    }
    let squares: f64 = values.iter().map(|value| (value - mean).powi(2)).sum();
    (squares / (count - 1.0)).sqrt() / mean
}

#[cfg(test)]
mod tests;
