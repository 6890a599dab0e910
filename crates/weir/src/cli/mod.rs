//! The command line: what may be asked, and help that teaches by example.

mod actions;
mod backup;
mod bench;
mod clone;
mod connect;
mod costs;
mod disks;
mod doctor;
mod keys;
mod known;
mod lifecycle;
mod links;
mod locks;
mod migrate;
mod mount;
mod nfs;
mod nodes;
mod quota;
mod recover;
mod scrub;
mod snapshots;
mod sync;
mod throughput;
mod top;

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};
use weir_types::{Bytes, Codec, ErrorCode};

use crate::values;

pub(crate) use actions::{
    ActionsArgs, ArchiveArgs, CancelArgs, DuArgs, HydrateArgs, LfsArgs, WhatArgs,
};
pub(crate) use backup::{BackupArgs, BackupsArgs, RestoreVolumeArgs, ToArgs};
pub(crate) use bench::{BenchArgs, BenchCommand, BenchCompareArgs, BenchRunArgs, BenchSize};
pub(crate) use clone::CloneArgs;
pub(crate) use connect::{ConnectArgs, KeyArgs};
pub(crate) use costs::{AdviseArgs, PricesArgs, PricesCommand, PricesUpdateArgs};
pub(crate) use disks::{AttachArgs, DetachArgs, DiskArgs, DiskCommand, VolumeArgs};
pub(crate) use doctor::DoctorArgs;
pub(crate) use keys::{
    KeyAddArgs, KeyCommand, KeyCommandArgs, KeyListArgs, KeyRemoveArgs, KeyRotateArgs,
};
pub(crate) use lifecycle::{LifecycleArgs, LifecycleCommand, LifecycleOfArgs, LifecycleSetArgs};
pub(crate) use links::{LinkArgs, LinksArgs, RefreshArgs, UnlinkArgs};
pub(crate) use locks::LocksArgs;
pub(crate) use migrate::MigrateArgs;
pub(crate) use mount::{
    EngineArgs, Loss, MountArgs, NbdArgs, RemountArgs, ServeArgs, StopArgs, Transport, UmountArgs,
    UpgradeArgs,
};
pub(crate) use nfs::{
    AccessPointArgs, AccessPointCommand, AccessPointCreateArgs, ClientsArgs, ExportAddArgs,
    ExportArgs, ExportCommand, NfsArgs, Who,
};
pub(crate) use nodes::{EvictArgs, NodesArgs, NodesCommand};
pub(crate) use quota::{QuotaArgs, QuotaCommand, QuotaGetArgs, QuotaOfArgs, QuotaSetArgs};
pub(crate) use recover::RecoverArgs;
pub(crate) use scrub::ScrubArgs;
pub(crate) use snapshots::{
    CreateSnapshotArgs, DiffArgs, NamedSnapshotsArgs, RestoreArgs, Rules, ScheduleArgs,
    SnapshotCommand, SnapshotPlaceArgs, SnapshotsArgs,
};
pub(crate) use sync::SyncArgs;
pub(crate) use throughput::{BillArgs, ModeName, ThroughputArgs};
pub(crate) use top::{MetricsArgs, TopArgs};

const EXAMPLES: &str = "\
Examples:
  weir format s3://my-bucket/genomes
  weir mount s3://my-bucket/genomes /mnt/genomes --tier /nvme/weir --tier-size 400GiB
  weir status
  weir umount /mnt/genomes

Exit codes:
  0  done
  1  it failed; the message says why and what to do (fsck: problems were found)
  2  the command line was wrong (fsck: the volume could not be checked)";

const FORMAT_EXAMPLES: &str = "\
Examples:
  weir format s3://my-bucket/genomes
  weir format s3://a/vol --stripe s3://b/vol --stripe s3://c/vol     spread over three buckets
  weir format s3://test/vol --endpoint http://127.0.0.1:7070         another S3 server
  weir format file:///srv/weir --codec zstd                          a directory
  weir format s3://my-bucket/genomes --meta postgres://weir@db/weir  metadata in a database
  weir format s3://my-bucket/genomes --encrypt --key-file vol.key    sealed; `weir key new vol.key` makes the key

