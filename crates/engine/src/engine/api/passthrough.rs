//! Files in the kernel's hands.

use weir_types::{Ino, Result};

use crate::engine::Engine;
use crate::names::files::OpenFile;
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// Whether programs may store into the file past the daemon, and so change its times. Cheap.
    pub fn may_be_stored(&self, ino: Ino) -> bool {
        self.data.mirrors.may_be_stored(ino)
    }

    /// Brings a small file's bytes here before it is opened for reading, and waits a second for
    /// them at most. What fails is told to whoever reads. As many GETs as reading it costs.
    pub fn fetch_small<'a>(&'a self, file: &'a OpenFile) -> Boxed<'a, ()> {
        boxed(self.files.fetch_small(file))
    }

    /// Whether a read or write of the file may have to wait for a limit or the budget.
    pub fn may_be_held_back(&self, file: &OpenFile) -> bool {
        self.files.may_be_held_back(file)
    }

    /// One more open file through which what is lent may be mapped for writing.
    pub fn passthrough_writable<'a>(&'a self, file: &'a OpenFile) -> Boxed<'a, Result<()>> {
        boxed(self.files.passthrough_writable(file))
    }

    /// Ends what [`Engine::passthrough_writable`] began. What was stored is dirty now, or will be when the
    /// last mapping goes.
    pub fn end_passthrough_writable<'a>(&'a self, file: &'a OpenFile) -> Boxed<'a, Result<()>> {
        boxed(self.files.end_passthrough_writable(file))
    }
}
