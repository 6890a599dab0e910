//! Where the bytes of lent files are, as far as that is remembered.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock, Weak};

use parking_lot::Mutex;
use weir_types::Ino;

use crate::data::followed::Followed;
use crate::data::upward::StoredBytes;

/// Large files of which it is remembered where their bytes are: of 4 GiB each that may be 25 MB. When there
/// would be more all are forgotten, and a change of one parts it.
const KNOWN_MAX: usize = 64;

/// What is known of lent files.
#[derive(Default)]
pub(super) struct LentFiles {
    pub(super) stored: OnceLock<Weak<dyn StoredBytes>>,
    /// Where the bytes of large ones are, as of the generation that was lent.
    known: Mutex<HashMap<Ino, Arc<Followed>>>,
}

impl LentFiles {
    pub(super) fn known(&self, ino: Ino, generation: u64) -> Option<Arc<Followed>> {
        let known = self.known.lock();
        known.get(&ino).filter(|known| known.inode.data.generation == generation).cloned()
    }

    pub(super) fn note(&self, known: Followed) {
        let mut all = self.known.lock();
        if all.len() >= KNOWN_MAX {
            all.clear();
        }
        all.insert(known.inode.ino, Arc::new(known));
    }
}
