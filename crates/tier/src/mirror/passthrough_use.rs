//! What is known of who else has a mirror file open or mapped.

use std::fs::File;

use serde::{Deserialize, Serialize};
use weir_types::Ino;

/// A mirror file that others have open or mapped, as a daemon that goes on in the place of another
/// must know it. What the log says of it is not enough: they go on to have it, and the same one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct InPassthrough {
    /// The file.
    pub ino: Ino,
    /// Times that it was given to the kernel and not taken back.
    pub opens: usize,
    /// Open files through which it may be mapped for writing.
    pub writers: usize,
    /// Somebody may have it mapped for writing.
    pub writable: bool,
    /// Which lending of the file it is; see [`Lent`].
    #[serde(default, skip_serializing_if = "is_first")]
    pub lending: u64,
}

fn is_first(lending: &u64) -> bool {
    *lending == 0
}

/// A mirror file that is lent.
#[derive(Debug)]
pub struct Lent {
    /// The mirror file, for reading.
    pub file: File,
    /// Which lending it is. There is another one where the mirror was parted from those who had it: they keep
    /// the file of before, and the mirror has one of its own again.
    pub lending: u64,
}

/// What others have of a mirror file.
#[derive(Debug, Default)]
pub(crate) struct PassthroughUse {
    /// Which lending it is.
    pub(super) lending: u64,
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

impl PassthroughUse {
    /// Nobody has the mirror file any more: who had it keeps another one.
    pub(crate) fn parted(&self) -> Self {
        Self { lending: self.lending + 1, ..Self::default() }
    }
}
