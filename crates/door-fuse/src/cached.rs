//! What the kernel has cached of files that other nodes change, too: of which epoch its pages are.

use std::collections::HashMap;

use parking_lot::Mutex;
use weir_types::Ino;

/// Files of which that is known: some 8 MiB. Of others the kernel drops what it has at the next open.
const FILES_MAX: usize = 1 << 18;

/// The epochs of the pages that the kernel may have.
#[derive(Debug, Default)]
pub(crate) struct Cached(Mutex<HashMap<Ino, u64>>);

impl Cached {
    /// Whether the pages that the kernel may have of a file are of this epoch.
    pub(crate) fn is_of(&self, ino: Ino, epoch: u64) -> bool {
        self.0.lock().get(&ino) == Some(&epoch)
    }

    /// Whether the pages that the kernel may have of a file, which is opened now, are of this epoch. From now
    /// on they are.
    pub(crate) fn is_as_cached(&self, ino: Ino, epoch: u64) -> bool {
        let mut known = self.0.lock();
        if known.len() >= FILES_MAX {
            known.clear();
        }
        known.insert(ino, epoch) == Some(epoch)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_are_kept_as_long_as_nobody_else_changes_the_file() {
        let cached = Cached::default();
        assert!(!cached.is_as_cached(Ino(7), 1), "the kernel may have them from before");
        assert!(cached.is_as_cached(Ino(7), 1));
        assert!(!cached.is_as_cached(Ino(7), 2));
        assert!(!cached.is_as_cached(Ino(8), 2));
        assert!(cached.is_as_cached(Ino(7), 2));
    }
}
