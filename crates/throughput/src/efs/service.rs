//! What EFS gives beyond the modes: limits of clients and regions, and latencies.
//!
//! Numbers are those of the EFS user guide, "Amazon EFS performance specifications", for regional
//! file systems in General Purpose mode; of a range by region, the least.

use super::rules::Mode;
use crate::MIB;

const GIB: f64 = 1024.0 * MIB;

/// The least time of a read: "as low as 250 microseconds".
pub const READ_LATENCY_S: f64 = 0.000_25;

/// The least time of a write: "as low as 2.7 milliseconds".
pub const WRITE_LATENCY_S: f64 = 0.0027;

/// What a file system can do, whatever its mode would permit.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Limits {
    /// Bytes a second, one client, either way. 1,500 MiB/s need efs-utils 2.0 or the CSI driver.
    pub client_bytes_per_s: f64,
    /// Bytes a second, read by all clients.
    pub read_bytes_per_s: f64,
    /// Bytes a second, written by all clients.
    pub write_bytes_per_s: f64,
    /// Reads a second.
    pub read_iops: f64,
    /// Writes a second.
    pub write_iops: f64,
}

impl Limits {
    /// Those of a mode.
    pub fn of(mode: Mode) -> Self {
        let (client, read, write, read_iops, write_iops) = match mode {
            Mode::Elastic => (1500.0, 20.0, 1.0, 250_000.0, 50_000.0),
            Mode::Provisioned { .. } => (500.0, 3.0, 1.0, 55_000.0, 25_000.0),
            Mode::Bursting => (500.0, 3.0, 1.0, 35_000.0, 7_000.0),
        };
        Self {
            client_bytes_per_s: client * MIB,
            read_bytes_per_s: read * GIB,
            write_bytes_per_s: write * GIB,
            read_iops,
            write_iops,
        }
    }
}
