//! What the jobs of a run do together, and what they wait for.

use std::fmt;

use schemars::JsonSchema;
use serde::Serialize;

use crate::{Machine, Workload};

/// The share of memory that the page cache can fill with a data set.
const CACHE_SHARE: f64 = 0.9;

/// Files up to this size end before read-ahead or write-back helps.
const SMALL_FILE_BYTES: f64 = 8e6;

/// What a run waits for most.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, JsonSchema)]
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

/// A time, and what it is spent on.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Spent {
    pub(super) seconds: f64,
    pub(super) bound_by: Bound,
}

/// What the jobs of a run do together.
#[derive(Clone, Copy, Debug)]
pub(super) struct Work {
    /// Threads that can wait at once.
    pub(super) customers: u64,
    pub(super) read_bytes: f64,
    pub(super) write_bytes: f64,
    pub(super) files: f64,
    pub(super) io_bytes: f64,
    pub(super) random: bool,
    /// Computing with all threads that have a CPU.
    pub(super) cpu_s: f64,
}

impl Work {
    pub(super) fn of(workload: &Workload, machine: &Machine) -> Self {
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

    pub(super) fn bytes(&self) -> f64 {
        self.read_bytes + self.write_bytes
    }

    pub(super) fn small_files(&self) -> bool {
        self.files > 0.0 && self.bytes() / self.files <= SMALL_FILE_BYTES
    }

    /// Whether read-ahead and write-back keep all stages busy.
    fn streams(&self) -> bool {
        !self.random && !self.small_files()
    }

    pub(super) fn with_computing(&self, storage: Spent) -> Spent {
        let cpu = Spent { seconds: self.cpu_s, bound_by: Bound::Cpu };
        let longer = if cpu.seconds > storage.seconds { cpu } else { storage };
        let seconds = if self.streams() { longer.seconds } else { cpu.seconds + storage.seconds };
        Spent { seconds, ..longer }
    }
}

/// Bytes of one I/O: never more than a file has.
pub(super) fn io_bytes(workload: &Workload) -> u64 {
    let bytes = workload.read_bytes_per_run + workload.write_bytes_per_run;
    let of_file = bytes.checked_div(workload.files_per_run).unwrap_or(u64::MAX);
    workload.io_bytes.min(of_file).max(1)
}
