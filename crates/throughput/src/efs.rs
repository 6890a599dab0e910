//! Amazon EFS: its dated rules, its three throughput modes, and the limiter that follows them.

mod date;
mod limiter;
mod rules;

pub use date::{Date, NoDate};
pub use limiter::{Limiter, Locked, State};
pub use rules::{Io, Mode, Rules};
