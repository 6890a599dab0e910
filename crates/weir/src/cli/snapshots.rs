//! The command line of snapshots.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use weir_engine::SnapshotRule;
use weir_types::FsError;

use super::connect::ConnectArgs;

pub(super) const SNAPSHOT_EXAMPLES: &str = "\
Examples:
  weir snapshot create /mnt/genomes before-cleanup
  ls /mnt/genomes/.snapshots/before-cleanup/         every file as it was, read-only
  cp -a /mnt/genomes/.snapshots/before-cleanup/nt /mnt/genomes/     moves no bytes
  weir snapshot list /mnt/genomes
  weir snapshot diff /mnt/genomes before-cleanup     what is different now
  weir snapshot hold /mnt/genomes before-cleanup     nobody deletes it
  weir snapshot release /mnt/genomes before-cleanup
  weir snapshot delete /mnt/genomes before-cleanup
  weir snapshot create s3://my-bucket/genomes nightly-$(date +%F)
  weir snapshot schedule /mnt/genomes hourly:24,daily:7,weekly:4    makes and deletes them by itself
  weir snapshot schedule /mnt/genomes                what is made when
  weir snapshot schedule /mnt/genomes hourly:24,daily:7 --dump      and the bucket has the newest one's metadata
  weir snapshot schedule /mnt/genomes off
  weir snapshot dump /mnt/genomes before-cleanup

A snapshot is made at once, however large the volume is, and takes room only for what is changed or
removed after it. Where a daemon of this machine has the volume it does the work; else a volume that
is named by its URL is opened for the moment.";

pub(super) const RESTORE_EXAMPLES: &str = "\
Examples:
  weir snapshot diff /mnt/genomes monday             what would be undone
  weir restore /mnt/genomes --to monday              all of it
  weir restore /mnt/genomes --to monday nt scripts/run.sh
  weir restore /mnt/genomes/nt --to monday           the same as `weir restore /mnt/genomes --to monday nt`
  weir restore /mnt/genomes --to monday --keep-new   what came since stays
  weir restore /mnt/genomes --to before-restore-2026-11-26T13:00:00.000Z    undoes a restore

What is there now is kept as a snapshot first. Bytes are shared with the snapshot, not moved. At any moment each file
is as it was before or as in the snapshot, and a run that was broken off goes on when it is run again. Programs that
have a file open keep the one they have. Linked buckets stay as they are, unless one is named.

Exit codes: 0 it is as in the snapshot, 1 something could not be restored.";

#[derive(Args, Debug)]
pub(crate) struct RestoreArgs {
    /// A mount, or a directory in one
    #[arg(value_name = "DIR")]
    pub(crate) dir: PathBuf,
    /// The snapshot
    #[arg(long, value_name = "NAME")]
    pub(crate) to: String,
    /// Files and directories, from DIR; all of DIR without any
    #[arg(value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Leave what came since the snapshot was made
    #[arg(long)]
    pub(crate) keep_new: bool,
    /// Restore also files whose size and time are as they were
    #[arg(long)]
    pub(crate) all: bool,
    /// Do not keep what is there now
    #[arg(long)]
    pub(crate) no_snapshot: bool,
    /// Change nothing, only count
    #[arg(long, short = 'n')]
    pub(crate) dry_run: bool,
    /// Files that are restored at once
    #[arg(short, long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: u16,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

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
    /// What is different between two snapshots, or a snapshot and now: + added, - removed, R renamed, M other bytes, A
    /// other attributes
    Diff(DiffArgs),
    /// Delete snapshots
    Delete(NamedSnapshotsArgs),
    /// Keep snapshots from being deleted
    Hold(NamedSnapshotsArgs),
    /// Let snapshots be deleted again
    Release(NamedSnapshotsArgs),
    /// Keep the metadata of snapshots in the bucket, for the day when the volume's is lost (weir restore-volume
    /// --metadata-from)
    Dump(NamedSnapshotsArgs),
    /// Have snapshots made and deleted by themselves, or show what is made when
    Schedule(ScheduleArgs),
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

#[derive(Args, Debug)]
pub(crate) struct DiffArgs {
    #[command(flatten)]
    pub(crate) place: SnapshotPlaceArgs,
    /// The snapshot that is compared with
    #[arg(value_name = "BEFORE")]
    pub(crate) before: String,
    /// The other one; the volume as it is now without one
    #[arg(value_name = "AFTER")]
    pub(crate) after: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct ScheduleArgs {
    #[command(flatten)]
    pub(crate) place: SnapshotPlaceArgs,
    /// How often, and how many are kept, of frequent (15 minutes), hourly, daily, weekly and monthly; or `off`
    #[arg(value_name = "RULES", value_parser = rules)]
    pub(crate) rules: Option<Rules>,
    /// Dump the metadata of the newest one, for the day when the volume's is lost
    #[arg(long, requires = "rules")]
    pub(crate) dump: bool,
}

/// All rules of a schedule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Rules(pub(crate) Vec<SnapshotRule>);

fn rules(text: &str) -> Result<Rules, FsError> {
    let rules = text.split(',').map(|rule| rule.trim().parse());
    match text {
        "off" => Ok(Rules(Vec::new())),
        _ => rules.collect::<Result<_, _>>().map(Rules),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_a_list_or_none() {
        assert_eq!(rules("off").expect("none").0, []);
        let two = rules("hourly:24, daily:7").expect("two").0;
        assert_eq!(two.iter().map(|rule| rule.keep).collect::<Vec<_>>(), [24, 7]);
        for wrong in ["", "on", "hourly:24,", "hourly"] {
            assert!(rules(wrong).expect_err(wrong).to_string().contains("hourly:24"), "{wrong}");
        }
    }
}
