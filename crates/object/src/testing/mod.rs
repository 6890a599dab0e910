//! For tests: stores that fail and stores that are slow, a real S3 server, and the suite that every
//! store must pass. Decorators go below the retry and the meter: wrap what [`open_store`] gives and
//! hand it to [`Bucket::from_store`].

mod atomic;
mod classes;
mod conformance;
mod fake_s3;
mod faults;
mod gate;
mod native;
mod odd;
mod plan;
mod s3_server;
mod samples;
mod slow;

pub use atomic::{Alone, AtomicStore, Etags, Habits, Listings, Unquoted};
pub use classes::{ClassStore, Classes};
pub use conformance::conformance;
pub use fake_s3::FakeS3;
pub use faults::{FaultControl, FaultStore};
pub use gate::{Gate, GateStore};
pub use native::random_listings;
pub use odd::change_odd;
pub use plan::{FaultPlan, FaultRule, Place, Trigger, What};
pub use s3_server::S3Server;
pub use slow::{Completion, Slow, SlowStore};

use std::sync::Arc;

use weir_types::Result;

use crate::{Bucket, BucketUrl, ConnectOptions, Meter, open_store};

/// Like [`Bucket::connect`], but requests fail as `plan` says.
///
/// # Errors
/// As [`Bucket::connect`].
pub fn connect_faulty(
    url: &BucketUrl,
    options: &ConnectOptions,
    meter: &Meter,
    plan: &FaultPlan,
) -> Result<(Bucket, FaultControl)> {
    let store = FaultStore::new(open_store(url, options)?, plan);
    let control = store.control();
    Ok((Bucket::from_store(url, Arc::new(store), options, meter), control))
}
