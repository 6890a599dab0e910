//! The file of published experiments, as far as the models use it.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

const EMBEDDED: &str = include_str!("../../data/published-experiments.json");
/// What `perf/own-experiments.sh` printed.
const OWN: &str = include_str!("../../data/own-experiments.json");

/// The file.
#[derive(Deserialize)]
pub(super) struct File {
    pub(super) experiments: Vec<Experiment>,
    /// What Weir's own measurements say: nobody else has published any.
    #[serde(skip)]
    pub(super) own: Vec<Experiment>,
    /// Cost lines by source. Their fields differ from line to line.
    pub(super) cost_checks: BTreeMap<String, Vec<BTreeMap<String, Value>>>,
    inconsistencies: Vec<Inconsistency>,
    /// What each source is about.
    pub(super) sources: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Inconsistency {
    source: String,
    what: String,
}

/// One entry.
#[derive(Deserialize)]
pub(super) struct Experiment {
    pub(super) id: String,
    pub(super) source: String,
    pub(super) date: Option<String>,
    region: Option<String>,
    status: Option<String>,
    #[serde(default)]
    pub(super) note: String,
    verdict: Option<String>,
    pub(super) workload: String,
    pub(super) dataset_bytes: Option<f64>,
    pub(super) query_seqs: Option<f64>,
    pub(super) threads: Option<u64>,
    pub(super) clients: Option<u64>,
    pub(super) concurrent_jobs: Option<u64>,
    pub(super) bytes_per_thread: Option<f64>,
    pub(super) files: Option<u64>,
    pub(super) bytes: Option<f64>,
    #[serde(default, rename = "initial_credit_TiB")]
    pub(super) initial_credit_tib: Option<f64>,
    #[serde(default)]
    pub(super) storage: StoredOn,
    #[serde(default)]
    pub(super) instance: Instance,
    pub(super) iops: Option<f64>,
    pub(super) measured_seconds: Option<f64>,
    pub(super) measured_hours: Option<f64>,
    #[serde(rename = "measured_KiBps")]
    pub(super) measured_kib_per_s: Option<f64>,
    #[serde(rename = "measured_MBps")]
    pub(super) measured_mb_per_s: Option<f64>,
    #[serde(rename = "published_MBps")]
    pub(super) published_mb_per_s: Option<f64>,
    #[serde(rename = "baseline_MiBps")]
    pub(super) baseline_mib_per_s: Option<f64>,
    #[serde(rename = "burst_MiBps")]
    pub(super) burst_mib_per_s: Option<f64>,
}

/// The machine of an entry.
#[derive(Default, Deserialize)]
pub(super) struct Instance {
    #[serde(default, rename = "type")]
    pub(super) name: String,
    pub(super) nic_gbps: Option<f64>,
}

/// The storage of an entry.
#[derive(Default, Deserialize)]
pub(super) struct StoredOn {
    #[serde(default)]
    pub(super) service: String,
    #[serde(default)]
    pub(super) throughput_mode: String,
    region: Option<String>,
    pub(super) state: Option<String>,
    pub(super) size_gib: Option<f64>,
    pub(super) capacity_gib: Option<u64>,
    #[serde(rename = "capacity_TB")]
    pub(super) capacity_tb: Option<f64>,
    #[serde(default)]
    pub(super) deployment: String,
    #[serde(rename = "per_unit_MBps_TiB")]
    pub(super) per_unit_mb_per_s_per_tib: Option<f64>,
    #[serde(rename = "provisioned_MiBps")]
    pub(super) provisioned_mib_per_s: Option<f64>,
    pub(super) size_gb: Option<u64>,
    pub(super) iops: Option<u64>,
    #[serde(rename = "throughput_MiBps")]
    pub(super) throughput_mib_per_s: Option<u64>,
    pub(super) object_bytes: Option<f64>,
    pub(super) data_repository: Option<String>,
}

impl File {
    /// The file that comes with this crate.
    pub(super) fn embedded() -> Self {
        // A test reads it, so this holds in every build that passed the tests.
        let mut file: Self =
            serde_json::from_str(EMBEDDED).expect("the embedded experiments are sound");
        file.own = serde_json::from_str(OWN).expect("our own experiments are sound");
        file
    }

    /// An entry by its name.
    pub(super) fn experiment(&self, id: &str) -> Option<&Experiment> {
        self.experiments.iter().chain(&self.own).find(|experiment| experiment.id == id)
    }

    /// The region where a source measured, if it says one.
    pub(super) fn region(&self, source: &str) -> Option<&str> {
        let of = self.experiments.iter().filter(|experiment| experiment.source == source);
        of.filter_map(|of| of.region.as_deref().or(of.storage.region.as_deref())).next()
    }

    /// What the file says against an entry: its own verdict, and what names its time.
    pub(super) fn doubts(&self, experiment: &Experiment) -> Vec<String> {
        let seconds = experiment.measured_seconds.unwrap_or(0.0) as u64;
        let named = format!(" {} s", with_thousands(seconds));
        let of_source = self.inconsistencies.iter().filter(|of| of.source == experiment.source);
        let naming = of_source.filter(|of| format!(" {}", of.what).contains(&named));
        let naming = naming.map(|of| of.what.clone());
        experiment.verdict.iter().cloned().chain(naming).collect()
    }

    /// What the file says that an entry contradicts: its own verdict, or an inconsistency of its
    /// source that a time "cannot explain".
    pub(super) fn contradiction(&self, experiment: &Experiment) -> Option<String> {
        if let Some(verdict) = &experiment.verdict {
            return Some(verdict.clone());
        }
        let seconds = format!("{} s", with_thousands(experiment.measured_seconds? as u64));
        let found = self.inconsistencies.iter().find(|inconsistency| {
            inconsistency.source == experiment.source
                && inconsistency.what.contains("cannot explain")
                && inconsistency.what.contains(&seconds)
        });
        found.map(|inconsistency| inconsistency.what.clone())
    }
}

impl Experiment {
    /// Why there is nothing to compare with.
    pub(super) fn no_result(&self) -> Option<String> {
        let nothing_done = self.measured_seconds == Some(0.0);
        self.status.clone().or_else(|| nothing_done.then(|| self.note.clone()))
    }

    /// What was measured, and its unit: a rate where one was published, else a time.
    pub(super) fn measured(&self) -> (Option<f64>, &'static str) {
        if self.measured_kib_per_s.is_some() {
            (self.measured_kib_per_s, "KiB/s")
        } else if self.measured_mb_per_s.is_some() {
            (self.measured_mb_per_s, "MB/s")
        } else if self.measured_hours.is_some() {
            (self.measured_hours, "h")
        } else {
            (self.measured_seconds, "s")
        }
    }

    /// Whether it ran on data that had been loaded from the bucket before.
    pub(super) fn loaded_before(&self) -> bool {
        self.note.contains("after hydration")
    }
}

/// A number as texts print it: 37,935.
fn with_thousands(number: u64) -> String {
    let digits = number.to_string();
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}
