//! The file system: composes metadata, tier, segments and buckets into read, write, flush and fetch.
//!
//! In come file system calls from the doors, by inode and already permitted; out go bytes and
//! attributes. Below it bytes move between three places: the mirror file (speed), segments in the
//! bucket (capacity), and extents in the metadata that say which bytes are where.
//!
//! What must always hold:
//! - Data is durable in the bucket before the metadata that names it.
//! - What was acknowledged is in the mirror file or the redo log, so `kill -9` loses nothing.
//! - Whoever wants a byte that is not here waits on the one fetch of it.
//! - One inode's extents change by one hand at a time: whoever holds its node's `change` lock.

mod actions;
mod aside;
mod background;
mod belongs;
mod boot;
mod claim;
mod collect;
mod copy;
mod disks;
mod engine;
mod fetch;
mod files;
mod flush;
mod fsck;
mod journal;
mod lend;
mod links;
mod mount;
mod names;
mod native;
mod neighbours;
mod nodes;
mod pace;
mod read;
mod records;
mod resize;
mod room;
mod seek;
mod status;
mod streams;
mod sync;
mod throughput;
mod volume;
mod write;

pub use actions::{
    ActionId, ActionKind, ActionRequest, ActionState, ActionView, FileState, Refused, Root,
};
pub use aside::{
    AsideEntry, AsideFile, AsideSummary, AsideView, ExtractReport, Extracted, LostOperation,
    MergeReport, RecoverProgress, Standing,
};
pub use belongs::{AcceptLoss, LeftBehind};
pub use boot::Host;
pub use bytes::Bytes;
pub use disks::{Disk, DiskExtent, DiskOptions, DiskView};
pub use engine::{Clock, Engine};
pub use files::{OpenFile, OpenFlags};
pub use fsck::{FsckOptions, FsckReport, fsck};
pub use journal::JournalUsage;
pub use links::{
    Attributes, HeldDeletions, HiddenObject, ImportView, LinkOptions, LinkPlan, LinkView,
    PlannedChange, PlannedExport, PlannedExports, Policy, TreeChange,
};
pub use mount::{MountOptions, MountReport};
pub use resize::Fallocate;
pub use seek::Seek;
pub use status::SinceMount;
pub use status::{FlushFailed, Residency, Statfs, Status};
pub use throughput::{
    BudgetView, Slowed, Spell, TenantView, ThroughputChange, ThroughputReport, ThroughputView,
    Totals, Whose,
};
pub use volume::{Connector, FormatOptions, Wrap, format, read_format};
pub use weir_meta::locks::{Lock, LockOwner, LockSpace, LockTable};
pub use weir_meta::{DirEntry, DirEntryPlus, NewInode, RenameMode, Renamed, SetAttr, XattrMode};
pub use weir_object::{BucketUrl, Conditions, ConnectOptions, Meter, MeterSnapshot};
pub use weir_tier::{AskSpace, DiskSpace, Why};
pub use weir_types::{DiskCache, LinkId};
