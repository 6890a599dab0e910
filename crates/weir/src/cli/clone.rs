//! The command line of `weir clone`.

use clap::Args;

use super::connect::ConnectArgs;

pub(super) const CLONE_EXAMPLES: &str = "\
Examples:
  weir clone s3://my-bucket/genomes@monday s3://my-bucket/try      as a snapshot has it
  weir clone /mnt/genomes s3://my-bucket/try                       as it is now: a snapshot is made and held
  weir clone s3://my-bucket/genomes@monday s3://other/try --stripe s3://other-2/try

Makes a volume of its own that begins as another one was, and shares the bytes of that: no segment is read or copied, only the
metadata. What is written to it goes to its own bucket; the first volume never sees it. It needs the snapshot and the bucket
of the first one for as long as it is there, and the same keys must reach both. Once it is gone: `weir snapshot release`, and
`delete`. A copy that needs nobody: `weir backup` and `weir restore-volume`.";

#[derive(Args, Debug)]
pub(crate) struct CloneArgs {
    /// The volume, or a directory of a mount, and which snapshot of it [default: one that is made now]
    #[arg(value_name = "DIR|URL[@SNAPSHOT]")]
    pub(crate) from: String,
    /// Where the new volume is to be: s3://BUCKET/PREFIX or file:///DIRECTORY
    pub(crate) to: String,
    /// One more bucket to spread its segments over; may be given several times
    #[arg(long, value_name = "URL")]
    pub(crate) stripe: Vec<String>,
    /// Where its names and attributes are kept: `slate`, in the bucket; or postgres://USER@HOST/DATABASE
    #[arg(long, value_name = "URL", default_value = "slate")]
    pub(crate) meta: String,
    /// Go on with imports and exports of linked buckets
    #[arg(long)]
    pub(crate) keep_links: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