Keys come from the environment or ~/.aws, as for other S3 tools; the password of a database from
PGPASSFILE (~/.pgpass), a service file or PGPASSWORD, and never from its URL.";

const STATUS_EXAMPLES: &str = "\
Examples:
  weir status                        every volume mounted or served here
  weir status /mnt/genomes --json
  weir status s3://my-bucket/disks   one that is served
  weir status --region ap-northeast-2  with that region's S3 prices";

const FSCK_EXAMPLES: &str = "\
Examples:
  weir fsck s3://my-bucket/genomes           metadata and objects: one LIST per 1,000 segments
  weir fsck s3://my-bucket/genomes --data    and every byte: one GET per segment
  weir fsck s3://my-bucket/genomes --meta postgres://weir@standby/weir

Exit codes: 0 nothing wrong, 1 problems found, 2 could not check.";

const RESIDENCY_EXAMPLES: &str = "\
Examples:
  weir residency /mnt/genomes/nt.00.nsq
  weir residency /mnt/genomes --json         all files below it

hole: never written. released: in the bucket only. resident: on the local disk as well.
dirty: on the local disk only, not flushed yet.";

const COMPLETION_EXAMPLES: &str = "\
Examples:
  weir completions bash > /etc/bash_completion.d/weir
  weir completions fish > ~/.config/fish/completions/weir.fish";

/// A shared POSIX file system over object storage, with local NVMe speed and a live bill.
#[derive(Debug, Parser)]
#[command(name = "weir", version, after_help = EXAMPLES, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) log: LogArgs,
}

/// What a command line says that mounts a volume, or why it is none.
pub(crate) fn mount_of(argv: &[OsString]) -> Result<Box<MountArgs>, String> {
    match Cli::try_parse_from(argv).map(|cli| cli.command) {
        Ok(Command::Mount(mount)) => Ok(mount),
        Ok(_) => Err("it does not mount anything".to_owned()),
        Err(error) => Err(error.to_string()),
    }
}

/// What weir tells of its work.
#[derive(Args, Clone, Debug)]
pub(crate) struct LogArgs {
    /// How log lines are written
    #[arg(long, global = true, value_enum, default_value = "text")]
    pub(crate) log_format: LogFormat,
    /// Tell more: causes of errors, and log lines (-vv: still more). WEIR_LOG overrides
    #[arg(short, long, global = true, action = clap::ArgAction::Count)]
    pub(crate) verbose: u8,
}

