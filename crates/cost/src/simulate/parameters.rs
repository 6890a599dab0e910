//! What no vendor publishes, as numbers that measurements tell.

use weir_throughput::efs;

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
    /// What reading a small file takes on Weir that comes from the bucket, beside its bytes, in seconds:
    /// those that lie together come together.
    pub weir_read_file_s: f64,
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
            weir_read_file_s: 0.003_191,
            local_file_s: 0.002_926,
            source_bytes_per_s: f64::INFINITY,
        }
    }
}
