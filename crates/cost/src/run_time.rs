//! How long a run takes: what bills and advice ask of a model.

use serde::Serialize;

use crate::{Machine, Storage, Workload};

/// How long one run of a workload takes somewhere.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RunTime {
    /// Seconds of a run when runs go on.
    pub seconds: f64,
    /// Seconds of the first one, which may have to load data.
    pub first_seconds: f64,
    /// What makes it take so long, in words.
    pub bound_by: String,
}

/// A model of storages and machines: all jobs of a workload at once, each on a machine of its own.
pub type Model<'a> = dyn Fn(&Storage, &Workload, &Machine) -> RunTime + 'a;
