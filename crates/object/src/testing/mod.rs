//! For tests: stores that fail and stores that are slow, a real S3 server, and the suite that every
//! store must pass. Decorators go below the retry and the meter: wrap what
//! [`open_store`](crate::open_store) gives and hand it to
//! [`Bucket::from_store`](crate::Bucket::from_store).

mod conformance;
mod faults;
mod plan;
mod s3_server;
mod slow;

pub use conformance::conformance;
pub use faults::{FaultControl, FaultStore};
pub use plan::{FaultPlan, FaultRule, Place, Trigger, What};
pub use s3_server::S3Server;
pub use slow::{Slow, SlowStore};
