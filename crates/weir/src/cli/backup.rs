//! The command line of backups.

use clap::Args;

use super::connect::ConnectArgs;

pub(super) const BACKUP_EXAMPLES: &str = "\
Examples:
  weir backup /mnt/genomes --to s3://backups/genomes               segments that are not there yet, and the metadata
  weir backup s3://my-bucket/genomes --to s3://backups/genomes     the same of one that is mounted nowhere
  weir backup /mnt/genomes --to s3://backups/genomes --name before-upgrade --verify
  weir backup /mnt/genomes --to s3://backups/genomes --snapshot monday
  weir backup /mnt/genomes --to s3://backups/genomes --to-region eu-west-1 --to-profile backups
  weir backups s3://backups/genomes                                which there are
  weir restore-volume s3://backups/genomes s3://my-bucket/again    a volume of the newest

A backup is whole without the volume: its metadata as of one moment, and all segments, which backups of one volume share.
Every segment is read once and its checksums are checked on the way. Broken off, the same command copies what is missing.
The volume goes on meanwhile; a snapshot holds what is copied, and goes with the end.

Exit codes: 0 it is there, 1 it is not, or something of the volume was damaged (which is told, and is in the backup as it is).";

pub(super) const BACKUPS_EXAMPLES: &str = "\
Examples:
  weir backups s3://backups/genomes
  weir backups s3://backups/genomes --json
  weir backups s3://my-bucket/genomes                              of a volume: dumps of its metadata
  weir backups s3://backups/genomes --delete 2026-11-26T13:00:00.000Z

Deleting one also removes the segments that no other backup needs, and what was begun and never became a backup.";

pub(super) const RESTORE_VOLUME_EXAMPLES: &str = "\
Examples:
  weir restore-volume s3://backups/genomes s3://my-bucket/again
  weir restore-volume s3://backups/genomes s3://my-bucket/again --backup before-upgrade
  weir restore-volume s3://backups/genomes s3://my-bucket/again --stripe s3://my-bucket-2/again
  weir restore-volume s3://backups/genomes s3://my-bucket/again --meta postgres://weir@db/weir
  weir backups s3://my-bucket/genomes                              dumps of its metadata
  weir restore-volume s3://my-bucket/genomes --metadata-from newest

Makes a volume with a name of its own, which has all that was backed up. It is there when all of it is; broken off, the same
command goes on. Links of the backed-up volume stand still in it, so that two volumes do not export to one bucket:
`weir link` has them go on, or --keep-links.

With --metadata-from it is the volume that is there, whose metadata was lost (`weir snapshot schedule --dump`): it is as it was
when that dump's snapshot was made. Nothing is copied, and it must be mounted nowhere.";

/// How to reach the other side.
#[derive(Args, Clone, Debug)]
pub(crate) struct ToArgs {
    /// Address of the S3 server of the destination [default: as --endpoint]
    #[arg(long, value_name = "URL")]
    pub(crate) to_endpoint: Option<String>,
    /// Region of the destination [default: as --region]
    #[arg(long, value_name = "REGION")]
    pub(crate) to_region: Option<String>,
    /// Profile of ~/.aws for the destination [default: as --profile]
    #[arg(long, value_name = "PROFILE")]
    pub(crate) to_profile: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct BackupArgs {
    /// The volume, or a directory of a mount
    #[arg(value_name = "DIR|URL")]
    pub(crate) place: String,
    /// Where backups of this volume are: another bucket, or a prefix in one
    #[arg(long, value_name = "URL")]
    pub(crate) to: String,
    /// What it is called [default: the time, or the snapshot's name]
    #[arg(long, value_name = "NAME")]
    pub(crate) name: Option<String>,
    /// Take a snapshot that is there, and not what is there now
    #[arg(long, value_name = "NAME")]
    pub(crate) snapshot: Option<String>,
    /// Read also what earlier backups have, and copy again what is damaged there
    #[arg(long)]
    pub(crate) verify: bool,
    /// Segments that are copied at once
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: u16,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to_args: ToArgs,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct BackupsArgs {
    /// Where they are
    pub(crate) url: String,
    /// Delete this one; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) delete: Vec<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RestoreVolumeArgs {
    /// Where backups are; with --metadata-from the volume
    pub(crate) from: String,
    /// Where the volume is to be: s3://BUCKET/PREFIX or file:///DIRECTORY
    #[arg(required_unless_present = "metadata_from")]
    pub(crate) to: Option<String>,
    /// The volume is there and its metadata is lost: restore it from this dump, or the `newest`
    #[arg(long, value_name = "NAME", conflicts_with_all = ["to", "backup", "stripe", "keep_links", "to_endpoint", "to_region", "to_profile"])]
    pub(crate) metadata_from: Option<String>,
    /// With --metadata-from: do away with metadata that can be read, or may come back
    #[arg(long, requires = "metadata_from")]
    pub(crate) accept_loss: bool,
    /// Which backup [default: the newest]
    #[arg(long, value_name = "NAME")]
    pub(crate) backup: Option<String>,
    /// One more bucket to spread segments over; may be given several times
    #[arg(long, value_name = "URL")]
    pub(crate) stripe: Vec<String>,
    /// Where names and attributes are kept: `slate`, in the bucket; or postgres://USER@HOST/DATABASE [default: slate; with
    /// --metadata-from where they were]
    #[arg(long, value_name = "URL")]
    pub(crate) meta: Option<String>,
    /// Go on with imports and exports of linked buckets
    #[arg(long)]
    pub(crate) keep_links: bool,
    /// Segments that are copied at once
    #[arg(short, long, value_name = "N", default_value_t = 8, value_parser = clap::value_parser!(u16).range(1..=256))]
    pub(crate) jobs: u16,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) to_args: ToArgs,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
