//! The command line of throughput and bills.

use std::path::PathBuf;

use clap::{Args, ValueEnum};
use weir_throughput::efs::Date;
use weir_types::{Bytes, NanoUsd};

use super::known;
use crate::values;

pub(super) const THROUGHPUT_EXAMPLES: &str = "\
Examples:
  weir throughput /mnt/genomes                             how it stands, and who did what
  weir throughput /mnt/genomes --mode bursting             credits and limits as EFS has them
  weir throughput /mnt/genomes --mode provisioned --mibps 200
  weir throughput /mnt/genomes --mode elastic              no limit (the default)
  weir throughput /mnt/genomes --path /mnt/genomes/scratch --mode provisioned --mibps 50
  weir throughput /mnt/genomes --path /mnt/genomes/scratch --remove
  weir throughput /mnt/genomes --user 1000 --mode provisioned --mibps 50
  weir throughput /mnt/genomes --mode bursting --rules 2018-09-01   EFS as it was then
  weir throughput /mnt/genomes --budget 5USD/h             spend no more on requests
  weir throughput /mnt/genomes --budget none

A change holds within a second, and over mounts. Reads count a third in bursting and provisioned
mode, each I/O at least 4 KiB, as EFS meters them. What the kernel answers from its page cache is
not metered. Below a limit the kernel reads no resident file past the daemon; files that are open
that way already stay so until they are closed.";

#[derive(Args, Debug)]
pub(crate) struct ThroughputArgs {
    /// Where the volume is mounted, or its URL if it is served
    pub(crate) dir: PathBuf,
    /// How throughput is set
    #[arg(long, value_enum)]
    pub(crate) mode: Option<ModeName>,
    /// MiB a second to provision
    #[arg(long, value_name = "N", required_if_eq("mode", "provisioned"))]
    pub(crate) mibps: Option<f64>,
    /// For this directory and all below it [default: the whole volume]
    #[arg(long, value_name = "DIR")]
    pub(crate) path: Option<PathBuf>,
    /// For all that this user does, by number [default: the whole volume]
    #[arg(long, value_name = "UID", conflicts_with = "path")]
    pub(crate) user: Option<u32>,
    /// Forget the rule of --path or --user
    #[arg(long, conflicts_with_all = ["mode", "mibps", "rules", "credits"])]
    pub(crate) remove: bool,
    /// EFS's rules of that day, such as 2018-09-01, before floors and thirds [default: today's]
    #[arg(long, value_name = "DATE")]
    pub(crate) rules: Option<Date>,
    /// With --rules: provisioned throughput cannot be lowered or left for 24 h, as on EFS
    #[arg(long, requires = "rules")]
    pub(crate) lock: bool,
    /// Burst credits to go on with
    #[arg(long, value_name = "SIZE")]
    pub(crate) credits: Option<Bytes>,
    /// Let the daemon see every byte, so that the meter is exact: nothing is read past it
    #[arg(long, value_name = "on|off", value_parser = values::on_off)]
    pub(crate) exact_meter: Option<bool>,
    /// Spend no more on requests than this: 5USD/h, or none. Hydration is slowed first, then
    /// reading ahead, then all that has to wait for the bucket
    #[arg(long, value_name = "USD/h", value_parser = values::budget,
          conflicts_with_all = ["path", "user"])]
    pub(crate) budget: Option<NanoUsd>,
    /// Region whose S3 list prices the budget is held against
    #[arg(long, default_value = "us-east-1", value_parser = known::REGION, hide_possible_values = true)]
    pub(crate) region: String,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(super) const BILL_EXAMPLES: &str = "\
Examples:
  weir bill /mnt/genomes                                   since the mount
  weir bill /mnt/genomes --since 2h
  weir bill /mnt/genomes --node                            this node's work, on a shared volume
  weir bill /mnt/genomes --region ap-northeast-2 --instance i4i.8xlarge --disk instance-store
  weir bill /mnt/genomes --prices my-prices.json --json

Requests, bytes and time are counted; prices are list prices, see `weir prices`. What is not
known is said to be unknown and is in no total. Below come the services: what the same bytes and
operations would have cost there, and how long they would have taken.";

#[derive(Args, Debug)]
pub(crate) struct BillArgs {
    /// Where the volume is mounted, or its URL if it is served
    pub(crate) dir: PathBuf,
    /// Of this time only, such as 30m, 2h or 3d; a week at most [default: since the mount]
    #[arg(long, value_name = "TIME", value_parser = values::duration_ms)]
    pub(crate) since: Option<u64>,
    /// What this node did, of a volume that nodes share [default: what all did]
    #[arg(long)]
    pub(crate) node: bool,
    /// Region whose list prices are used
    #[arg(long, default_value = "us-east-1", value_parser = known::REGION, hide_possible_values = true)]
    pub(crate) region: String,
    /// Price book to use instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Instance type of this machine: its price goes on the bill
    #[arg(long, value_name = "TYPE", value_parser = known::MACHINE, hide_possible_values = true)]
    pub(crate) instance: Option<String>,
    /// This machine is not in the bucket's region: what it received left the region and is billed
    #[arg(long)]
    pub(crate) outside: bool,
    /// What the tier's disk is
    #[arg(long, value_enum, default_value = "unknown")]
    pub(crate) disk: DiskName,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Disks by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum DiskName {
    /// The instance's own NVMe, in its price.
    InstanceStore,
    /// An EBS gp3 volume of the tier's size.
    Gp3,
    /// An EBS io2 volume of the tier's size.
    Io2,
    /// Nobody said: its line is unknown.
    Unknown,
}

impl From<DiskName> for weir_cost::DiskKind {
    fn from(name: DiskName) -> Self {
        match name {
            DiskName::InstanceStore => Self::InstanceStore,
            DiskName::Gp3 => Self::Gp3,
            DiskName::Io2 => Self::Io2,
            DiskName::Unknown => Self::Unknown,
        }
    }
}

/// Throughput modes by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ModeName {
    /// Limited by what is stored, with credits for bursts.
    Bursting,
    /// Limited to what is asked for.
    Provisioned,
    /// Not limited.
    Elastic,
}
