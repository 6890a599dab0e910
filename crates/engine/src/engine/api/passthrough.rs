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

    /// Before a file is opened for reading that may be lent: brings a small file's bytes here, and waits a
    /// second for them at most. What fails is told to whoever reads. As many GETs as reading it costs, and, of
    /// a large file where nodes share the volume, a read of where its bytes are.
    pub fn before_lending<'a>(&'a self, file: &'a OpenFile) -> Boxed<'a, ()> {
        boxed(async {
            self.files.fetch_small(file).await;
            self.files.note_before_lending(file).await;
        })
    }

    /// Whether who was lent a file by this lending has the bytes that an open finds now. Costs nothing.
    pub fn lends(&self, ino: Ino, lending: u64) -> bool {
        self.data.tier.find(ino).is_some_and(|mirror| mirror.lends(lending))
    }

    /// Says that somebody is to open a file that is lent, and for more than reading: it is not lent anew for 5 s.
    pub fn not_lent_for_now(&self, ino: Ino) {
        if let Some(mirror) = self.data.tier.find(ino) {
            mirror.not_lent_for_now();
        }
    }

    /// Says that programs lock the file: it is not lent from now on.
    pub fn is_locked(&self, ino: Ino) {
        if let Some(mirror) = self.data.tier.find(ino) {
            mirror.changed_in_place();
        }
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
