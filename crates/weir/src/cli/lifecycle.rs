//! The command line of storage classes.

use std::path::PathBuf;

use clap::{Args, Subcommand};

use super::known;

pub(super) const LIFECYCLE_EXAMPLES: &str = "\
Examples:
  weir lifecycle set /mnt/genomes 'cold after 30d: STANDARD_IA; after 180d: GLACIER_IR'
  weir lifecycle set /mnt/genomes/raw 'cold after 7d: GLACIER_IR' --dry-run   what it would move, and the price
  weir lifecycle set /mnt/genomes/ref never                                   this directory stays warm
  weir lifecycle set /mnt/genomes 'cold after 30d: STANDARD_IA; back when read' --yes
  weir lifecycle show /mnt/genomes            rules, what is in which class, how far the pass is
  weir lifecycle run /mnt/genomes --wait      a pass now; there is one a day
  weir lifecycle remove /mnt/genomes/raw
  weir lifecycle set /mnt/genomes/lake 'cold after 90d: GLACIER_IR'           objects of a link, in their own bucket

What nobody read from the bucket for so many days moves, in place and by the store: no byte passes this machine, and files are
read as before, at the class's price. What is read out of the tier costs nothing there, and may be cold in the bucket. The
rule of the nearest directory above a file holds; classes are STANDARD_IA, ONEZONE_IA and GLACIER_IR. Objects of a link move by
rules of its directory, or of those in it, and only where the link exports.";

/// What moves into cheaper storage classes.
#[derive(Args, Debug)]
pub(crate) struct LifecycleArgs {
    #[command(subcommand)]
    pub(crate) command: LifecycleCommand,
}

#[derive(Subcommand, Debug)]
pub(crate) enum LifecycleCommand {
    /// Give a directory, and all below it, a rule; says the price first
    Set(LifecycleSetArgs),
    /// Show the rules, what is in which class, and how far the pass is
    Show {
        /// Where the volume is mounted, or its URL if it is served
        #[arg(value_name = "DIR|URL")]
        place: PathBuf,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Take a directory's rule away; what has moved stays where it is
    Remove {
        #[command(flatten)]
        of: LifecycleOfArgs,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
    /// Move now what is due
    Run {
        /// Where the volume is mounted, or its URL if it is served
        #[arg(value_name = "DIR|URL")]
        place: PathBuf,
        /// Wait until all was looked at
        #[arg(long)]
        wait: bool,
        /// Answer in JSON
        #[arg(long)]
        json: bool,
    },
}

/// Which directory.
#[derive(Args, Debug)]
pub(crate) struct LifecycleOfArgs {
    /// The directory; with --path, where the volume is mounted, or its URL if it is served
    #[arg(value_name = "DIR|URL")]
    pub(crate) place: PathBuf,
    /// The directory, below the volume's root
    #[arg(long, value_name = "PATH")]
    pub(crate) path: Option<String>,
}

#[derive(Args, Debug)]
pub(crate) struct LifecycleSetArgs {
    #[command(flatten)]
    pub(crate) of: LifecycleOfArgs,
    /// From when on it is in which class: 'cold after 30d: STANDARD_IA; after 180d: GLACIER_IR', or never
    #[arg(value_name = "RULE")]
    pub(crate) rule: String,
    /// Only say what it would move, and the price
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Do not ask
    #[arg(long)]
    pub(crate) yes: bool,
    /// With the list prices of this region
    #[arg(long, default_value = "us-east-1", value_parser = known::REGION, hide_possible_values = true)]
    pub(crate) region: String,
    /// A price book to use instead of the built-in one
    #[arg(long, value_name = "FILE")]
    pub(crate) prices: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}
