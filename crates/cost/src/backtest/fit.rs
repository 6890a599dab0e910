//! The parameters that nobody publishes, each fitted on one row.

use schemars::JsonSchema;
use serde::Serialize;

use super::cases::Case;
use super::data::File;
use super::parameters::Fits;
use crate::simulate::FreeParameters;

/// A parameter that no vendor publishes.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Fitted {
    /// What it is.
    pub parameter: &'static str,
    /// Its value.
    pub value: f64,
    /// Its unit.
    pub unit: &'static str,
    /// The row on which it was fitted.
    pub row: &'static str,
}

/// One parameter: where it is kept, between what values it is sought, and on which row.
struct Parameter {
    name: &'static str,
    unit: &'static str,
    row: &'static str,
    range: (f64, f64),
    place: fn(&mut Fits) -> &mut f64,
}

/// In the order in which they are fitted: a row may need those before it.
const PARAMETERS: [Parameter; 14] = [
    Parameter {
        name: "share of its limit for a client that EFS reaches",
        unit: "",
        row: "blast-efs-db-load",
        range: (0.1, 1.0),
        place: |fits| &mut fits.free.efs_client_share,
    },
    Parameter {
        name: "CPU seconds of blastn for a query, over all threads",
        unit: "s",
        row: "blast-efs-500000",
        range: (1e-4, 10.0),
        place: |fits| &mut fits.blast_cpu_s_per_query,
    },
    Parameter {
        name: "what FSx for Lustre loads from a bucket, for each TiB",
        unit: "bytes/s",
        row: "hydrate-dd",
        range: (1e6, 1e9),
        place: |fits| &mut fits.free.fsx_load_bytes_per_s_per_tib,
    },
    Parameter {
        name: "what /dev/urandom makes, for all threads together",
        unit: "bytes/s",
        row: "cp-lustre-create_large-1t",
        range: (1e6, 1e9),
        place: |fits| &mut fits.free.source_bytes_per_s,
    },
    Parameter {
        name: "CPU seconds of dd for a byte, read 512 at a time",
        unit: "s",
        row: "cp-lustre-read_large-1t",
        range: (1e-10, 1e-7),
        place: |fits| &mut fits.read_cpu_s_per_byte,
    },
    Parameter {
        name: "burst credits of FSx for Lustre for each TiB",
        unit: "bytes",
        row: "cp-lustre-read_large-8t",
        range: (1e9, 1e13),
        place: |fits| &mut fits.free.fsx_credit_bytes_per_tib,
    },
    Parameter {
        name: "what reading a small file on EFS takes beside its bytes",
        unit: "s",
        row: "cp-efs-read_small-1t",
        range: (1e-5, 1.0),
        place: |fits| &mut fits.free.efs_read_file_s,
    },
    Parameter {
        name: "what creating a small file on EFS takes beside its bytes",
        unit: "s",
        row: "cp-efs-create_small-1t",
        range: (1e-5, 1.0),
        place: |fits| &mut fits.free.efs_write_file_s,
    },
    Parameter {
        name: "what reading a small file on FSx for Lustre takes beside its bytes",
        unit: "s",
        row: "cp-lustre-read_small-1t",
        range: (1e-5, 1.0),
        place: |fits| &mut fits.free.fsx_read_file_s,
    },
    Parameter {
        name: "what creating a small file on FSx for Lustre takes beside its bytes",
        unit: "s",
        row: "cp-lustre-create_small-1t",
        range: (1e-5, 1.0),
        place: |fits| &mut fits.free.fsx_write_file_s,
    },
    Parameter {
        name: "CPU seconds of cellranger count, were all threads busy",
        unit: "s",
        row: "cp-cellranger-lustre",
        range: (1.0, 1e7),
        place: |fits| &mut fits.cellranger_cpu_s,
    },
    Parameter {
        name: "what creating a small file on a local disk takes",
        unit: "s",
        row: "dummy-100k-instance-store",
        range: (1e-5, 1.0),
        place: |fits| &mut fits.free.local_file_s,
    },
    Parameter {
        name: "what reading a cold small file on Weir takes beside its bytes, many coming together",
        unit: "s",
        row: "weir-cold-small-1t",
        range: (1e-5, 1.0),
        place: |fits| &mut fits.free.weir_read_file_s,
    },
    Parameter {
        name: "connections to S3 of ZFS on object storage",
        unit: "",
        row: "objbacker-read",
        range: (1.0, 1e5),
        place: |fits| &mut fits.s3_connections,
    },
];

/// The rows on which something is fitted.
pub(super) fn rows() -> impl Iterator<Item = &'static str> {
    PARAMETERS.iter().map(|parameter| parameter.row)
}

/// Fits all parameters.
pub(super) fn all(file: &File) -> (Fits, Vec<Fitted>) {
    let drained_by = file.experiment("efs-credit-drain").and_then(|drain| drain.clients);
    let mut fits = Fits {
        free: FreeParameters::default(),
        blast_cpu_s_per_query: 0.0,
        read_cpu_s_per_byte: 0.0,
        cellranger_cpu_s: 0.0,
        s3_connections: 1.0,
        drain_clients: drained_by.unwrap_or(0),
    };
    let mut fitted = Vec::new();
    for parameter in &PARAMETERS {
        let value = fit(file, parameter, &fits);
        *(parameter.place)(&mut fits) = value;
        let Parameter { name, unit, row, .. } = *parameter;
        fitted.push(Fitted { parameter: name, value, unit, row });
    }
    (fits, fitted)
}

/// The value at which the prediction of the row is what was measured, by halving the range: every
/// prediction only grows, or only falls, with each of the parameters.
fn fit(file: &File, parameter: &Parameter, fits: &Fits) -> f64 {
    let Some(experiment) = file.experiment(parameter.row) else { return f64::NAN };
    let (Some(measured), _) = experiment.measured() else { return f64::NAN };
    let predicted = |value: f64| {
        let mut tried = fits.clone();
        *(parameter.place)(&mut tried) = value;
        Case::of(experiment, &tried).map_or(f64::NAN, |case| case.predict())
    };
    let (mut low, mut high) = parameter.range;
    let grows = predicted(high) > predicted(low);
    for _ in 0..60 {
        let middle = (low * high).sqrt();
        if (predicted(middle) < measured) == grows {
            low = middle;
        } else {
            high = middle;
        }
    }
    (low * high).sqrt()
}
