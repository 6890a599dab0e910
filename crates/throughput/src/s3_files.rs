//! Amazon S3 Files: a file system over a bucket, with a hot part on EFS.
//!
//! Numbers are those of the S3 user guide on S3 Files, as of its release, 2026-04-07.

use crate::MIB;

/// Reads of at least this size go to the bucket itself.
pub const DIRECT_READ_BYTES: u64 = 1 << 20;

/// Files up to this size are imported as a whole when their directory is first looked at.
pub const IMPORT_BYTES: u64 = 128 << 10;

/// What a read or write is metered at, at least.
pub const DATA_OP_BYTES_MIN: u64 = 32 << 10;

/// What an operation on names is metered at, at least.
pub const METADATA_OP_BYTES_MIN: u64 = 4 << 10;

/// What a client can read: 3 GiB/s.
pub const CLIENT_READ_BYTES_PER_S: f64 = 3.0 * 1024.0 * MIB;

/// What a file system can write: 1 to 5 GiB/s by region, the least of it.
pub const WRITE_BYTES_PER_S: f64 = 1024.0 * MIB;

/// Reads a second.
pub const READ_IOPS: f64 = 250_000.0;

/// Writes a second.
pub const WRITE_IOPS: f64 = 50_000.0;

/// Objects that are imported in a second.
pub const IMPORT_FILES_PER_S: f64 = 2400.0;

/// Bytes that are imported in a second.
pub const IMPORT_BYTES_PER_S: f64 = 700e6;

/// Files that are exported in a second.
pub const EXPORT_FILES_PER_S: f64 = 800.0;

/// Bytes that are exported in a second.
pub const EXPORT_BYTES_PER_S: f64 = 2700e6;

/// What `bytes` of data in I/Os of `io_bytes` are metered at.
pub fn metered_bytes(bytes: f64, io_bytes: u64) -> f64 {
    let least = io_bytes.max(DATA_OP_BYTES_MIN) as f64;
    bytes / io_bytes.max(1) as f64 * least
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn small_operations_count_for_thirty_two_kibibytes() {
        assert_eq!(metered_bytes(4096.0 * 10.0, 4096), 327_680.0);
        assert_eq!(metered_bytes(5e9, 1 << 20), 5e9);
    }
}
