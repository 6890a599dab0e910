//! A phase of a suite: how it begins, and what is told of it.

use crate::cache::{self, Empty};
use crate::report::{Measurement, Warning};
use crate::suite::{BenchError, Run};
use crate::timing::Timed;

/// What is said of a phase: all but its place in the run and what was timed.
pub(super) struct Phase<'a> {
    pub(super) suite: &'a str,
    pub(super) name: &'a str,
    pub(super) copies: u32,
    pub(super) unit: &'a str,
    pub(super) warnings: Vec<Warning>,
}

impl Phase<'_> {
    /// What was timed, as a measurement.
    pub(super) fn measured(self, run: &Run<'_>, timed: &Timed) -> Measurement {
        Measurement {
            suite: self.suite.to_owned(),
            phase: self.name.to_owned(),
            copies: self.copies,
            target: run.target,
            repeat: run.repeat,
            seconds: timed.seconds,
            bytes: timed.bytes(),
            operations: timed.operations(),
            unit: self.unit.to_owned(),
            series: timed.series(),
            latency: timed.latency(),
            warnings: self.warnings,
        }
    }
}

/// Tells that a phase begins, after the caches were emptied for it; answers what stayed in them.
pub(super) fn begin(
    run: &Run<'_>,
    name: &str,
    copies: u32,
    steps: u64,
    empty: Option<Empty>,
) -> Result<Vec<Warning>, BenchError> {
    run.stop.check()?;
    let title = match copies {
        1 => name.to_owned(),
        _ => format!("{name} x {copies}"),
    };
    run.progress.phase(&title, steps);
    empty.map_or_else(|| Ok(Vec::new()), |what| cache::empty(what, run))
}

/// Copies at once: those asked for, else the suite's own.
pub(super) fn copies_of<'a>(asked: &'a [u32], own: &'a [u32]) -> &'a [u32] {
    if asked.is_empty() { own } else { asked }
}
