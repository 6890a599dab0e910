//! How long a run takes: a workload on a machine over a choice of storage.
//!
//! What adds and what overlaps:
//! - Large files that are read or written in order are a stream: read-ahead and write-back keep
//!   every stage busy, so the slowest stage counts, and computing goes on meanwhile.
//! - Small files, and I/Os in no order (page faults), keep their thread waiting: each one is its
//!   latency and a visit to every stage, where it queues behind the other threads. Computing adds.
//! - Reads and writes use the same stages, so they add.
//! - Jobs run side by side on one machine. A data set that fits in its memory is read once for all
//!   of them; each run begins with that memory empty.

mod parameters;
mod path;
mod queue;
mod work;

use schemars::JsonSchema;
use serde::Serialize;
use weir_throughput::credits::Burst;

use crate::{Machine, Storage, Workload};
pub use parameters::FreeParameters;
use path::{Path, Side};
pub use work::Bound;
use work::{Spent, Work};

/// A stage that is busy for more than this share of the time is what bounds a run.
const BUSY: f64 = 0.5;

/// How long a run takes, and why.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Prediction {
    /// One run of all jobs, in seconds, once the storage is warm.
    pub seconds: f64,
    /// What it waits for most.
    pub bound_by: Bound,
    /// The first run: the storage is cold, or has its initial credits.
    pub first_run_seconds: f64,
    /// What the first run waits for most.
    pub first_bound_by: Bound,
    /// Of `seconds`, computing, were it alone.
    pub cpu_seconds: f64,
    /// Of `seconds`, reading and writing, were they alone.
    pub storage_seconds: f64,
    /// Bytes that all jobs of a run read from the storage: what the page cache saves is not here.
    pub read_bytes: f64,
    /// Bytes that all jobs of a run write.
    pub write_bytes: f64,
}

/// How long one run of `concurrency` jobs takes.
pub fn predict(
    storage: &Storage,
    workload: &Workload,
    machine: &Machine,
    free: &FreeParameters,
) -> Prediction {
    let work = Work::of(workload, machine);
    let warm = Path::warm(storage, workload, machine, free, &work);
    let cold = Path::cold(storage, workload, machine, free);
    let reading_and_writing = warm.seconds(&work);
    let run = work.with_computing(reading_and_writing);
    let first = work.with_computing(cold.seconds(&work));
    let first_seconds = first.seconds + cold.fill_s;
    let filling = cold.fill_s > first.seconds;
    Prediction {
        seconds: run.seconds,
        bound_by: run.bound_by,
        first_run_seconds: first_seconds,
        first_bound_by: if filling { Bound::Load } else { first.bound_by },
        cpu_seconds: work.cpu_s,
        storage_seconds: reading_and_writing.seconds,
        read_bytes: work.read_bytes,
        write_bytes: work.write_bytes,
    }
}

impl Path {
    /// Reads, and then writes.
    fn seconds(&self, work: &Work) -> Spent {
        let share = |bytes: f64| if bytes > 0.0 { work.files * bytes / work.bytes() } else { 0.0 };
        let read = self.read.seconds(work.read_bytes, share(work.read_bytes), work);
        let write = self.write.seconds(work.write_bytes, share(work.write_bytes), work);
        let longer = if read.seconds >= write.seconds { read } else { write };
        Spent { seconds: read.seconds + write.seconds, ..longer }
    }
}

impl Side {
    fn seconds(&self, bytes: f64, files: f64, work: &Work) -> Spent {
        if bytes <= 0.0 {
            return Spent { seconds: 0.0, bound_by: Bound::Latency };
        }
        let (bound_by, files_per_s) = self.files_per_s;
        let names = Spent { seconds: files / files_per_s, bound_by };
        if work.small_files() {
            self.waits(bytes, files, self.file_s + self.latency_s, (work, names))
        } else if work.random {
            self.waits(bytes, bytes / work.io_bytes, self.latency_s, (work, names))
        } else {
            longer(self.stream(bytes, work), names)
        }
    }

    /// The slowest stage, of those that are asked for no more than the computing and the client can
    /// take.
    fn stream(&self, bytes: f64, work: &Work) -> Spent {
        let demand = if work.cpu_s > 0.0 { bytes / work.cpu_s } else { f64::INFINITY };
        let demand = self.at_most(demand);
        let times = self.stages.iter().map(|stage| stage_time(stage, bytes, demand));
        times.fold(self.requests_time(bytes / work.io_bytes), longer)
    }

    /// Operations that each wait for `think_s` and for every stage, that of `names` among them.
    fn waits(
        &self,
        bytes: f64,
        operations: f64,
        think_s: f64,
        (work, names): (&Work, Spent),
    ) -> Spent {
        let demand = self.at_most(work.customers as f64 * bytes / operations / think_s);
        let requests = self.requests_time(operations);
        if self.behind {
            let seconds = operations * think_s / work.customers as f64;
            let thinking = Spent { seconds, bound_by: Bound::Latency };
            let times = self.stages.iter().map(|stage| stage_time(stage, bytes, demand));
            return times.chain([requests, names]).fold(thinking, longer);
        }
        let busy = self.stages.iter().map(|stage| stage_busy(stage, bytes, demand));
        let times: Vec<Spent> = busy.chain([requests, names]).collect();
        let services: Vec<f64> = times.iter().map(|time| time.seconds / operations).collect();
        let seconds = operations / queue::throughput(&services, think_s, work.customers);
        let latency = Spent { seconds: 0.0, bound_by: Bound::Latency };
        let slowest = times.into_iter().fold(latency, longer);
        let bound_by =
            if slowest.seconds > seconds * BUSY { slowest.bound_by } else { Bound::Latency };
        Spent { seconds, bound_by }
    }

    /// What is asked of a stage when the steady ones let no more than this through.
    fn at_most(&self, demand: f64) -> f64 {
        let steady = self.stages.iter().filter(|(_, burst)| is_steady(burst));
        steady.map(|(_, burst)| burst.fast).fold(demand, f64::min)
    }

    fn requests_time(&self, operations: f64) -> Spent {
        let (bound_by, per_s) = self.operations_per_s;
        Spent { seconds: operations / per_s, bound_by }
    }
}

/// How long bytes take that are asked for at a rate. It matters to a stage with credits, which it
/// spares.
fn stage_time(stage: &(Bound, Burst), bytes: f64, demand: f64) -> Spent {
    let asked = if is_steady(&stage.1) { stage.1 } else { stage.1.asked_for(demand) };
    Spent { seconds: asked.seconds(bytes), ..stage_busy(stage, bytes, demand) }
}

/// How long a stage works for these bytes: at its own rate, fast for those before the credits run
/// out.
fn stage_busy(&(bound, burst): &(Bound, Burst), bytes: f64, demand: f64) -> Spent {
    let asked = burst.asked_for(demand);
    let fast_bytes = asked.fast_bytes(bytes);
    let exhausted = asked.slow < asked.fast && fast_bytes < bytes;
    let bound_by = if exhausted { Bound::Credits } else { bound };
    let slow_s = if exhausted { (bytes - fast_bytes) / burst.slow } else { 0.0 };
    let fast_bytes = if exhausted { fast_bytes } else { bytes };
    Spent { seconds: fast_bytes / burst.fast + slow_s, bound_by }
}

fn is_steady(burst: &Burst) -> bool {
    burst.fast == burst.slow
}

fn longer(a: Spent, b: Spent) -> Spent {
    if b.seconds > a.seconds { b } else { a }
}

#[cfg(test)]
mod tests;
