//! The command line of `weir nodes`.

use clap::{Args, Subcommand};

use super::connect::ConnectArgs;

pub(super) const NODES_EXAMPLES: &str = "\
Examples:
  weir nodes s3://my-bucket/genomes             who has it mounted with --shared
  weir nodes s3://my-bucket/genomes --watch     and who of them lives: takes 4 s
  weir nodes /mnt/genomes --json
  weir nodes evict s3://my-bucket/genomes node7

Nodes that share a volume say every 3 s that they live; one that has not done so for 12 s is shut out by
the others. `evict` does that at once, for a machine that is known to be gone. A node that was shut out
changes nothing any more, whatever it believes: it must be mounted anew.";

#[derive(Args, Debug)]
#[command(args_conflicts_with_subcommands = true)]
pub(crate) struct NodesArgs {
    #[command(subcommand)]
    pub(crate) command: Option<NodesCommand>,
    /// The volume, or a directory of a mount
    #[arg(value_name = "URL|DIR")]
    pub(crate) place: Option<String>,
    /// Look twice, and say who lives
    #[arg(long)]
    pub(crate) watch: bool,
    /// Where the metadata's database is reached, if not where `weir format` was told
    #[arg(long, value_name = "URL")]
    pub(crate) meta: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}

#[derive(Subcommand, Debug)]
pub(crate) enum NodesCommand {
    /// Shut a node out at once
    Evict(EvictArgs),
}

#[derive(Args, Debug)]
pub(crate) struct EvictArgs {
    /// The volume, or a directory of a mount
    #[arg(value_name = "URL|DIR")]
    pub(crate) place: String,
    /// The node's machine, or how its id begins
    pub(crate) name: String,
    /// Where the metadata's database is reached, if not where `weir format` was told
    #[arg(long, value_name = "URL")]
    pub(crate) meta: Option<String>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
    #[command(flatten)]
    pub(crate) connect: ConnectArgs,
}
