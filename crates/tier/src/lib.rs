//! The speed tier: which bytes of which file are on the local disk.
//!
//! Every file with local bytes has a sparse *mirror file*; which of its ranges are holes, resident
//! or dirty is its *residency*. Bytes come in from writers and from fetches, and go out to readers
//! and to flushes. The kernel caches; this room only keeps account.
//!
//! What must always hold:
//! - A page that residency calls resident, dirty or a hole reads right from the mirror file.
//! - Residency survives `kill -9`: every change of it is in the residency log before it is relied
//!   on. After a power cut only sealed mirrors are believed (see [`Tier::seal`]).
//! - Dirty pages are never released.
//! - A mirror file that is lent to the kernel keeps all its pages and its length is the file's size,
//!   until nobody has it open or mapped (see [`Mirror::passthrough`]).
//!
//! Locks, outermost first: the table of all mirrors, or a mirror's `scanning`; the mirror's residency;
//! leaves, which are its open file, the tier's lists of mirrors (`listed`, `passthrough`, `doubted`,
//! `idle_empty`) and the log's own. Whoever holds the residency of one mirror takes that of another
//! only by `try_write`. Nothing is awaited here, but the disk is, and under all of them.

mod aside;
pub mod disk;
mod frames;
mod lease;
mod locked;
mod log;
mod mirror;
mod mirror_file;
mod pending;
mod place;
pub mod private;
mod ranges;
mod record_log;
mod recover;
mod release;
mod room;
mod sealed;
mod settled;
mod shared;
mod space;
mod tier;

#[cfg(test)]
mod tests;

pub use aside::{ASIDE, Cause, Kept, Manifest, Merging, Remade, Why, make_private, sync_directory};
pub use frames::{ENTRY_BYTES_MAX, FrameEnd, read_frames};
pub use locked::lock_directory;
pub use mirror::flush::{Snapshot, Unjournaled};
pub use mirror::passthrough_use::{InPassthrough, Lent};
pub use mirror::{Census, Mirror, ReadOutcome};
pub use pending::Pending;
pub use place::check_directory;
pub use ranges::{PAGE_BYTES, PageState, RangeMap, page_ceil, page_floor};
pub use record_log::RecordLog;
pub use recover::{Recovered, SetAside};
pub use room::Usage;
pub use sealed::{SealedDirectory, Sealing, sealing};
pub use settled::Moment;
pub use space::{Amount, AskSpace, DiskSpace};
pub use tier::{Inherited, Tier, TierOptions};
