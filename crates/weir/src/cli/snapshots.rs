//! The command line of snapshots.

use clap::{Args, Subcommand};

use super::connect::ConnectArgs;

pub(super) const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  weir snapshot create /mnt/genomes before-cleanup
  ls /mnt/genomes/.snapshots/before-cleanup/         every file as it was, read-only
  cp -a /mnt/genomes/.snapshots/before-cleanup/nt /mnt/genomes/     moves no bytes
  weir snapshot list /mnt/genomes
  weir snapshot hold /mnt/genomes before-cleanup     nobody deletes it
  weir snapshot release /mnt/genomes before-cleanup
  weir snapshot delete /mnt/genomes before-cleanup
  weir snapshot create s3://my-bucket/genomes nightly-$(date +%F)

A snapshot is made at once, however large the volume is, and takes room only for what is changed or
removed after it. Where a daemon of this machine has the volume it does the work; else a volume that
is named by its URL is opened for the moment.";

#[derive(Args, Debug)]
pub(crate) struct SnapshotsArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: SnapshotCommand,
}

/// What may be done with snapshots.
#[derive(Debug, Subcommand)]
pub(crate) enum SnapshotCommand {
    /// Keep the volume as it is now, under a name
    Create(CreateSnapshotArgs),
    /// The snapshots of a volume, what each holds, and what deleting it gives back
    List(SnapshotPlaceArgs),
    /// Delete snapshots
    Delete(NamedSnapshotsArgs),
    /// Keep snapshots from being deleted
    Hold(NamedSnapshotsArgs),
    /// Let snapshots be deleted again
    Release(NamedSnapshotsArgs),
}

/// The volume of a snapshot, and how it is asked.
#[derive(Args, Debug)]
pub(crate) struct SnapshotPlaceArgs {
    /// The volume, or a directory of a mount
    #[arg(value_name = "DIR|URL")]
    pub(crate) place: String,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CreateSnapshotArgs {
    #[command(flatten)]
    pub(crate) place: SnapshotPlaceArgs,
    /// A letter or digit, then letters, digits, `.`, `_`, `:` and `-`
    pub(crate) name: String,
    /// Take what the bucket has, and do not flush what it does not have yet
    #[arg(long)]
    pub(crate) no_flush: bool,
}

#[derive(Args, Debug)]
pub(crate) struct NamedSnapshotsArgs {
    #[command(flatten)]
    pub(crate) place: SnapshotPlaceArgs,
    /// The snapshots
    #[arg(value_name = "NAME", required = true)]
    pub(crate) names: Vec<String>,
}
