//! What a daemon is asked to do.

use crate::cli::{EngineArgs, MountArgs, NbdArgs, NfsArgs, ServeArgs};

/// What a daemon is asked to do.
#[derive(Debug)]
pub(crate) enum Work {
    /// To mount a volume, and serve its disks if asked.
    Mount(Box<MountArgs>),
    /// To serve the disks of a volume.
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

    /// How it is served by NFS; never with a mount.
    pub(super) fn nfs(&self) -> Option<&NfsArgs> {
        match self {
            Work::Mount(_) => None,
            Work::Serve(args) => Some(&args.nfs),
        }
    }
}
