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

mod data;
mod engine;
mod names;
mod services;
mod volume;

pub use bytes::Bytes;
pub use data::admission::budget::{BudgetView, Slowed};
pub use data::admission::limit::Subject;
pub use data::flush::pending::FlushFailed;
pub use data::journal::size::JournalUsage;
pub use data::resize::Fallocate;
pub use data::seek::Seek;
pub use engine::Engine;
pub use engine::statfs::Statfs;
pub use engine::status::SinceMount;
pub use engine::status::{LeaseStatus, PeersStatus, Residency, Status};
#[cfg(feature = "testing")]
pub use engine::testing;
pub use names::files::{OpenFile, OpenFlags};
pub use names::locks::Granted;
pub use names::promises::{Promise, Recall};
pub use services::actions::{
    ActionId, ActionKind, ActionNode, ActionRequest, ActionState, ActionView, ArchivedObjects,
    ArchivedView, FileState, PortionView, Refused, Root,
};
pub use services::backups::{
    BackupOptions, BackupProgress, BackupReport, BackupView, CloneOptions, ClonedVolume,
    Deleted as DeletedBackups, RestoreMetadataOptions, RestoreVolumeOptions, RestoredMetadata,
    RestoredVolume, Taking, backups, clone_volume, delete_backups, dumps, restore_metadata,
    restore_volume,
};
pub use services::disks::{Disk, DiskExtent, DiskOptions, DiskView};
pub use services::lifecycle::{
    ClassBytes, LifecyclePlan, LifecycleRule, LifecycleRuleView, LifecycleStep, LifecycleView,
    ObjectsPass,
};
pub use services::limits::{
    ColdTotals, LimitStatus, Period, RestoredTotals, ShareView, TenantView, ThroughputChange,
    ThroughputReport, ThroughputView, Totals,
};
pub use services::links::{
    Attributes, HeldDeletions, HiddenObject, ImportView, LinkOptions, LinkPlan, LinkView,
    PlannedChange, PlannedExport, PlannedExports, Policy, TreeChange,
};
pub use services::quarantine::{
    AsideEntry, AsideFile, AsideSummary, AsideView, ExtractReport, Extracted, LostOperation,
    MergeReport, RecoverProgress, Standing,
};
pub use services::quotas::{QuotaChange, QuotaSubject, QuotaView};
pub use services::scrub::{Lost, ScrubView};
pub use services::snapshots::diff::{DiffOptions, DiffPage, DifferenceView, NameChange};
pub use services::snapshots::dumping::DumpingView;
pub use services::snapshots::rules::{SnapshotPeriod, SnapshotRule, moment_name};
pub use services::snapshots::schedule::{RuleView, ScheduleView};
pub use services::snapshots::{NEWEST, SnapshotOptions, SnapshotTotals, SnapshotView};
pub use services::survey::{Survey, Surveyed};
pub use volume::boxed::Boxed;
pub use volume::connector::{Connector, Wrap};
pub use volume::context::Clock;
pub use volume::doors::{DoorChange, OtherDoor};
pub use volume::format::{FormatOptions, format, read_format};
pub use volume::fsck::{FsckOptions, FsckReport, fsck, look_at_metadata};
pub use volume::health::{MetadataStatus, MetadataTrouble};
pub use volume::host::Host;
pub use volume::keys::{KeyChange, change_keys, volume_keys};
pub use volume::locked::{LockKind, LockView, locks};
pub use volume::members::{NodeView, NodesOptions, evict_node, nodes};
pub use volume::migrate::{MigrateOptions, MigrateProgress, MigrateReport, MigrateStep, migrate};
pub use volume::options::{AcceptLoss, LeftBehind};
pub use volume::options::{Inherited, MountOptions, MountReport};
pub use volume::pulse::NodesStatus;
pub use volume::standby::await_turn;
pub use volume::turn::Turn;
pub use weir_keys::{Secret, VolumeKeys};
pub use weir_meta::locks::{Lock, LockOwner, LockSpace};
pub use weir_meta::reclaims::LockStanding;
pub use weir_meta::sessions::SessionId;
pub use weir_meta::{
    ACL_ACCESS, ACL_DEFAULT, DirEntry, DirEntryPlus, NewInode, Receipt, RenameMode, Renamed,
    SetAttr, XattrMode, with_receipt,
};
pub use weir_object::{BucketUrl, Conditions, ConnectOptions, Meter, MeterSnapshot};
pub use weir_tier::{AskSpace, DiskSpace, InPassthrough, Inherited as InheritedTier, Lent, Why};
pub use weir_types::{DiskCache, LinkId};
