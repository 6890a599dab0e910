//! The experiments.

mod aligner;
mod blast;
mod credit_drain;
mod files;
mod fio;
mod genome;
mod hydrate;
mod metadata;
mod outside;
#[cfg(test)]
mod testing;

use crate::cache::{self, Empty};
use crate::report::{Measurement, Warning};
use crate::suite::{BenchError, Run, Suite};
use crate::timing::Timed;

pub use files::{Content, Files, Shape, dd_large, dummy_files, small_files};
pub use metadata::Metadata;

/// All suites, in the order in which they run.
pub fn all() -> Vec<Box<dyn Suite>> {
    vec![
        Box::new(dd_large()),
        Box::new(small_files()),
        Box::new(dummy_files()),
        Box::new(Metadata::default()),
        Box::new(fio::Sequential),
        Box::new(fio::Random),
        Box::new(credit_drain::CreditDrain),
        Box::new(blast::Blast),
        Box::new(hydrate::Hydrate),
        Box::new(aligner::Aligner),
    ]
}

/// What is said of a phase: all but its place in the run and what was timed.
struct Phase<'a> {
    suite: &'a str,
    name: &'a str,
    copies: u32,
    unit: &'a str,
    warnings: Vec<Warning>,
}

impl Phase<'_> {
    /// What was timed, as a measurement.
    fn measured(self, run: &Run<'_>, timed: &Timed) -> Measurement {
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
fn begin(
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
fn copies_of<'a>(asked: &'a [u32], own: &'a [u32]) -> &'a [u32] {
    if asked.is_empty() { own } else { asked }
}
