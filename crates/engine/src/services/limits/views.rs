//! What throughput is told, and what it shows of itself.

use std::sync::atomic::{AtomicU64, Ordering};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_throughput::efs::{Date, Mode, Rules};
use weir_types::NanoUsd;

use crate::data::admission::areas::Used;
use crate::data::admission::budget::BudgetView;
use crate::data::admission::limit::Subject;

/// What to change of a directory's rule. What is `None` stays as it is.
#[derive(Clone, Debug, Default, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ThroughputChange {
    /// The throughput mode.
    #[serde(default)]
    pub mode: Option<Mode>,
    /// The rules of a service at some date.
    #[serde(default)]
    pub rules: Option<Rules>,
    /// Burst credits from now on, in bytes; no more than the rules allow are kept.
    #[serde(default)]
    pub credit_bytes: Option<u64>,
    /// The daemon is to see every byte, whatever the mode.
    #[serde(default)]
    pub exact: Option<bool>,
    /// Forget the directory's rule.
    #[serde(default)]
    pub remove: bool,
    /// Dollars an hour for requests, in nano-dollars, and the region whose prices count; 0 for no
    /// budget. For the whole volume only.
    #[serde(default)]
    pub budget: Option<(NanoUsd, String)>,
}

/// A rule as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThroughputView {
    /// Whom it is for.
    // Programs read the name that it had first.
    #[serde(rename = "whose")]
    pub subject: Subject,
    /// The directory's path in the volume when the rule was made, or the user.
    pub name: String,
    /// The mode.
    pub mode: Mode,
    /// Where the rules are not the newest: the day until which EFS had them.
    #[serde(default)]
    pub rules_until: Option<Date>,
    /// Metered bytes a second that may move now; `None` without a limit.
    pub permitted_bytes_per_s: Option<f64>,
    /// Metered bytes a second at which credits neither grow nor shrink.
    pub baseline_bytes_per_s: f64,
    /// Burst credits in bytes.
    pub credit_bytes: f64,
    /// The most of them that are kept.
    pub credit_cap_bytes: f64,
    /// Bytes metered since the mount.
    pub metered_bytes: u64,
    /// I/Os that wait now.
    pub waiting: u64,
    /// Milliseconds that I/Os waited since the mount, added up.
    pub waited_ms: u64,
    /// Whether the daemon sees every byte, so that nothing is read past it.
    pub sees_all: bool,
    /// This node's part of a limit, where nodes share the volume; rates and credits above are then those
    /// of all of them.
    #[serde(default)]
    pub share: Option<ShareView>,
}

/// A node's part of a limit to which nodes keep together.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ShareView {
    /// Its share of the rates, 0 to 1.
    pub share: f64,
    /// Metered bytes a second that may move here now.
    pub permitted_bytes_per_s: f64,
    /// Burst credits that may be spent here, in bytes.
    pub credit_bytes: f64,
    /// Nodes that have a part.
    pub nodes: u64,
}

/// A limit in short.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct LimitStatus {
    /// The directory's path in the volume when the rule was made, or the user.
    pub name: String,
    /// Metered bytes a second that may move now, by all nodes where they share the volume.
    pub permitted_bytes_per_s: f64,
    /// The share of it that is this node's then, 0 to 1.
    pub share: Option<f64>,
}

/// What one client did in one area since the mount.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct TenantView {
    /// The area: a directory, or `/` for the rest of the volume; `/(removed)` for directories that are
    /// no more.
    pub path: String,
    /// The user.
    pub client: u32,
    /// Files opened.
    pub opens: u64,
    /// Those of them whose reads the kernel answers, so that their bytes are not known.
    pub opens_unmetered: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Bytes read through the daemon.
    pub bytes_read: u64,
    /// Bytes written.
    pub bytes_written: u64,
    /// Bytes that had to come from a bucket first; what several wanted at once counts for each.
    pub bytes_fetched: u64,
    /// Milliseconds that its I/Os waited, added up.
    pub waited_ms: u64,
}

/// All about the throughput of a mount.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ThroughputReport {
    /// The rules, the volume's first.
    pub rules: Vec<ThroughputView>,
    /// Who did what.
    pub tenants: Vec<TenantView>,
    /// The budget, if there is one.
    pub budget: Option<BudgetView>,
}

/// A directory that was renamed keeps the name of its rule: where another has it by now, both say
/// which they are.
pub(super) fn tell_apart(rules: &mut [ThroughputView]) {
    let names: Vec<_> = rules.iter().map(|rule| rule.name.clone()).collect();
    for rule in rules {
        if let Subject::Directory(dir) = rule.subject
            && names.iter().filter(|name| **name == rule.name).count() > 1
        {
            rule.name = format!("{} (inode {dir})", rule.name);
        }
    }
}

/// The row of directories that are no more.
pub(super) const REMOVED: &str = "/(removed)";

impl TenantView {
    pub(super) fn add(&mut self, other: &TenantView) {
        self.opens += other.opens;
        self.opens_unmetered += other.opens_unmetered;
        self.reads += other.reads;
        self.writes += other.writes;
        self.bytes_read += other.bytes_read;
        self.bytes_written += other.bytes_written;
        self.bytes_fetched += other.bytes_fetched;
        self.waited_ms += other.waited_ms;
    }
}

pub(super) fn tenant_view(path: String, client: u32, used: &Used) -> TenantView {
    let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    TenantView {
        path,
        client,
        opens: get(&used.opens),
        opens_unmetered: get(&used.opens_unmetered),
        reads: get(&used.reads),
        writes: get(&used.writes),
        bytes_read: get(&used.bytes_read),
        bytes_written: get(&used.bytes_written),
        bytes_fetched: get(&used.bytes_fetched),
        waited_ms: get(&used.waited_ms),
    }
}
