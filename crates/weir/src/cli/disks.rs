//! The command line of disks.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};
use weir_door_block::attach::Driver;
use weir_types::{Bytes, DiskCache};

use super::connect::ConnectArgs;

pub(super) const DISK_EXAMPLES: &str = "\
Examples:
  weir disk create s3://my-bucket/disks pool0 --size 4TiB
  weir disk create s3://my-bucket/disks vm7 --size 40GiB --record 64KiB --cache tier
  weir disk list s3://my-bucket/disks
  weir disk snapshot s3://my-bucket/disks vm7 before-upgrade
  weir disk clone s3://my-bucket/disks vm7@before-upgrade vm8
  weir disk resize s3://my-bucket/disks vm7 --size 80GiB
  weir disk delete s3://my-bucket/disks vm7@before-upgrade

Where a daemon of this machine serves or mounts the volume, it does the work; else the volume is
opened for the moment. `weir serve` makes disks of use.";

pub(super) const ATTACH_EXAMPLES: &str = "\
Examples:
  weir attach pool0
  weir attach vm7 --volume s3://my-bucket/disks --device /dev/nbd3
  weir attach vm7@before-upgrade
  mkfs.xfs $(weir attach vm7 --json | jq -r .device)

A daemon must serve or mount the volume, as root. The same command with the same --device takes a
device up again whose daemon died.";

pub(super) const DETACH_EXAMPLES: &str = "\
Examples:
  weir detach /dev/nbd3
  weir detach vm7

It fails while the device is mounted or open.";

#[derive(Args, Debug)]
pub(crate) struct DiskArgs {
    /// What to do
    #[command(subcommand)]
    pub(crate) command: DiskCommand,
}

/// What may be done with disks.
#[derive(Debug, Subcommand)]
pub(crate) enum DiskCommand {
    /// Make a disk of zeros; it takes no room before it is written
    Create(CreateArgs),
    /// The disks and snapshots of a volume
    List(VolumeArgs),
    /// Set the size of a disk
    Resize(ResizeArgs),
    /// Delete a disk or snapshot that nobody uses
    Delete(DeleteArgs),
    /// Freeze a disk as it is now, under NAME@SNAPSHOT
    Snapshot(SnapshotArgs),
    /// Make a new disk that begins as a copy of a disk or snapshot
    Clone(CloneArgs),
}

/// The volume of a disk, and how it is asked.
#[derive(Args, Debug)]
pub(crate) struct VolumeArgs {
    /// The volume
    pub(crate) url: String,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct CreateArgs {
    #[command(flatten)]
    pub(crate) volume: VolumeArgs,
    /// Letters, digits, `.`, `_` and `-`
    pub(crate) name: String,
    /// What clients see as its size: a multiple of 4 KiB
    #[arg(long)]
    pub(crate) size: Bytes,
    /// Writes of whole records become an object each: a power of two from 4KiB [default: the
    /// volume's record size, 1MiB]
    #[arg(long, value_name = "SIZE")]
    pub(crate) record: Option<Bytes>,
    /// What of it is kept on the local disk
    #[arg(long, value_enum, default_value = "none")]
    pub(crate) cache: CacheName,
}

/// What of a disk is kept on the local disk.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum CacheName {
    /// Parts of records only: for clients with caches of their own, such as ZFS
    None,
    /// All that is used, as for files: for XFS, ext4, virtual machines
    Tier,
}

impl From<CacheName> for DiskCache {
    fn from(name: CacheName) -> Self {
        match name {
            CacheName::None => DiskCache::None,
            CacheName::Tier => DiskCache::Tier,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct ResizeArgs {
    #[command(flatten)]
    pub(crate) volume: VolumeArgs,
    /// The disk
    pub(crate) name: String,
    /// Its new size: a multiple of 4 KiB
    #[arg(long)]
    pub(crate) size: Bytes,
    /// It may become smaller: what lies behind is destroyed
    #[arg(long)]
    pub(crate) shrink: bool,
}

#[derive(Args, Debug)]
pub(crate) struct DeleteArgs {
    #[command(flatten)]
    pub(crate) volume: VolumeArgs,
    /// The disk, or the snapshot as NAME@SNAPSHOT
    pub(crate) name: String,
}

#[derive(Args, Debug)]
pub(crate) struct SnapshotArgs {
    #[command(flatten)]
    pub(crate) volume: VolumeArgs,
    /// The disk
    pub(crate) name: String,
    /// What follows the `@`
    pub(crate) snapshot: String,
}

#[derive(Args, Debug)]
pub(crate) struct CloneArgs {
    #[command(flatten)]
    pub(crate) volume: VolumeArgs,
    /// The disk, or the snapshot as NAME@SNAPSHOT
    pub(crate) name: String,
    /// The name of the copy
    pub(crate) new: String,
}

#[derive(Args, Debug)]
pub(crate) struct AttachArgs {
    /// The disk, or the snapshot as NAME@SNAPSHOT
    pub(crate) name: String,
    /// The volume [default: the only one here that has such a disk]
    #[arg(long, value_name = "URL")]
    pub(crate) volume: Option<String>,
    /// The device, such as /dev/nbd3 [default: one that is free]
    #[arg(long, value_name = "PATH")]
    pub(crate) device: Option<PathBuf>,
    /// The kernel's driver [default: that of --device, else nbd]
    #[arg(long, value_enum)]
    pub(crate) driver: Option<DriverName>,
    /// Nobody may write it here
    #[arg(long)]
    pub(crate) read_only: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// A driver of the kernel.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum DriverName {
    /// /dev/nbdN: requests wait a minute for the next daemon if this one dies
    Nbd,
    /// /dev/ublkbN: faster, from Linux 6.6 on; the device goes with the daemon
    Ublk,
}

impl From<DriverName> for Driver {
    fn from(name: DriverName) -> Self {
        match name {
            DriverName::Nbd => Driver::Nbd,
            DriverName::Ublk => Driver::Ublk,
        }
    }
}

#[derive(Args, Debug)]
pub(crate) struct DetachArgs {
    /// The device, or the disk if it has but one
    pub(crate) device: String,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}
