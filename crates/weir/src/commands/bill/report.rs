//! What is said of a bill.

use std::path::PathBuf;
use std::time::Duration;

use serde::Serialize;
use weir_cost::{Bill, Machine, Storage};
use weir_engine::Period;

use crate::render::seconds;

/// A month is told from no less than this; what was used before is mostly what a mount begins with.
pub(super) const MONTH_FROM: Duration = Duration::from_secs(600);
/// An hour from no less than this.
pub(super) const HOUR_FROM: Duration = Duration::from_secs(60);
/// All that is said.
#[derive(Serialize)]
pub(super) struct Report {
    pub(super) volume: String,
    pub(super) mountpoint: Option<PathBuf>,
    pub(super) region: String,
    pub(super) from_unix_ms: u64,
    pub(super) to_unix_ms: u64,
    pub(super) so_far: Bill,
    /// At this rate; nothing before a minute was watched.
    pub(super) hour: Option<Bill>,
    /// At this rate; nothing before ten minutes were watched.
    pub(super) month: Option<Bill>,
    pub(super) shadow: Vec<Elsewhere>,
    /// The machine that the services are thought to serve.
    pub(super) machine: Machine,
    pub(super) used: Period,
}

/// The same work on another storage.
#[derive(Serialize)]
pub(super) struct Elsewhere {
    pub(super) name: String,
    pub(super) storage: Storage,
    pub(super) so_far: Bill,
    /// Nothing before ten minutes were watched.
    pub(super) month: Option<Bill>,
    pub(super) seconds: f64,
    pub(super) bound_by: String,
}

/// How long the same bytes would have taken there.
pub(super) fn time_of(shadow: &Elsewhere) -> String {
    match shadow.seconds.is_finite() {
        true => seconds(shadow.seconds.ceil() as u64),
        false => "never".to_owned(),
    }
}
