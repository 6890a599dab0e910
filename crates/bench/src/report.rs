//! What a run of the benchmarks says: plain data, written as JSON, read again to compare.

use std::path::{Path, PathBuf};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize, Serializer};

/// The schema of a report.
pub const SCHEMA: &str = "weir-bench/1";

/// How much of an experiment is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
#[schemars(rename = "BenchSize")]
pub enum Size {
    /// A small one of the same shape, for a laptop.
    Small,
    /// As it was published.
    Published,
}

/// A report.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[schemars(rename = "BenchReport")]
pub struct Report {
    /// [`SCHEMA`].
    pub schema: String,
    /// The program that made it, with its version.
    pub made_by: String,
    /// When it began, in milliseconds since 1970.
    pub began_unix_ms: u64,
    /// The machine.
    pub machine: MachineFacts,
    /// How much was run.
    pub size: Size,
    /// How often each measurement was repeated.
    pub repeats: u32,
    /// Whether a write's time includes an fsync.
    pub synced: bool,
    /// The directories, in the order of the command line.
    pub targets: Vec<TargetFacts>,
    /// All measurements: by suite, then phase, copies, target and repeat.
    pub measurements: Vec<Measurement>,
    /// What could not be run at all, and why.
    pub skipped: Vec<Skipped>,
    /// Whether somebody stopped it before its end.
    pub stopped: bool,
}

/// The machine that it ran on.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct MachineFacts {
    /// Its name.
    pub host: String,
    /// Kernel release.
    pub kernel: String,
    /// Model of the processor.
    pub cpu: String,
    /// Processors that may be used.
    pub cpus: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
}

/// A directory that was measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct TargetFacts {
    /// What it is called in the report.
    pub name: String,
    /// The directory; what is no text in its name is shown as such.
    #[serde(serialize_with = "lossy")]
    #[schemars(with = "String")]
    pub path: PathBuf,
    /// Type of its file system, such as `ext4` or `fuse.weir`.
    pub file_system: String,
    /// What is mounted there, such as `/dev/vda1` or `s3://bucket/volume`.
    pub source: String,
    /// Mount options.
    pub options: String,
    /// Bytes of the file system, and of these free when it began.
    pub bytes: (u64, u64),
    /// Whether it is a mount of weir, whose tier can be released.
    pub is_weir: bool,
    /// Whether the page cache could be dropped between phases.
    pub drops_caches: bool,
}

/// A report is text, whatever a directory is called.
fn lossy<S: Serializer>(path: &Path, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(&path.to_string_lossy())
}

/// One phase of a suite on one target, once.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Measurement {
    /// The suite, such as `small-files`.
    pub suite: String,
    /// The phase, such as `create` or `read-cold`.
    pub phase: String,
    /// Copies, jobs or threads at once.
    pub copies: u32,
    /// The target, by its place in [`Report::targets`].
    pub target: usize,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// Seconds from the first byte to the last, fsync included where asked for.
    pub seconds: f64,
    /// Bytes moved.
    pub bytes: u64,
    /// Operations: files, I/Os or queries, as `unit` says.
    pub operations: u64,
    /// What an operation is: `files`, `I/Os`, `chunks`, `queries`, …
    pub unit: String,
    /// Throughput over time; may be empty.
    pub series: Vec<Point>,
    /// Latency of operations, where they were timed one by one.
    pub latency: Option<Latency>,
    /// What is doubtful about it.
    pub warnings: Vec<Warning>,
}

/// Bytes moved in a slice of time.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Point {
    /// The end of the slice, in seconds since the phase began.
    pub at_s: f64,
    /// Bytes a second in it.
    pub bytes_per_s: f64,
}

/// Percentiles of a latency, in microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// The average.
    pub mean_us: f64,
    /// Half are faster.
    pub p50_us: f64,
    /// Nine of ten are faster.
    pub p90_us: f64,
    /// 99 of 100 are faster.
    pub p99_us: f64,
    /// 999 of 1,000 are faster.
    pub p999_us: f64,
    /// The slowest.
    pub max_us: f64,
}

/// What may be wrong with a measurement.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case", tag = "kind")]
pub enum Warning {
    /// Repeats differ by more than they should: the relative standard deviation.
    Noisy {
        /// As a share of the mean.
        deviation: f64,
    },
    /// The page cache was not dropped, or may hold what was to be read.
    Cached {
        /// Why.
        why: String,
    },
    /// Bytes that were written stayed in memory: the time is not that of durable writes.
    NotDurable {
        /// Bytes that were still dirty when the clock stopped.
        dirty_bytes: u64,
    },
    /// A limit held it back: credits, a throughput mode, another program.
    Throttled {
        /// What and by how much.
        why: String,
    },
    /// So short that starting up counts.
    TooShort {
        /// How long it took.
        seconds: f64,
    },
    /// Something else.
    Other {
        /// What.
        what: String,
    },
}

/// A suite or phase that was not run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Skipped {
    /// The suite.
    pub suite: String,
    /// The target, if it is about one only.
    pub target: Option<usize>,
    /// Why, and what to do about it.
    pub why: String,
}
