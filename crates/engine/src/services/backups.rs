//! Backups: volumes as they were at one moment, in another bucket, whole without the first one.
//!
//! A backup is the rows of a snapshot's metadata, in a form that no metadata engine needs to be there for, and the
//! segments that they name, which backups of one volume share. docs/format.md has each byte. What must always hold:
//!
//! - `backup.json` of a backup is written when all that it names is there, and removed before any of that.
//! - One process at a time changes a place of backups.
//! - What is taken was read whole, and its checksums hold; else the backup says what is damaged.
//! - A volume that is restored is there when all of it is.
//!
//! A dump is the rows alone, in the volume's own bucket (`dumps.rs`, `lost.rs`).

mod clone;
pub(crate) mod dumps;
mod held;
mod keep;
mod lost;
mod making;
mod manifest;
mod progress;
mod restore;
mod rows;
mod segments;
mod source;
mod take;

pub use clone::{CloneOptions, ClonedVolume, clone_volume};
pub use dumps::dumps;
pub use keep::{Deleted, backups, delete_backups};
pub use lost::{RestoreMetadataOptions, RestoredMetadata, restore_metadata};
pub use manifest::BackupView;
pub use progress::BackupProgress;
pub use restore::{RestoreVolumeOptions, RestoredVolume, restore_volume};
pub use take::{BackupOptions, BackupReport, Taking};
