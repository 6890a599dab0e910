//! The command line of `weir sync`.

use clap::Args;

use super::connect::ConnectArgs;

pub(super) const SYNC_EXAMPLES: &str = "\
Examples:
  weir sync /mnt/efs/data /mnt/weir/data          from EFS, FSx, a NAS, any directory
  weir sync s3://my-bucket/runs /scratch/runs     objects as files
  weir sync /scratch/runs s3://my-bucket/runs --verify
  weir sync s3://old/data s3://new/data --delete --dry-run

What is in SRC is then in DST, under the same paths. What is there already, of the same size and time,
is not copied again: a run that was broken off goes on. Modes, times, links, sparse files, ACLs, `user.`
attributes, pipes and, for root, owners and devices are kept between directories; objects carry modes, owners
and times as FSx for Lustre and `weir link` understand them.

Exit codes: 0 DST is like SRC, 1 something could not be copied.";

#[derive(Args, Debug)]
pub(crate) struct SyncArgs {
    /// A directory, or s3://BUCKET/PREFIX and the like
    #[arg(value_name = "SRC")]
    pub(crate) from: String,
    /// The same; a directory is made if it is missing
    #[arg(value_name = "DST")]
    pub(crate) to: String,
    /// Delete what only DST has, once all is copied
    #[arg(long)]
    pub(crate) delete: bool,
    /// Do so even if SRC is empty
    #[arg(long, requires = "delete")]
    pub(crate) empty: bool,
    /// Change nothing, tell what would be done
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Read each copy again and hold it against what was read from SRC
    #[arg(long)]
    pub(crate) verify: bool,
    /// Take files of the same size for the same, whatever their times
    #[arg(long)]
    pub(crate) size_only: bool,
    /// Copy all files, also those that look the same
    #[arg(long, conflicts_with = "size_only")]
    pub(crate) all: bool,
    /// Files that are copied at once
    #[arg(short, long, value_name = "N", default_value_t = 32, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) jobs: u16,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
