//! The command line of links.

use std::path::PathBuf;

use clap::Args;
use weir_engine::{Attributes, Policy};

use crate::values;

pub(super) const LINK_EXAMPLES: &str = "\
Examples:
  weir link s3://my-bucket/blast/db /mnt/genomes/db
  weir link s3://open-data/nt /mnt/genomes/nt --import new,changed,deleted --poll 5m
  weir link s3://my-bucket/results /mnt/genomes/out --export new,changed
  weir link s3://my-bucket/all /mnt/genomes/all --import all --plan
  weir link s3://test/data /mnt/genomes/x --endpoint http://127.0.0.1:7070

One object is one file with the same key. Names, sizes and times are imported at once, with
1 LIST for 1,000 objects; bytes when they are read, or asked for by `weir hydrate`. Nothing is
polled and nothing is written to the bucket unless --import and --export say so. A poll lists the
whole prefix: 1,000,000 objects each minute cost about $7 a day at S3's list price; `weir refresh
--events` costs nothing.";

pub(super) const UNLINK_EXAMPLES: &str = "\
Example:
  weir unlink /mnt/genomes/db

Files that are nothing but objects go from the tree; those that were made or changed here stay as
files of the volume. The bucket is not touched.";

pub(super) const LINKS_EXAMPLES: &str = "\
Examples:
  weir links                                 of every volume mounted here
  weir links /mnt/genomes/db                 this one
  weir links /mnt/genomes/db --hidden        the objects that cannot show as files, and why
  weir links /mnt/genomes/db --pending       what will be put, copied and deleted, and its cost
  weir links --json";

pub(super) const REFRESH_EXAMPLES: &str = "\
Examples:
  weir refresh /mnt/genomes/db               list the bucket again, in the background
  weir refresh /mnt/genomes/db --wait        and wait until it is done
  weir refresh /mnt/genomes/db --confirm     the many deletions that `weir links` shows are meant
  weir refresh /mnt/genomes/db --key nt.00.nsq --key nt.01.nsq
  aws sqs receive-message --queue-url URL | weir refresh /mnt/genomes/db --events -

--events reads event notifications of S3 in JSON, one or many, as they are or as SQS, SNS, Lambda
and EventBridge wrap them, takes the keys of this link's bucket and prefix, and asks for those
objects only: one HEAD each instead of listing everything.";

#[derive(Args, Debug)]
pub(crate) struct LinkArgs {
    /// Where the objects are: s3://BUCKET/PREFIX or file:///DIRECTORY
    pub(crate) url: String,
    /// An empty directory in a mounted volume; it is made if it is not there
    pub(crate) path: PathBuf,
    /// Changes in the bucket that show here by themselves: new, changed, deleted, all or none
    #[arg(long, value_name = "WHAT,...", default_value = "none", value_parser = values::policy)]
    pub(crate) import: Policy,
    /// Changes here that go to the bucket by themselves: new, changed, deleted, all or none
    #[arg(long, value_name = "WHAT,...", default_value = "none", value_parser = values::policy)]
    pub(crate) export: Policy,
    /// Import the names of a directory when somebody first looks into it
    #[arg(long)]
    pub(crate) lazy_dirs: bool,
    /// Ask for owner, mode and times in the objects' metadata, 1 HEAD for each: always, never, or
    /// auto, if some of the first objects have them
    #[arg(long, value_name = "WHEN", default_value = "auto", value_parser = values::attributes)]
    pub(crate) attributes: Attributes,
    /// Time between two polls of the bucket, with --import
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::duration_ms)]
    #[arg(requires = "import")]
    pub(crate) poll: u64,
    /// Address of another S3 server than the volume's
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// Region of the bucket, if it is not the volume's
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// Profile of ~/.aws, if it is not the volume's
    #[arg(long)]
    pub(crate) profile: Option<String>,
    /// Sign nothing, whatever keys there are: for a bucket that all may read
    #[arg(long, conflicts_with = "profile")]
    pub(crate) anonymous: bool,
    /// Only show what the link would show, ask for and cost: nothing is made or written
    #[arg(long)]
    pub(crate) plan: bool,
    /// Nothing need lie below the URL yet
    #[arg(long)]
    pub(crate) empty: bool,
    /// Do not wait for the first import
    #[arg(long)]
    pub(crate) no_wait: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct UnlinkArgs {
    /// The linked directory
    pub(crate) path: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LinksArgs {
    /// A linked directory, or any other place in a mount for all of its links [default: all]
    pub(crate) path: Option<PathBuf>,
    /// List the objects that cannot show as files
    #[arg(long)]
    pub(crate) hidden: bool,
    /// Show what waits for its export: what will be put, copied and deleted, and what that costs
    #[arg(long, conflicts_with = "hidden")]
    pub(crate) pending: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct RefreshArgs {
    /// The linked directory, or anything below it
    pub(crate) path: PathBuf,
    /// Key of an object that changed, below the link's URL; may be given several times
    #[arg(long, value_name = "KEY")]
    pub(crate) key: Vec<String>,
    /// File with event notifications of S3; `-` is standard input
    #[arg(long, value_name = "FILE")]
    pub(crate) events: Option<PathBuf>,
    /// Wait until everything is imported
    #[arg(long)]
    pub(crate) wait: bool,
    /// Remove here what `weir links` says is held, and take the directory of a file:// link for what
    /// it is by now
    #[arg(long, conflicts_with_all = ["key", "events"])]
    pub(crate) confirm: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}
