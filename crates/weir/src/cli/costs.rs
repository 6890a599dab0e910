//! The command line of prices and advice.

use std::path::PathBuf;

use clap::Args;
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

#[derive(Args, Debug)]
pub(crate) struct PricesArgs {
    /// A price book to use instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Only this region
    #[arg(long)]
    pub(crate) region: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    /// Write the price book itself, as --prices reads it
    #[arg(long, conflicts_with_all = ["json", "region"])]
    pub(crate) book: bool,
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
    #[arg(long, requires = "workload")]
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