/// How log lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// What may be asked.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Make a volume in a bucket
    #[command(after_help = FORMAT_EXAMPLES)]
    Format(FormatArgs),
    /// Mount a volume on a directory
    #[command(after_help = mount::MOUNT_EXAMPLES)]
    Mount(Box<MountArgs>),
    /// Unmount a volume, after flushing everything
    #[command(after_help = mount::UMOUNT_EXAMPLES)]
    Umount(UmountArgs),
    /// Give a mount other options of the kernel's: what `mount -o remount` calls
    #[command(hide = true, after_help = mount::REMOUNT_EXAMPLES)]
    Remount(RemountArgs),
    /// Put another version in the place of a mount's, while programs use it
    #[command(after_help = mount::UPGRADE_EXAMPLES)]
    Upgrade(UpgradeArgs),
    /// Say whether this program would go on with a mount of another one: what `weir upgrade` asks
    #[command(hide = true, after_help = "Example:\n  weir can-take-over </dev/null")]
    CanTakeOver,
    /// Serve the files and disks of a volume to other machines, without mounting it
    #[command(after_help = mount::SERVE_EXAMPLES)]
    Serve(Box<ServeArgs>),
    /// End a `weir serve`, after flushing everything
    #[command(after_help = mount::STOP_EXAMPLES)]
    Stop(StopArgs),
    /// Make, list, resize, copy and delete the disks of a volume
    #[command(after_help = disks::DISK_EXAMPLES)]
    Disk(DiskArgs),
    /// Keep a volume as it is now: every file, read-only, at once
    #[command(after_help = snapshots::SNAPSHOT_EXAMPLES)]
    Snapshot(SnapshotsArgs),
    /// Make a volume, or a part of it, as a snapshot has it
    #[command(after_help = snapshots::RESTORE_EXAMPLES)]
    Restore(RestoreArgs),
    /// Keep a volume as it is now in another bucket, whole without the first one
    #[command(after_help = backup::BACKUP_EXAMPLES)]
    Backup(Box<BackupArgs>),
    /// The backups of a place, and deleting some
    #[command(after_help = backup::BACKUPS_EXAMPLES)]
    Backups(Box<BackupsArgs>),
    /// Make a volume of a backup
    #[command(after_help = backup::RESTORE_VOLUME_EXAMPLES)]
    RestoreVolume(Box<RestoreVolumeArgs>),
    /// Make a volume that begins as another one was, and shares its bytes
    #[command(after_help = clone::CLONE_EXAMPLES)]
    Clone(Box<CloneArgs>),
    /// Read every byte that a volume has in its bucket, mend what can be, and name what is lost
    #[command(after_help = scrub::SCRUB_EXAMPLES)]
    Scrub(ScrubArgs),
    /// Move what is not used into cheaper storage classes, by rules
    #[command(after_help = lifecycle::LIFECYCLE_EXAMPLES)]
    Lifecycle(LifecycleArgs),
    /// Make a disk a block device of this machine
    #[command(after_help = disks::ATTACH_EXAMPLES)]
    Attach(AttachArgs),
    /// Take a block device away, after flushing it
    #[command(after_help = disks::DETACH_EXAMPLES)]
    Detach(DetachArgs),
    /// Find out what of a machine, a disk, a bucket or a mount is in the way
    #[command(after_help = doctor::DOCTOR_EXAMPLES)]
    Doctor(DoctorArgs),
    /// What a mount is doing, and what it costs
    #[command(after_help = STATUS_EXAMPLES)]
    Status(StatusArgs),
    /// What a mount is doing, second by second
    #[command(after_help = top::TOP_EXAMPLES)]
    Top(TopArgs),
    /// What Prometheus is told of a mount, and whether something in it is a reason for an alert
    #[command(after_help = top::METRICS_EXAMPLES)]
    Metrics(MetricsArgs),
    /// What storage and machines cost, and who says so
    #[command(after_help = costs::PRICES_EXAMPLES)]
    Prices(PricesArgs),
    /// Where a workload should run, how long it takes there and what it costs
    #[command(after_help = costs::ADVISE_EXAMPLES)]
    Advise(AdviseArgs),
    /// Write all dirty data to the bucket now
    #[command(after_help = "Example:\n  weir flush /mnt/genomes")]
    Flush(DirArgs),
    /// How much a volume holds, and how much of it is here
    #[command(after_help = "Example:\n  weir df /mnt/genomes")]
    Df(DirJsonArgs),
    /// How much is below directories, and how much of it is here
    #[command(after_help = actions::DU_EXAMPLES)]
    Du(DuArgs),
    /// Check a volume without changing it
    #[command(after_help = FSCK_EXAMPLES)]
    Fsck(FsckArgs),
    /// Move the metadata of a volume between its bucket and a PostgreSQL database
    #[command(after_help = migrate::MIGRATE_EXAMPLES)]
    Migrate(MigrateArgs),
    /// What opens an encrypted volume: made, listed, added, removed, replaced
    #[command(after_help = keys::KEY_EXAMPLES)]
    Key(KeyCommandArgs),
    /// Who shares a volume with this mount, and shutting one of them out
    #[command(after_help = nodes::NODES_EXAMPLES)]
    Nodes(NodesArgs),
    /// Say what of a volume NFS clients may mount
    #[command(after_help = nfs::EXPORT_EXAMPLES)]
    Export(ExportArgs),
    /// Let NFS clients into a directory as one user, whoever they are
    #[command(after_help = nfs::ACCESS_POINT_EXAMPLES)]
    AccessPoint(AccessPointArgs),
    /// Who has the volume mounted by NFS
    #[command(after_help = nfs::CLIENTS_EXAMPLES)]
    Clients(ClientsArgs),
    /// Who holds which lock of a file, and who waits
    #[command(after_help = locks::LOCKS_EXAMPLES)]
    Locks(LocksArgs),
    /// Bring back, write out or give up data that was set aside
    #[command(after_help = recover::RECOVER_EXAMPLES)]
    Recover(RecoverArgs),
    /// Where the bytes of files are
    #[command(after_help = RESIDENCY_EXAMPLES)]
    Residency(ResidencyArgs),
    /// Show the objects of a bucket as files of a directory
    #[command(after_help = links::LINK_EXAMPLES)]
    Link(LinkArgs),
    /// Take a linked bucket out of the tree
    #[command(after_help = links::UNLINK_EXAMPLES)]
    Unlink(UnlinkArgs),
    /// The linked buckets, and how they stand
    #[command(after_help = links::LINKS_EXAMPLES)]
    Links(LinksArgs),
    /// Import what changed in a linked bucket
    #[command(after_help = links::REFRESH_EXAMPLES)]
    Refresh(RefreshArgs),
    /// Bring all bytes of files to the local disk
    #[command(after_help = actions::HYDRATE_EXAMPLES)]
    Hydrate(HydrateArgs),
    /// Let go of local bytes that are in the bucket as well
    #[command(after_help = actions::RELEASE_EXAMPLES)]
    Release(WhatArgs),
    /// Write files to their bucket
    #[command(after_help = actions::ARCHIVE_EXAMPLES)]
    Archive(ArchiveArgs),
    /// How files stand: here, in the bucket, changed, pinned
    #[command(after_help = actions::STATE_EXAMPLES)]
    State(WhatArgs),
    /// What is being hydrated, released and archived
    #[command(after_help = actions::ACTIONS_EXAMPLES)]
    Actions(ActionsArgs),
    /// Stop an action
    #[command(after_help = actions::CANCEL_EXAMPLES)]
    Cancel(CancelArgs),
    /// Keep the local bytes of files: never release them
    #[command(after_help = actions::PIN_EXAMPLES)]
    Pin(WhatArgs),
    /// Let files be released again
    #[command(after_help = actions::UNPIN_EXAMPLES)]
    Unpin(WhatArgs),
    /// Copy a tree between directories and buckets
    #[command(after_help = sync::SYNC_EXAMPLES)]
    Sync(Box<SyncArgs>),
    /// Limits of bytes and files for directories, users and groups
    #[command(after_help = quota::QUOTA_EXAMPLES)]
    Quota(QuotaArgs),
    /// Throughput modes, limits and budget, and who did what
    #[command(after_help = throughput::THROUGHPUT_EXAMPLES)]
    Throughput(ThroughputArgs),
    /// What a mount costs, and what its work would have cost elsewhere
    #[command(after_help = throughput::BILL_EXAMPLES)]
    Bill(BillArgs),
    /// Measure directories, Weir's or not, by the experiments people choose storage by
    #[command(after_help = bench::BENCH_EXAMPLES)]
    Bench(BenchArgs),
    /// Commands of Lustre's lfs: hsm_state, hsm_restore, getstripe, ...
    #[command(hide = true, after_help = "Example:\n  weir lfs hsm_state /mnt/genomes/nt.00.nsq")]
    Lfs(LfsArgs),
    /// What an error means, and what to do
    #[command(
        after_help = "Examples:\n  weir explain                 all, a line each\n  weir explain tier-in-use"
    )]
    Explain(ExplainArgs),
    /// Completions for a shell
    #[command(after_help = COMPLETION_EXAMPLES)]
    Completions(CompletionArgs),
    /// The manual: one page on standard output, or all pages into a directory
    #[command(
        after_help = "Examples:\n  weir man | man -l -\n  weir man /usr/local/share/man/man1"
    )]
    Man(ManArgs),
    /// Version and volume format
    Version,
}

