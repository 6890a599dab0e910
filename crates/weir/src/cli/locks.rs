//! The command line of `weir locks`.

use clap::Args;

use super::connect::ConnectArgs;

pub(super) const LOCKS_EXAMPLES: &str = "\
Examples:
  weir locks /mnt/genomes                 who has what locked, and who waits for it
  weir locks /mnt/genomes/run7/index.db   of this file, or below this directory
  weir locks s3://my-bucket/genomes       from a machine that has not mounted it
  weir locks /mnt/genomes --json

It shows the locks that programs take by flock and fcntl on all nodes that have it mounted with --shared.
A mount without leaves them to the kernel: lslocks lists them there. Who waits is told after a second, and of another node with its next
beat, 3 s later at most. A process is of the machine beside it. A lock that nobody lets go ends with its
process; those of a machine that is gone, after 12 s, or by `weir nodes evict`.";

#[derive(Args, Debug)]
pub(crate) struct LocksArgs {
    /// A mount, a file or directory in it, or a volume
    #[arg(value_name = "PATH|URL")]
    pub(crate) place: String,
    /// Where the metadata's database is reached, if not where `weir format` was told
    #[arg(long, value_name = "URL")]
    pub(crate) meta: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
