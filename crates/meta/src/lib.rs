//! The metadata of a volume: names, inodes, extents, segments and their uses, over one small Kv.
//!
//! In come file system operations, already permitted by whoever asks; out go checked commits to a
//! [`kv::Kv`]. Every operation is one or few read rounds and one commit, whose checks hold all that
//! the decision rested on; when they do not hold the operation is redone from its reads. So several
//! tasks and several nodes may work on one volume at once, and no lock of this process matters for
//! correctness. The keys and values are drawn byte by byte in docs/format.md.
//!
//! What must always hold is what [`check()`] looks for.

mod acl;
mod actions;
mod ages;
mod attrs;
mod behind;
pub mod check;
mod codec;
mod copy;
mod counted;
mod data;
mod differences;
mod dir;
mod disk_holds;
mod disks;
mod dump;
mod export;
mod extents;
mod flush;
mod fresh;
mod guard;
mod held;
mod holds;
mod kept;
mod keys;
pub mod kv;
mod leases;
mod links;
pub mod locks;
mod lost;
mod names;
mod native;
pub mod node_locks;
pub mod node_waits;
mod op;
mod orphans;
mod paths;
mod portions;
mod quota_of;
mod quotas;
mod receipts;
mod recent_views;
pub mod reclaims;
mod rename;
mod schedule;
mod sealed;
mod segments;
mod session;
pub mod sessions;
mod share;
mod share_row;
mod shares;
mod snapshots;
mod throughput;
mod uses;
mod views;
mod volume;
mod xattr;

#[cfg(test)]
pub(crate) mod tests;

pub use acl::{ACL_ACCESS, ACL_DEFAULT};
pub use actions::{ActionClaim, ActionEnd, ActionPortion, ActionRow, ActionRowKind, ClaimedAction};
pub use ages::{LinkedBytes, ObjectAge, SegmentAge, is_age};
pub use attrs::{AtimeChange, SetAttr};
pub use behind::{BehindKv, BehindLog, Replayed, replay};
pub use check::{Problem, check};
pub use copy::{Adding, Sum, copy, sum};
pub use data::Chunks;
pub use differences::{Between, Change, Difference, Differences, differences};
pub use dir::{DirEntry, DirEntryPlus};
pub use disk_holds::DiskHold;
pub use disks::DiskRow;
pub use dump::{DumpPage, Restore, dump, first_row, load};
pub use export::{ExportCommit, ExportContent, ExportName, ToExport};
pub use flush::{FLUSH_CHUNKS_MAX, FileFlush, FlushCommit, Flushed, Piece};
pub use guard::Guard;
pub use holds::forget_holds;
pub use leases::{BootClock, EndOfWrites, LeaseCounts, Leases, Reach};
pub use links::{LinkObject, LinkUsage, NewObject, ObjectRow};
pub use lost::{LoggedRow, logged_rows};
pub use names::NewInode;
pub use paths::path_of;
pub use portions::AskedOfNodes;
pub use quota_of::QuotaOf;
pub use quotas::{FoundAt, QuotaRow, QuotaUsed, SeenQuota};
pub use receipts::{Receipt, with_receipt};
pub use rename::{RenameMode, Renamed};
pub use schedule::{ScheduleRow, ScheduleRule};
pub use sealed::sealed_rows;
pub use segments::{Reference, SegmentBytes, SegmentInfo, SegmentUse};
pub use share::ShareRange;
pub use share_row::ShareRow;
pub use shares::{SeenRow, ShareChange};
pub use snapshots::{
    SnapshotRow, SnapshotState, SnapshotsSeen, check_snapshot_name, snapshot_of_state,
};
pub use uses::Use;
pub use volume::{Clock, LastMount, Meta, RootAttr, Usage, WriterRecord};
pub use xattr::XattrMode;

/// Longest name of a directory entry or extended attribute, in bytes.
pub const NAME_BYTES_MAX: usize = 255;
/// Largest file: 16 TiB less a page, as on ext4, whose files mirrors are.
pub const FILE_BYTES_MAX: u64 = (16 << 40) - 4096;
/// Most hard links of one file.
pub const LINKS_MAX: u32 = 1 << 20;
/// Longest target of a symbolic link, in bytes.
pub const TARGET_BYTES_MAX: usize = 4095;
