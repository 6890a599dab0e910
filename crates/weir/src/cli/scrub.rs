//! The command line of scrubs.

use std::path::PathBuf;

use clap::Args;
use weir_types::Bytes;

pub(super) const SCRUB_EXAMPLES: &str = "\
Examples:
  weir scrub /mnt/genomes --rate 50MiB           begins to read every byte in the bucket, 50 MiB a second
  weir scrub /mnt/genomes --wait                 begins one, or waits for the one that runs
  weir scrub /mnt/genomes --status               how far it is, or how the last one ended
  weir scrub /mnt/genomes --stop

Every byte that the volume or a snapshot needs is read from the bucket and held against its checksum. What is damaged or missing
there and is in the tier is sent off anew; what is nowhere is named, file by file. It goes on in the daemon, after a
restart, too. Each segment costs a GET, and where the bucket is far away its bytes. `weir fsck URL --data` does the same from anywhere,
at full speed, and repairs nothing.

Exit codes: 0 nothing is lost, 1 something is, or it cannot be begun.";

#[derive(Args, Debug)]
pub(crate) struct ScrubArgs {
    /// Where it is mounted, or the URL of a volume that is served
    pub(crate) dir: PathBuf,
    /// Bytes a second at most
    #[arg(long, value_name = "SIZE")]
    pub(crate) rate: Option<Bytes>,
    /// Wait until it has ended
    #[arg(long)]
    pub(crate) wait: bool,
    /// Begin nothing, only say how far it is
    #[arg(long, conflicts_with_all = ["rate", "wait", "stop"])]
    pub(crate) status: bool,
    /// End the one that runs
    #[arg(long, conflicts_with_all = ["rate", "wait"])]
    pub(crate) stop: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}
