//! Token and credit buckets, throughput modes, and fair queues. Pure: time is an argument.
//!
//! One set of models governs the live file system and predicts the services: what throttles a mount
//! in bursting mode is the code that simulates EFS.
//!
//! What must always hold: credits are never below zero nor above their cap, and whoever waits is
//! told how long, never left to guess.

pub mod budget;
pub mod credits;
pub mod ebs;
pub mod efs;
pub mod fair;
pub mod fsx;
pub mod instance_store;
pub mod s3;
pub mod s3_files;
pub mod shares;

/// Bytes of a MiB.
const MIB: f64 = (1_u64 << 20) as f64;

/// Bytes of a TiB.
const TIB: f64 = (1_u64 << 40) as f64;

/// Nanoseconds of a second.
const SECOND_NS: f64 = 1e9;

/// How long `bytes` take at `bytes_per_s`, rounded up; for ever is the largest number.
fn time_ns(bytes: f64, bytes_per_s: f64) -> u64 {
    (bytes / bytes_per_s * SECOND_NS).ceil() as u64
}

/// Seconds from `then_ns` to `now_ns`; none when the clock did not move.
fn seconds_since(then_ns: u64, now_ns: u64) -> f64 {
    now_ns.saturating_sub(then_ns) as f64 / SECOND_NS
}
