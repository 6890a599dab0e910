//! The command line of actions: what is done to whole trees of files.

use std::path::PathBuf;

use clap::Args;
use weir_types::{Bytes, Restore, RestoreTier};

pub(super) const HYDRATE_EXAMPLES: &str = "\
Examples:
  weir hydrate -r /mnt/genomes/db --wait     bring all of it here, and show how it goes
  weir hydrate /mnt/genomes/nt.*.nsq
  weir hydrate -r /mnt/genomes --max-rate 100MiB
  weir hydrate -r /mnt/genomes/db --spread --wait      each node that shares the volume brings a part
  weir hydrate -r /mnt/genomes/db --everywhere         each brings all, the bucket is asked once
  weir hydrate -r /mnt/genomes/old --restore bulk      have what is in GLACIER restored, and bring it then

It goes on in the background, also after a restart. What somebody reads meanwhile comes first.
`weir actions` shows how far it is, and what is being restored, with its price.";

pub(super) const RELEASE_EXAMPLES: &str = "\
Examples:
  weir release -r /mnt/genomes/db            let go of all bytes that are in the bucket as well
  weir release /mnt/genomes/nt.00.nsq

Files that are changed, open or pinned stay, and are named with the reason; the exit code is then 1.";

pub(super) const ARCHIVE_EXAMPLES: &str = "\
Examples:
  weir archive -r /mnt/genomes/out --wait    write what changed to the bucket now
  weir archive /mnt/genomes/out/report.txt

In a linked directory files become objects again, whatever its --export says. Elsewhere it is what
`weir flush` does, for these files only.";

pub(super) const STATE_EXAMPLES: &str = "\
Examples:
  weir state /mnt/genomes/nt.00.nsq
  weir state -r /mnt/genomes/db
  weir state -r /mnt/genomes --json | jq -r 'select(.released) | .path'

released: some bytes are in the bucket only. archived: the bucket has all of it. dirty: changed
since. pinned: never released. lost: its object went from the bucket. With --json, one object a
line.";

pub(super) const ACTIONS_EXAMPLES: &str = "\
Examples:
  weir actions                               what runs or waits in every volume mounted here
  weir actions /mnt/genomes --all            and what ended of late
  weir actions --json";

pub(super) const CANCEL_EXAMPLES: &str = "\
Examples:
  weir cancel 7
  weir cancel 7 /mnt/genomes                 if several volumes have an action 7

What is done stays done.";

pub(super) const PIN_EXAMPLES: &str = "\
Examples:
  weir pin -r /mnt/genomes/db                keep what is here of these files, whatever is read
  weir pin -r /mnt/genomes/db && weir hydrate -r /mnt/genomes/db --wait

With -r, files that are below now are pinned; later ones are not.";

pub(super) const UNPIN_EXAMPLES: &str = "\
Example:
  weir unpin -r /mnt/genomes/db";

#[derive(Args, Debug)]
pub(crate) struct HydrateArgs {
    #[command(flatten)]
    pub(crate) what: WhatArgs,
    /// Wait until it is done
    #[arg(long)]
    pub(crate) wait: bool,
    /// Bytes a second at most, such as 100MiB; of all nodes together with --spread or --everywhere
    #[arg(long, value_name = "SIZE")]
    pub(crate) max_rate: Option<Bytes>,
    /// Divide it among the nodes that share the volume: they have it from each other then
    #[arg(long)]
    pub(crate) spread: bool,
    /// Have each node that shares the volume bring all of it, from the others where these have it
    #[arg(long, conflicts_with = "spread")]
    pub(crate) everywhere: bool,
    /// Have objects in GLACIER or DEEP_ARCHIVE restored, which is paid for, and bring them then: expedited
    /// (minutes), standard (hours) or bulk (cheapest)
    #[arg(long, value_name = "TIER", conflicts_with_all = ["spread", "everywhere"])]
    pub(crate) restore: Option<RestoreTier>,
    /// Days for which the bucket keeps the restored copies
    #[arg(
        long, value_name = "DAYS", requires = "restore", default_value_t = 1,
        value_parser = clap::value_parser!(u32).range(1..=30_000)
    )]
    pub(crate) restore_days: u32,
}

impl HydrateArgs {
    /// How what is archived is to be restored, if it is.
    pub(crate) fn restored(&self) -> Option<Restore> {
        self.restore.map(|tier| Restore { tier, days: self.restore_days })
    }
}

#[derive(Args, Debug)]
pub(crate) struct ArchiveArgs {
    #[command(flatten)]
    pub(crate) what: WhatArgs,
    /// Wait until it is done
    #[arg(long)]
    pub(crate) wait: bool,
}

pub(super) const DU_EXAMPLES: &str = "\
Examples:
  weir du /mnt/genomes               each directory in it, and how much of it is here
  weir du /mnt/genomes/db --depth 0  the sum only
  weir du /mnt/genomes --json

Sizes are those of the files. No sums are kept, so directories are listed each time, but no file is
looked at through the mount: the daemon is asked for some thousands at once. A file with several names
counts at each of them.";

#[derive(Args, Debug)]
pub(crate) struct DuArgs {
    /// Directories or files, in one or several mounts
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Levels of directories that have rows of their own
    #[arg(short, long, value_name = "N", default_value_t = 1)]
    pub(crate) depth: usize,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// Files, and how to answer.
#[derive(Args, Debug)]
pub(crate) struct WhatArgs {
    /// Files, or with -r directories, in one or several mounts
    #[arg(required = true)]
    pub(crate) paths: Vec<PathBuf>,
    /// Take all files below directories
    #[arg(short, long)]
    pub(crate) recursive: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct ActionsArgs {
    /// Any place in a mount [default: all mounts]
    pub(crate) path: Option<PathBuf>,
    /// Also those that ended
    #[arg(long)]
    pub(crate) all: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct CancelArgs {
    /// Number of the action, as `weir actions` shows it
    pub(crate) id: u64,
    /// Any place in its mount
    pub(crate) path: Option<PathBuf>,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Args, Debug)]
pub(crate) struct LfsArgs {
    /// What Lustre's lfs takes
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) words: Vec<std::ffi::OsString>,
}
