//! `credit-drain`: reads and writes until the rate drops, and then with provisioned throughput.
//!
//! As it was published (EFS, 2018): four clients read and write until the burst credits of a
//! bursting file system are gone, 2.1 TiB of them; then 100 MiB/s are provisioned. What they have
//! to come down from is the rate of the first ten seconds, and below half of it for five seconds
//! they are down.

mod clients;
mod mode;

use clients::Load;

use crate::report::{Measurement, Point, Size, Warning};
use crate::suite::{BenchError, Demand, Run, Suite};
use crate::suites::outside::{blank, takes_direct};

const MIB: u64 = 1 << 20;

/// How many clients there were. Of the numbers that somebody asks for, the largest counts.
const CLIENTS: u32 = 4;

/// MiB a second that were provisioned.
const PROVISIONED_MIB_PER_S: u64 = 100;

/// `credit-drain`.
pub(super) struct CreditDrain;

/// How large it is.
#[derive(Clone, Copy, Debug)]
struct Plan {
    load: Load,
    longest_s: usize,
    provisioned_s: usize,
    /// Credits that a mount of weir begins with.
    credit_bytes: u64,
    fall: Fall,
}

/// When a rate has dropped.
#[derive(Clone, Copy, Debug)]
struct Fall {
    /// Seconds whose mean it has to come down from.
    first_s: usize,
    /// Seconds that it has to stay below half of that.
    below_s: usize,
}

impl Plan {
    fn of(size: Size, copies: &[u32]) -> Self {
        let clients = copies.iter().copied().max().unwrap_or(CLIENTS);
        let load = |file_bytes| Load { clients, file_bytes, direct: true };
        let fall = Fall { first_s: 10, below_s: 5 };
        match size {
            Size::Small => Self {
                load: load(64 * MIB),
                longest_s: 60,
                provisioned_s: 10,
                credit_bytes: 200 * MIB,
                fall,
            },
            Size::Published => Self {
                load: load(1024 * MIB),
                longest_s: 8 * 3600,
                provisioned_s: 60,
                // 2.1 TiB.
                credit_bytes: 21 * 1024 * 1024 / 10 * MIB,
                fall,
            },
        }
    }
}

impl Suite for CreditDrain {
    fn name(&self) -> &'static str {
        "credit-drain"
    }

    fn about(&self) -> &'static str {
        "read and write until credits are gone, then provisioned; on weir it changes the volume's mode meanwhile"
    }

    fn changes_mounts(&self) -> bool {
        true
    }

    fn published(&self) -> &'static [&'static str] {
        &["efs-credit-drain", "efs-burst-fio", "efs-exhausted-fio", "efs-provisioned-fio"]
    }

    fn demand(&self, size: Size, copies: &[u32]) -> Demand {
        let plan = Plan::of(size, copies);
        let seconds = (plan.longest_s + plan.provisioned_s) as u64;
        // Half is read, half written, of 100 MiB a second.
        let half = seconds * 50 * MIB;
        Demand {
            space_bytes: plan.load.file_bytes * u64::from(plan.load.clients),
            written_bytes: half,
            read_bytes: half,
            files: u64::from(plan.load.clients),
            seconds,
            ..Demand::default()
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Measurement>, BenchError> {
        let mut plan = Plan::of(run.size, run.copies);
        plan.load.direct = takes_direct(run.dir)?;
        if !run.is_weir {
            return drain(run, &plan);
        }
        let found = mode::Found::of(run)?;
        // Back to it also when this fails, panics or is stopped.
        let mut back = mode::Restore::to(found, run);
        let measured = on_weir(run, &plan);
        let restored = back.now();
        let mut measured = measured?;
        if let (Err(error), Some(last)) = (restored, measured.last_mut()) {
            let what = format!("THE THROUGHPUT MODE OF THE VOLUME WAS NOT RESTORED: {error}");
            last.warnings.push(Warning::Other { what });
        }
        Ok(measured)
    }
}

/// With credits, until they are gone, and with provisioned throughput.
fn on_weir(run: &Run<'_>, plan: &Plan) -> Result<Vec<Measurement>, BenchError> {
    mode::set(run, &["--mode", "bursting", "--credits", &format!("{}B", plan.credit_bytes)])?;
    let mut measurements = drain(run, plan)?;
    let mib_per_s = PROVISIONED_MIB_PER_S.to_string();
    mode::set(run, &["--mode", "provisioned", "--mibps", &mib_per_s])?;
    run.progress.phase("provisioned", plan.provisioned_s as u64);
    let series = clients::drive(run, plan.load, &mut |series| series.len() >= plan.provisioned_s)?;
    let mut measured = of_series(run, plan, "provisioned", &series);
    let why = format!("{mib_per_s} MiB/s are provisioned, of which reads count a third");
    measured.warnings.push(Warning::Throttled { why });
    measurements.push(measured);
    Ok(measurements)
}

/// Reads and writes until the rate drops: what came before is `burst`, and the rest `exhausted`.
fn drain(run: &Run<'_>, plan: &Plan) -> Result<Vec<Measurement>, BenchError> {
    run.progress.phase("drain", plan.longest_s as u64);
    let series = clients::drive(run, plan.load, &mut |series| {
        series.len() >= plan.longest_s || plan.fall.at(series).is_some()
    })?;
    let Some(at) = plan.fall.at(&series) else {
        let mut measured = of_series(run, plan, "burst", &series);
        let end_s = series.last().map_or(0.0, |point| point.at_s);
        let what = format!("the rate never dropped by half in {end_s:.0} s: no credits ran out");
        measured.warnings.push(Warning::Other { what });
        return Ok(vec![measured]);
    };
    let (before, after) = series.split_at(at);
    let dropped_s = before.last().map_or(0.0, |point| point.at_s);
    let why = format!("the rate dropped below half of its first after {dropped_s:.0} s");
    let after: Vec<_> =
        after.iter().map(|point| Point { at_s: point.at_s - dropped_s, ..*point }).collect();
    let mut measured =
        [of_series(run, plan, "burst", before), of_series(run, plan, "exhausted", &after)];
    for measured in &mut measured {
        measured.warnings.push(Warning::Throttled { why: why.clone() });
    }
    Ok(measured.into())
}

impl Fall {
    /// The first of the seconds in which the rate stays down, once there are as many.
    fn at(&self, series: &[Point]) -> Option<usize> {
        let first = series.get(..self.first_s)?;
        let mean = first.iter().map(|point| point.bytes_per_s).sum::<f64>() / first.len() as f64;
        let below = |point: &Point| point.bytes_per_s < mean / 2.0;
        series.windows(self.below_s).position(|seconds| seconds.iter().all(below))
    }
}

fn of_series(run: &Run<'_>, plan: &Plan, phase: &str, series: &[Point]) -> Measurement {
    let mut from_s = 0.0;
    let mut bytes = 0.0;
    for point in series {
        bytes += point.bytes_per_s * (point.at_s - from_s);
        from_s = point.at_s;
    }
    let bytes = bytes.round() as u64;
    let mut warnings = Vec::new();
    if !plan.load.direct {
        let why = "the file system refuses O_DIRECT: reads may be of the page cache".into();
        warnings.push(Warning::Cached { why });
    }
    Measurement {
        seconds: from_s,
        bytes,
        operations: bytes / clients::BLOCK_BYTES as u64,
        unit: "I/Os".into(),
        series: series.to_vec(),
        warnings,
        ..blank(run, "credit-drain", phase, plan.load.clients)
    }
}

#[cfg(test)]
mod tests;
