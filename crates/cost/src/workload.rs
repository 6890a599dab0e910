//! What somebody wants to run, and on which machine.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A job that runs again and again over a data set.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Workload {
    /// What people call it.
    #[serde(default)]
    pub name: String,
    /// Bytes of the data set: what is stored.
    pub data_set_bytes: u64,
    /// Bytes of it that nobody reads for a month or longer, and that lie in a class for that: EFS Infrequent Access, S3
    /// Standard-IA.
    #[serde(default)]
    pub cold_bytes: u64,
    /// Other bytes of it that nobody reads for three months or longer: EFS Archive, S3 Glacier Instant Retrieval.
    #[serde(default)]
    pub archive_bytes: u64,
    /// Files of the data set.
    #[serde(default = "one")]
    pub files: u64,
    /// Bytes that one job reads from storage in one run.
    pub read_bytes_per_run: u64,
    /// Bytes that one job writes in one run.
    #[serde(default)]
    pub write_bytes_per_run: u64,
    /// Bytes of one read or write.
    #[serde(default = "mebibyte")]
    pub io_bytes: u64,
    /// Reads come in no order.
    #[serde(default)]
    pub random: bool,
    /// Files that one job creates or opens in one run.
    #[serde(default)]
    pub files_per_run: u64,
    /// Runs of each job in a day.
    pub runs_per_day: f64,
    /// Jobs at once.
    #[serde(default = "one")]
    pub concurrency: u64,
    /// Threads of one job.
    #[serde(default = "one")]
    pub threads: u64,
    /// CPU seconds of one job's run, over all of its threads.
    #[serde(default)]
    pub cpu_seconds: f64,
    /// The region, such as `us-east-1`.
    pub region: String,
}

impl Workload {
    /// Whether the numbers make sense.
    ///
    /// # Errors
    /// Names each field that does not, and what it needs.
    pub fn check(&self) -> Result<(), String> {
        // A million jobs at once are more machines than there are.
        const JOBS_MAX: u64 = 1_000_000;
        const FILES_MAX: u64 = 1_000_000_000_000;
        const BYTES_MAX: u64 = 1 << 60;
        let at_least_zero = |value: f64| (0.0..=1e12).contains(&value);
        let wrong: Vec<&str> = [
            (at_least_zero(self.runs_per_day), "runs_per_day: need a number from 0 on"),
            (at_least_zero(self.cpu_seconds), "cpu_seconds: need a number from 0 on"),
            (self.io_bytes > 0, "io_bytes: need at least 1"),
            ((1..=JOBS_MAX).contains(&self.threads), "threads: need 1 to 1,000,000"),
            (self.files_per_run <= FILES_MAX, "files_per_run: need a trillion at most"),
            (
                self.cold_bytes.saturating_add(self.archive_bytes) <= self.data_set_bytes,
                "cold_bytes and archive_bytes: are a part of data_set_bytes",
            ),
            (self.data_set_bytes <= BYTES_MAX, "data_set_bytes: need an exabyte at most"),
            ((1..=JOBS_MAX).contains(&self.concurrency), "concurrency: need 1 to 1,000,000"),
            (!self.region.is_empty(), "region: need a name such as us-east-1"),
        ]
        .into_iter()
        .filter_map(|(right, what)| (!right).then_some(what))
        .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join("; ")) }
    }
}

fn one() -> u64 {
    1
}

fn mebibyte() -> u64 {
    1 << 20
}

/// What the jobs run on.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Machine {
    /// The instance type.
    pub instance: String,
    /// Virtual CPUs.
    pub vcpu: u64,
    /// Memory in GiB.
    pub memory_gib: f64,
    /// Network in gigabits a second: what lasts, and what it bursts to.
    pub network_gbps: (f64, f64),
    /// Local NVMe disks in bytes; 0 without.
    pub nvme_bytes: u64,
    /// EBS bandwidth in MB/s.
    pub ebs_mb_per_s: f64,
}
