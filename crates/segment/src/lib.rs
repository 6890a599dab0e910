//! The format of segments: records of many files packed into one immutable object.
//!
//! Raw bytes and their owners flow in, a sealed segment flows out; stored bytes flow in, verified
//! raw bytes or index entries flow out. Everything here is pure: no I/O, no clock, no async.
//! `docs/format.md` shows every byte.
//!
//! What must always hold:
//! - no byte comes out that was not pushed in: every stored byte is below a checksum that is seeded
//!   with the segment's id, so a record read from the wrong object never verifies;
//! - no input, however bad, panics or makes more memory than the bytes it claims (1 MiB a record);
//! - whatever follows version 1 is refused as unsupported, never misread.

mod builder;
mod codec;
mod entry;
mod index;
mod layout;
mod record;
mod scan;

pub use builder::{SealedSegment, SegmentBuilder};
pub use entry::{IndexEntry, Owner};
pub use index::{IndexRead, decode_index};
pub use record::decode_record;
pub use scan::{Scan, Scanned, records_from, scan_records};

/// Version of the segment format that this build writes; the newest that it reads.
pub const SEGMENT_VERSION: u32 = 1;
