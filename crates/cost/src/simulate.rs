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

mod path;
mod queue;

use std::fmt;

use serde::Serialize;
use weir_throughput::credits::Burst;
use weir_throughput::efs;

use crate::{Machine, Storage, Workload};
use path::{Path, Side};

/// The share of memory that the page cache can fill with a data set.
const CACHE_SHARE: f64 = 0.9;

/// Files up to this size end before read-ahead or write-back helps.
const SMALL_FILE_BYTES: f64 = 8e6;

/// A stage that is busy for more than this share of the time is what bounds a run.
const BUSY: f64 = 0.5;

/// What no vendor publishes and measurements must tell, and the rules of the day. `default` has
/// what `backtest` fits, and today's rules.
#[derive(Clone, Debug, PartialEq)]
pub struct FreeParameters {
    /// The rules of EFS.
    pub efs_rules: efs::Rules,
    /// Credits of EFS when a run begins; `None`: what the runs of a day leave.
    pub efs_credit_bytes: Option<f64>,
    /// The share of EFS's limit for a client that one reaches.
    pub efs_client_share: f64,
    /// What reading a small file on EFS takes beside its bytes, in seconds: start a process, open,
    /// close.
    pub efs_read_file_s: f64,
    /// The same for creating one.
    pub efs_write_file_s: f64,
    /// What reading a small file on FSx for Lustre takes beside its bytes, in seconds.
    pub fsx_read_file_s: f64,
    /// The same for creating one.
    pub fsx_write_file_s: f64,
    /// Burst credits of FSx for Lustre for each TiB.
    pub fsx_credit_bytes_per_tib: f64,
    /// What FSx for Lustre loads from a linked bucket in a second, for each TiB.
    pub fsx_load_bytes_per_s_per_tib: f64,
    /// What creating a small file on a local disk takes, in seconds.
    pub local_file_s: f64,
    /// What all jobs of a machine together can make up to be written, in bytes a second, when they
    /// draw it from one source; infinite where they do not.
    pub source_bytes_per_s: f64,
}

impl Default for FreeParameters {
    fn default() -> Self {
        Self {
            efs_rules: efs::Rules::today(),
            efs_credit_bytes: None,
            efs_client_share: 0.807,
            efs_read_file_s: 0.009_535,
            efs_write_file_s: 0.019_12,
            fsx_read_file_s: 0.009_363,
            fsx_write_file_s: 0.001_475,
            fsx_credit_bytes_per_tib: 451e9,
            fsx_load_bytes_per_s_per_tib: 201.6e6,
            local_file_s: 0.002_926,
            source_bytes_per_s: f64::INFINITY,
        }
    }
}

/// What a run waits for most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// The machine's or the service's network.
    Network,
    /// Disks.
    Disk,
    /// The throughput mode permits no more.
    Mode,
    /// Burst credits ran out.
    Credits,
    /// The service's limit for one client, or what the client can make up.
    Client,
    /// Each operation's own time, one after the other.
    Latency,
    /// Computing.
    Cpu,
    /// Operations on names.
    Metadata,
    /// I/O operations or requests a second.
    Requests,
    /// Loading from the bucket.
    Load,
}

impl fmt::Display for Bound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Network => "network",
            Self::Disk => "disk",
            Self::Mode => "throughput mode",
            Self::Credits => "burst credits",
            Self::Client => "client",
            Self::Latency => "latency",
            Self::Cpu => "CPU",
            Self::Metadata => "metadata",
            Self::Requests => "requests",
            Self::Load => "loading from the bucket",
        })
    }
}

/// How long a run takes, and why.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
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

/// What the jobs of a run do together.
#[derive(Clone, Copy, Debug)]
struct Work {
    /// Threads that can wait at once.
    customers: u64,
    read_bytes: f64,
    write_bytes: f64,
    files: f64,
    io_bytes: f64,
    random: bool,
    /// Computing with all threads that have a CPU.
    cpu_s: f64,
}

/// A time, and what it is spent on.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Spent {
    seconds: f64,
    bound_by: Bound,
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

impl Work {
    fn of(workload: &Workload, machine: &Machine) -> Self {
        let jobs = workload.concurrency.max(1);
        let customers = jobs * workload.threads.max(1);
        let jobs = jobs as f64;
        let asked_bytes = workload.read_bytes_per_run as f64 * jobs;
        let data_set_bytes = workload.data_set_bytes as f64;
        let memory_bytes = machine.memory_gib * (1_u64 << 30) as f64;
        let cached = data_set_bytes <= memory_bytes * CACHE_SHARE;
        let cpus = customers.min(machine.vcpu).max(1) as f64;
        Self {
            customers,
            read_bytes: if cached { asked_bytes.min(data_set_bytes) } else { asked_bytes },
            write_bytes: workload.write_bytes_per_run as f64 * jobs,
            files: workload.files_per_run as f64 * jobs,
            io_bytes: io_bytes(workload) as f64,
            random: workload.random,
            cpu_s: workload.cpu_seconds * jobs / cpus,
        }
    }

    fn bytes(&self) -> f64 {
        self.read_bytes + self.write_bytes
    }

    fn small_files(&self) -> bool {
        self.files > 0.0 && self.bytes() / self.files <= SMALL_FILE_BYTES
    }

    /// Whether read-ahead and write-back keep all stages busy.
    fn streams(&self) -> bool {
        !self.random && !self.small_files()
    }

    fn with_computing(&self, storage: Spent) -> Spent {
        let cpu = Spent { seconds: self.cpu_s, bound_by: Bound::Cpu };
        let longer = if cpu.seconds > storage.seconds { cpu } else { storage };
        let seconds = if self.streams() { longer.seconds } else { cpu.seconds + storage.seconds };
        Spent { seconds, ..longer }
    }
}

/// Bytes of one I/O: never more than a file has.
fn io_bytes(workload: &Workload) -> u64 {
    let bytes = workload.read_bytes_per_run + workload.write_bytes_per_run;
    let of_file = bytes.checked_div(workload.files_per_run).unwrap_or(u64::MAX);
    workload.io_bytes.min(of_file).max(1)
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
        if work.small_files() {
            self.waits(bytes, files, self.file_s + self.latency_s, work)
        } else if work.random {
            self.waits(bytes, bytes / work.io_bytes, self.latency_s, work)
        } else {
            self.stream(bytes, work)
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

    /// Operations that each wait for `think_s` and for every stage.
    fn waits(&self, bytes: f64, operations: f64, think_s: f64, work: &Work) -> Spent {
        let demand = self.at_most(work.customers as f64 * bytes / operations / think_s);
        let requests = self.requests_time(operations);
        if self.behind {
            let seconds = operations * think_s / work.customers as f64;
            let thinking = Spent { seconds, bound_by: Bound::Latency };
            let times = self.stages.iter().map(|stage| stage_time(stage, bytes, demand));
            return times.chain([requests]).fold(thinking, longer);
        }
        let busy = self.stages.iter().map(|stage| stage_busy(stage, bytes, demand));
        let times: Vec<Spent> = busy.chain([requests]).collect();
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
