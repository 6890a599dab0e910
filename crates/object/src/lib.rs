//! Bucket access: every byte that leaves for object storage or comes from it passes here.
//!
//! In flow keys and bytes, tagged with the [`Component`] that asks; out come bytes, or an
//! [`FsError`](weir_types::FsError) whose kind says what to do and whose message says what to
//! mend. This room retries (the library below does not), so that every request is counted.
//!
//! ```text
//!   Bucket / Bucket::store(component)    keys below the volume's prefix
//!   scan_keys, Upload, copy_object_if    objects of links: any key, any writer
//!   retry, hedge, deadline, meter        one count per attempt
//!   [faults, slow]                       tests only
//!   S3 · directory · memory              object_store, and what it lacks (`extended`)
//! ```
//!
//! What must always hold: an object is visible whole or not at all; a conditional write whose
//! answer was lost is looked up, never guessed; a read returns the length asked for or fails; on
//! `file://`, what was acknowledged survives a power cut.

mod archived;
mod asks;
mod aws;
mod bucket;
mod caller;
mod change;
mod classes;
mod conditions;
mod connect;
mod copy_parts;
mod etags;
mod extended;
mod failure;
mod hedge;
mod keys;
mod listed;
mod local;
mod meter;
mod options;
mod probe;
mod read;
mod reads;
mod request;
mod sealed;
mod stripe;
#[cfg(feature = "testing")]
pub mod testing;
mod trouble;
mod upload;
mod url;
mod view;

pub use archived::Readable;
pub use bucket::{Bucket, ObjectInfo};
pub use change::Copied;
pub use classes::ClassChange;
pub use conditions::{Conditions, PutCondition};
pub use connect::open_store;
pub use etags::is_same_etag;
pub use listed::{DirectoryPage, KeyPage, KeyRange, ListedObject, is_addressable};
pub use meter::{LATENCY_BUCKETS, Meter, MeterRow, MeterSnapshot};
pub use object_store::{ObjectStore, PutPayload};
pub use options::ConnectOptions;
pub use probe::PROBE_PREFIX;
pub use reads::SegmentRead;
pub use request::{Component, RequestKind};
pub use sealed::sealed;
pub use stripe::{OriginSet, StripeSet};
pub use trouble::Trouble;
pub use upload::Upload;
pub use url::{BucketUrl, Scheme};
