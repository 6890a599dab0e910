//! The experiments people choose storage by, on any directory: workloads, statistics, reports.
//!
//! A *suite* is one published experiment with its parameters, and a small size of it that fits a
//! laptop. It runs on *targets*, directories of any file system, one beside the other, and gives
//! *measurements*; those of all repeats make a report.
//!
//! What must always hold: what a suite made is removed again, also when it is stopped; what could
//! not be measured properly says so in a typed warning, and is never left out silently.

pub mod announce;
pub mod cache;
pub mod compare;
pub mod costs;
pub mod html;
pub mod machine;
pub mod mounts;
pub mod noise;
pub mod program;
pub mod published;
pub mod report;
pub mod runner;
#[cfg(test)]
mod sample;
pub mod stats;
pub mod suite;
pub mod suites;
pub mod summary;
pub mod target;
#[cfg(test)]
mod testing;
pub mod timing;
pub mod words;
