//! What a daemon is asked to do.

use crate::cli::{EngineArgs, MountArgs, NbdArgs, NfsArgs, ServeArgs};

/// What a daemon is asked to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// To mount a volume, and serve its files and disks if asked.
    Mount(Box<MountArgs>),
    /// To serve the files or the disks of a volume.
    Serve(Box<ServeArgs>),
}

impl Work {
    pub(crate) fn url(&self) -> &str {
        match self {
            Work::Mount(args) => &args.url,
            Work::Serve(args) => &args.url,
        }
    }

    pub(crate) fn engine(&self) -> &EngineArgs {
        match self {
            Work::Mount(args) => &args.engine,
            Work::Serve(args) => &args.engine,
        }
    }

    pub(super) fn nbd(&self) -> &NbdArgs {
        match self {
            Work::Mount(args) => &args.nbd,
            Work::Serve(args) => &args.nbd,
        }
    }

    /// Whether it waits while another machine serves the volume.
    pub(super) fn stands_by(&self) -> bool {
        matches!(self, Work::Serve(args) if args.standby)
    }

    pub(super) fn nfs(&self) -> &NfsArgs {
        match self {
            Work::Mount(args) => &args.nfs,
            Work::Serve(args) => &args.nfs,
        }
    }
}
