//! What is known of who else has a mirror file open or mapped.

/// What others have of a mirror file.
#[derive(Debug, Default)]
pub(crate) struct PassthroughUse {
    /// Times that it was given to the kernel and not taken back.
    pub(super) opens: usize,
    /// Of the open files, those through which it may be mapped for writing.
    pub(super) writers: usize,
    /// Somebody may have it mapped, or open.
    pub(crate) active: bool,
    /// A program of a mount before this one may.
    pub(crate) active_before: bool,
    /// Somebody may have it mapped for writing; the log knows.
    pub(crate) writable: bool,
    /// Somebody stored into it since all of it was last marked dirty.
    pub(super) stored: bool,
    /// Our own changes set the mtime back, maybe over a store.
    pub(super) hidden: bool,
    /// `Mirror::scan_mapped_writes` set it back. The kernel moves the mtime a moment before it makes a
    /// page writable, so a store may have come after that and left no trace.
    pub(super) caught: bool,
}