#[derive(Args, Debug)]
pub(crate) struct FormatArgs {
    /// Where: s3://BUCKET/PREFIX or file:///DIRECTORY
    pub(crate) url: String,
    /// One more bucket to spread segments over; may be given several times
    #[arg(long, value_name = "URL")]
    pub(crate) stripe: Vec<String>,
    /// Largest record: a power of two from 4KiB to 1MiB. Smaller ones suit random writes
    #[arg(long, value_name = "SIZE", default_value = "1MiB")]
    pub(crate) record_size: Bytes,
    /// Size at which a segment object is full. Larger ones mean fewer PUTs
    #[arg(long, value_name = "SIZE", default_value = "16MiB")]
    pub(crate) segment_size: Bytes,
    /// Compression: lz4, zstd or none
    #[arg(long, default_value = "lz4", value_parser = values::codec)]
    pub(crate) codec: Codec,
    /// Where names and attributes are kept: `slate`, in the bucket; or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "URL", default_value = "slate")]
    pub(crate) meta: String,
    /// Seal records and metadata by keys that only what --key-file or --key-command gives opens
    #[arg(long)]
    pub(crate) encrypt: bool,
    /// What `weir key list` calls that
    #[arg(long, value_name = "NAME", default_value = "first", requires = "encrypt")]
    pub(crate) key_name: String,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct StatusArgs {
    /// Where it is mounted, or the URL of a volume that is served [default: all]
    pub(crate) dir: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Region whose S3 list prices are used
    #[arg(long, default_value = "us-east-1", value_parser = known::REGION, hide_possible_values = true)]
    pub(crate) region: String,
}

#[derive(Args, Debug)]
pub(crate) struct DirArgs {
    /// Where it is mounted, or the URL of a volume that is served
    pub(crate) dir: PathBuf,
}

#[derive(Args, Debug)]
pub(crate) struct DirJsonArgs {
    /// Where it is mounted, or the URL of a volume that is served
    pub(crate) dir: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct FsckArgs {
    /// The volume
    pub(crate) url: String,
    /// Read every segment and check every byte against its checksum
    #[arg(long)]
    pub(crate) data: bool,
    /// Where the metadata's database is reached, if not where `weir format` was told
    #[arg(long, value_name = "URL")]
    pub(crate) meta: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Args, Debug)]
pub(crate) struct ResidencyArgs {
    /// Files, or directories for all files below
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CompletionArgs {
    /// The shell
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// Its name, as the message has it
    #[arg(value_parser = known::error_code())]
    pub(crate) code: Option<ErrorCode>,
}

#[derive(Args, Debug)]
pub(crate) struct ManArgs {
    /// Directory for the pages
    pub(crate) dir: Option<PathBuf>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_sound_and_each_help_teaches_by_example() {
        let mut root = Cli::command();
        root.clone().debug_assert();
        assert!(root.render_help().to_string().contains("Examples:"));
        let own_help = ["version", "help"];
        let subcommands = root.get_subcommands_mut();
        for sub in subcommands.filter(|sub| !own_help.contains(&sub.get_name())) {
            let name = sub.get_name().to_owned();
            let help = sub.render_long_help().to_string();
            assert!(help.contains("Example"), "{name}");
            assert!(help.contains(&format!("  weir {name}")), "{name}: {help}");
        }
    }

