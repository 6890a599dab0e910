//! The command line of what was set aside.

use std::path::PathBuf;

use clap::Args;

pub(super) const RECOVER_EXAMPLES: &str = "\
Examples:
  weir recover /mnt/genomes                                  what is set aside, and how it stands
  weir recover /mnt/genomes --merge                          put back what nobody changed since
  weir recover /mnt/genomes --extract /var/tmp/lost          write all of it out, to look at
  weir recover /mnt/genomes 20261122-134658 --extract /var/tmp/lost
  weir recover /mnt/genomes 20261122-134658 --discard --yes  give one entry up

Data is set aside when it must not be flushed: another machine had the volume since, say. It stays
so, and `weir status` says so, until it is merged or discarded.

unchanged: nobody changed the file since. new: it never reached the volume; a merge makes it again.
changed, removed: it was, since. blocked, unknown: the reason is told. These stay for --extract.

Exit codes: 0 done, 1 it failed, or something is left after --merge.";

#[derive(Args, Debug)]
pub(crate) struct RecoverArgs {
    /// Where it is mounted, or the URL of a volume that is served
    pub(crate) dir: PathBuf,
    /// The entry, as the list names it [default: all]
    pub(crate) label: Option<String>,
    /// Put back into the volume what nobody changed since
    #[arg(long, conflicts_with_all = ["extract", "discard"])]
    pub(crate) merge: bool,
    /// Write the files into this directory: whole where all bytes are known, else with holes
    #[arg(long, value_name = "DIR", conflicts_with = "discard")]
    pub(crate) extract: Option<PathBuf>,
    /// Remove an entry for good
    #[arg(long, requires = "label")]
    pub(crate) discard: bool,
    /// Do not ask
    #[arg(long, requires = "discard")]
    pub(crate) yes: bool,
    /// Answer in JSON
    #[arg(long)]
    pub(crate) json: bool,
}
