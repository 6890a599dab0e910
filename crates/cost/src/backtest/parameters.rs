//! The values of what nobody publishes.

use crate::simulate::FreeParameters;

/// Values of all that is free.
#[derive(Clone, Debug)]
pub(super) struct Fits {
    pub(super) free: FreeParameters,
    /// CPU seconds of `blastn` for a query, over all threads.
    pub(super) blast_cpu_s_per_query: f64,
    /// CPU seconds that `dd` takes for a byte, 512 of them at a time.
    pub(super) read_cpu_s_per_byte: f64,
    /// CPU seconds of `cellranger count`, were all of its threads busy all the time.
    pub(super) cellranger_cpu_s: f64,
    /// Connections to S3 of ZFS on object storage.
    pub(super) s3_connections: f64,
    /// Clients that drained the credits: stated, not fitted.
    pub(super) drain_clients: u64,
}