    #[test]
    fn bench_runs_on_paths_or_does_something_else() {
        let bench = |line: &str| match Cli::try_parse_from(line.split(' ')).map(|cli| cli.command) {
            Ok(Command::Bench(args)) => Some(args),
            _ => None,
        };
        let args = bench("weir bench --suite dd-large,metadata --copies 1,4 /mnt /srv");
        let args = args.expect("a run").run;
        assert_eq!((args.suite.len(), args.copies, args.paths.len()), (2, vec![1, 4], 2));
        let compare = bench("weir bench compare a.json b.json --threshold 2.5%").expect("parses");
        let Some(BenchCommand::Compare(compare)) = compare.instead else {
            panic!("compare expected");
        };
        assert_eq!(compare.threshold, 0.025);
        assert!(bench("weir bench suites").is_some_and(|args| args.instead.is_some()));
        for line in ["weir bench", "weir bench --copies 0 /mnt", "weir bench --repeats 0 /mnt"] {
            assert!(bench(line).is_none(), "{line}");
        }
    }

    #[test]
    fn mount_reads_sizes_and_times() {
        let line = "weir mount s3://b/v /mnt --tier /t --tier-size 64MiB --flush-age 500ms";
        let cli = Cli::try_parse_from(line.split(' ')).expect("parses");
        let Command::Mount(mount) = cli.command else {
            panic!("mount expected");
        };
        assert_eq!(mount.engine.tier_size, Some(Bytes::mib(64)));
        assert_eq!(mount.engine.flush_age, Some(500));
        let bad = "weir mount s3://b/v /mnt --tier /t --tier-size big";
        assert!(Cli::try_parse_from(bad.split(' ')).is_err());
    }
}
