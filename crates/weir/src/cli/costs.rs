//! The command line of prices and advice.

use std::path::PathBuf;

use super::known;
use clap::{Args, Subcommand};
use weir_cost::Storage;

pub(super) const PRICES_EXAMPLES: &str = "\
Examples:
  weir prices                                what every region's items cost, and who says so
  weir prices --region us-east-1
  weir prices --book > my-prices.json        a price book to edit
  weir prices --prices my-prices.json --json

A price that nobody knows is shown as unknown; it is never taken for zero. A GB is 2^30 bytes, as
AWS bills it.";

pub(super) const ADVISE_EXAMPLES: &str = "\
Examples:
  weir advise docs/examples/blast.toml
  weir advise blast.toml --html advice.html  with plots; opens in any browser, needs nothing else
  weir advise blast.toml --spot --usd-per-hour 80
  weir advise blast.toml --storage fsx:SCRATCH_2:4800 --storage efs-provisioned:300
  weir advise blast.toml --prices my-prices.json --json
  weir advise --record /mnt/genomes > blast.toml   what a live mount did, as a workload to edit
  weir advise --backtest                     how far off the models are, row by row

Choices are compared by what a month costs with the time of who waits for the runs. Storages are
written efs-elastic, efs-bursting, efs-provisioned:MIBPS, fsx:DEPLOYMENT:GIB, gp3:GIB:IOPS:MIBPS,
io2:GIB:IOPS, instance-store, s3-files and weir.";

const UPDATE_EXAMPLES: &str = "\
Examples:
  weir prices update --region ap-northeast-2 --to prices.json
  weir prices update --region eu-west-1 --to prices.json --instance c7gd.16xlarge
  weir prices update --region us-east-1 --lists ./downloaded --dry-run
  weir bill /mnt/genomes --prices prices.json

AWS's lists are public and need no account. That of EC2 has hundreds of megabytes for a region. What
changes is shown; a price that is three times what it was, or a third, is not taken without
--suspicious: it is more often misread than true. Each price keeps its list, its publication date and
its SKU. Without --prices it begins with the book in --to if that is there, else with the built-in one.";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct PricesArgs {
    #[command(subcommand)]
    pub(crate) instead: Option<PricesCommand>,
    /// A price book to use instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Only this region
    #[arg(long, value_parser = known::REGION, hide_possible_values = true)]
    pub(crate) region: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the price book itself, as --prices reads it
    #[arg(long, conflicts_with_all = ["json", "region"])]
    pub(crate) book: bool,
}

/// What else there is to do with prices.
#[derive(Debug, Subcommand)]
pub(crate) enum PricesCommand {
    /// Take the prices of a region from the lists that AWS publishes
    #[command(after_help = UPDATE_EXAMPLES)]
    Update(PricesUpdateArgs),
}

#[derive(Args, Debug)]
pub(crate) struct PricesUpdateArgs {
    /// The region
    #[arg(long, value_parser = known::REGION, hide_possible_values = true)]
    pub(crate) region: String,
    /// Where the new book is written
    #[arg(long, value_name = "FILE", required_unless_present = "dry_run")]
    pub(crate) to: Option<PathBuf>,
    /// The book to begin with
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Read the lists in this directory (index.csv files, under any names ending with .csv) instead
    /// of asking AWS
    #[arg(long, value_name = "DIR")]
    pub(crate) lists: Option<PathBuf>,
    /// Another server that has the lists under the same paths
    #[arg(long, value_name = "URL", conflicts_with = "lists")]
    pub(crate) mirror: Option<String>,
    /// One more type of instance; may be given several times [default: those that `weir advise` knows]
    #[arg(long, value_name = "TYPE", value_parser = known::MACHINE, hide_possible_values = true)]
    pub(crate) instance: Vec<String>,
    /// Take prices, too, that are more than three times what they were, or older
    #[arg(long)]
    pub(crate) suspicious: bool,
    /// Show what would change, write nothing
    #[arg(short = 'n', long)]
    pub(crate) dry_run: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct AdviseArgs {
    /// What shall run: a file in TOML
    #[arg(required_unless_present_any = ["backtest", "record"])]
    pub(crate) workload: Option<PathBuf>,
    /// Hold the models against published measurements instead, and add up published bills again
    #[arg(long, conflicts_with_all = ["workload", "html", "prices", "spot", "storage"])]
    pub(crate) backtest: bool,
    /// Write the workload of this live mount instead, as TOML
    #[arg(long, value_name = "DIR", conflicts_with_all = ["workload", "backtest", "html", "json"])]
    pub(crate) record: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write a page with plots to this file as well
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Region to run it in, instead of the workload's
    #[arg(long, requires = "workload", value_parser = known::REGION, hide_possible_values = true)]
    pub(crate) region: Option<String>,
    /// A price book to use instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// What an hour of somebody who waits for a run costs
    #[arg(long, value_name = "USD", default_value_t = 50.0)]
    pub(crate) usd_per_hour: f64,
    /// Run on Spot instances, at 60% off; the table shows them in any case
    #[arg(long)]
    pub(crate) spot: bool,
    /// The most machines that one job may be split over
    #[arg(long, value_name = "N", default_value_t = 8)]
    pub(crate) most_machines: u64,
    /// A storage to consider as well; may be given several times
    #[arg(long, value_name = "STORAGE")]
    pub(crate) storage: Vec<Storage>,
}
