//! The command line of `weir bench`.

use std::path::PathBuf;

use clap::{Args, Subcommand, ValueEnum};

use super::known;
use crate::values;

pub(super) const BENCH_EXAMPLES: &str = "\
Examples:
  weir bench suites                                  what can be run, and how much that is
  weir bench /mnt/genomes /mnt/efs                   all suites but credit-drain, side by side
  weir bench --suite dd-large,metadata /mnt/genomes --json report.json --html report.html
  weir bench --suite small-files --size published --copies 8 --yes /mnt/efs
  weir bench --suite bucket s3://my-bucket/tmp       a bucket itself, without a file system above it
  weir bench compare monday.json friday.json         what became slower

The small size fits a laptop; the published one is that of the published runs, and takes hours.
It says how much it will write and read, and asks on a terminal before it begins.
The page cache is dropped between phases where that is allowed (as root); where not, the report
says so. All that is made lies in one directory in each PATH, and is removed also on Ctrl-C.

Exit codes: 0 measured, 1 nothing could be measured, 130 stopped by Ctrl-C.";

pub(super) const COMPARE_EXAMPLES: &str = "\
Examples:
  weir bench compare monday.json friday.json
  weir bench compare monday.json friday.json --threshold 10%

Exit codes: 0 nothing is slower, 1 something is, by more than the threshold and not by chance
(three repeats at least; of all that is called slower or faster, one in 20 may be chance), or they
could not be compared, or the second lacks what the first has.";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true, subcommand_negates_reqs = true)]
pub(crate) struct BenchArgs {
    #[command(subcommand)]
    pub(crate) instead: Option<BenchCommand>,
    #[command(flatten)]
    pub(crate) run: BenchRunArgs,
}

/// What `weir bench` does instead of running suites.
#[derive(Debug, Subcommand)]
pub(crate) enum BenchCommand {
    /// The suites, and how much they write and read
    #[command(after_help = "Example:\n  weir bench suites")]
    Suites(BenchSuitesArgs),
    /// Two reports side by side: what became faster or slower
    #[command(after_help = COMPARE_EXAMPLES)]
    Compare(BenchCompareArgs),
}

#[derive(Args, Debug)]
pub(crate) struct BenchSuitesArgs {
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct BenchCompareArgs {
    /// The report to compare with
    pub(crate) first: PathBuf,
    /// The report that is judged
    pub(crate) second: PathBuf,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Differences up to this count for none
    #[arg(long, value_name = "PERCENT", default_value = "5%", value_parser = values::share)]
    pub(crate) threshold: f64,
}

#[derive(Args, Debug)]
pub(crate) struct BenchRunArgs {
    /// Directories to measure, side by side, of any file system; URLs for the suite `bucket`
    #[arg(required = true, value_name = "PATH")]
    pub(crate) paths: Vec<PathBuf>,
    /// Suites to run, or all; or `bucket`, which measures a bucket by its URL
    #[arg(long, value_name = "NAME", value_delimiter = ',', default_value = "all", value_parser = known::SUITE, hide_possible_values = true)]
    pub(crate) suite: Vec<String>,
    /// How much to run
    #[arg(long, value_enum, default_value = "small")]
    pub(crate) size: BenchSize,
    /// How often; three are the least that tell a difference from chance
    #[arg(long, value_name = "N", default_value_t = 3,
        value_parser = clap::value_parser!(u32).range(1..=100))]
    pub(crate) repeats: u32,
    /// Copies, jobs or threads at once, such as 1,4,8 [default: each suite's own]
    #[arg(long, value_name = "N", value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub(crate) copies: Vec<u32>,
    /// Leave fsync out of the time of writes, as some published runs did
    #[arg(long)]
    pub(crate) no_sync: bool,
    /// Write the report to this file; `weir bench compare` reads it
    #[arg(long, value_name = "FILE")]
    pub(crate) json: Option<PathBuf>,
    /// Write the report as a page with plots; opens in any browser, needs nothing else
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// What random data begins from
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Address of an S3 server other than Amazon's, for the suite `bucket`
    #[arg(long, value_name = "URL")]
    pub(crate) endpoint: Option<String>,
    /// Region whose list prices say what the requests to a bucket cost
    #[arg(long, default_value = "us-east-1", value_parser = known::REGION, hide_possible_values = true)]
    pub(crate) region: String,
    /// Do not ask, however long it takes and whatever it costs
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// How much of a suite is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BenchSize {
    /// A small one of the same shape, for a laptop
    Small,
    /// As it was published
    Published,
}
