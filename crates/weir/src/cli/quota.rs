//! The command line of quotas.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use weir_types::Bytes;

use crate::values;

pub(super) const QUOTA_EXAMPLES: &str = "\
Examples:
  weir quota set /mnt/projects/x --bytes 2TiB --files 10M   that directory and all below it
  weir quota set /mnt --user alice --bytes 500GiB           all files of a user
  weir quota set /mnt --group lab --files 50M
  weir quota set /mnt/projects/x --bytes none               no limit, but counted
  weir quota get /mnt/projects/x/data                       what that counts for
  weir quota list /mnt
  weir quota remove /mnt/projects/x
  weir quota set s3://my-bucket/vol --path /projects/x --bytes 2TiB   of a volume that is served

Who writes past a quota gets EDQUOT (\"Disk quota exceeded\"). Below a directory with a quota `df` shows
that. Quotas may lie in each other. What is there already when one is set is counted first, while all
goes on; `set` waits for that, unless --no-wait.";

/// Limits of directories, users and groups.
#[derive(Args, Debug)]
pub(crate) struct QuotaArgs {
    #[command(subcommand)]
    pub(crate) command: QuotaCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum QuotaCommand {
    /// Set a quota, or change one
    Set(QuotaSetArgs),
    /// Show the quotas that a file or directory counts for
    Get(QuotaGetArgs),
    /// Show all quotas, and what is used of them
    List {
        /// Where the volume is mounted, or its URL if it is served
        #[arg(value_name = "DIR|URL")]
        place: PathBuf,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Remove a quota
    Remove {
        #[command(flatten)]
        of: QuotaOfArgs,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

/// Whose quota.
#[derive(Args, Debug)]
pub(crate) struct QuotaOfArgs {
    /// The directory; with --user, --group or --path, where the volume is mounted, or its URL if it is served
    #[arg(value_name = "DIR|URL")]
    pub(crate) place: PathBuf,
    /// The directory, below the volume's root
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// All files of this user, by name or number
    #[arg(long, value_name = "USER", conflicts_with = "path")]
    pub(crate) user: Option<String>,
    /// All files of this group, by name or number
    #[arg(long, value_name = "GROUP", conflicts_with_all = ["path", "user"])]
    pub(crate) group: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct QuotaSetArgs {
    #[command(flatten)]
    pub(crate) of: QuotaOfArgs,
    /// Bytes that there may be, or none for no limit [default: as it was; no limit]
    #[arg(long, value_name = "SIZE|none", value_parser = values::bytes_or_none)]
    pub(crate) bytes: Option<Bytes>,
    /// Files that there may be, directories among them, such as 10M, or none [default: as it was; no limit]
    #[arg(long, value_name = "N|none", value_parser = values::count_or_none)]
    pub(crate) files: Option<u64>,
    /// Do not wait until all that is there already counts
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct QuotaGetArgs {
    /// A file or directory of a mount; with --path, the URL of a volume that is served
    #[arg(value_name = "FILE|URL")]
    pub(crate) place: PathBuf,
    /// The file or directory, below the volume's root
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}
