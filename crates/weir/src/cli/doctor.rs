//! `weir doctor`.

use std::path::PathBuf;

use clap::Args;

use super::connect::ConnectArgs;

pub(super) const DOCTOR_EXAMPLES: &str = "\
Examples:
  weir doctor                                                   this machine
  weir doctor s3://my-bucket/genomes --tier /nvme/weir          and a bucket, and a disk
  weir doctor --tier /nvme/weir --journal /ebs/weir --json
  weir doctor /mnt/genomes                                      a mount

It writes a file of up to 64 MiB below --tier and --journal, and at a URL some objects whose names begin with
.weir-probe-, about 20 requests in all; it removes them. A URL that may only be read is found out
to be so.

Exit codes: 0 nothing is wrong, 1 something is.";

#[derive(Args, Debug)]
pub(crate) struct DoctorArgs {
    /// The URL of a bucket, with a volume or without, or where a volume is mounted
    pub(crate) place: Option<String>,
    /// Directory that is to be a tier
    #[arg(long, value_name = "DIR")]
    pub(crate) tier: Option<PathBuf>,
    /// Directory that is to be a journal
    #[arg(long, value_name = "DIR")]
    pub(crate) journal: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
