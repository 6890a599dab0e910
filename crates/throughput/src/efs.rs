//! Amazon EFS: its dated rules, its three throughput modes, and the limiter that follows them.

mod date;
mod limiter;
mod rules;
mod service;

pub use date::{Date, NoDate};
pub use limiter::{Limiter, LimiterState, Locked};
pub use rules::{Io, Mode, Rules};
pub use service::{Limits, READ_LATENCY_S, WRITE_LATENCY_S};
