//! What is done to a file, and what becomes of it.

/// What is done to a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// Opened, maybe made.
    Open,
    /// Read, or listed.
    Read,
    /// Written.
    Write,
    /// Brought to the disk: a file or a directory.
    Sync,
    /// The same with the whole file system.
    SyncAll,
    /// Given another name.
    Rename,
    /// Cut or extended.
    Truncate,
    /// Freed in part.
    Punch,
    /// Removed.
    Remove,
    /// Asked whether a write to the disk has failed since the last time.
    Ask,
}

/// What becomes of an operation that is not refused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Turn {
    /// It is done.
    Whole,
    /// A write ends half-way, and then the disk is full.
    #[cfg(any(test, feature = "testing"))]
    Short,
    /// A write is done, and what the kernel had of it is lost on its way to the disk.
    #[cfg(any(test, feature = "testing"))]
    Lost,
}
