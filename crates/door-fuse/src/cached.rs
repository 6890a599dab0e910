//! What the kernel has cached of files that others change, too: of which epoch its pages are.

use std::collections::HashMap;

use parking_lot::Mutex;
use weir_types::Ino;

/// Files of which that is known: some 8 MiB. Of others the kernel drops what it has at the next open.
const FILES_MAX: usize = 1 << 18;

/// Of which epoch the pages are that the kernel may have of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Known {
    epoch: u64,
    /// They were dropped while somebody may have been writing.
    dropped: bool,
}

/// The epochs of the pages that the kernel may have.
#[derive(Debug, Default)]
pub(crate) struct Cached(Mutex<HashMap<Ino, Known>>);

impl Cached {
    /// Whether the pages that the kernel may have of a file are of this epoch.
    pub(crate) fn is_of(&self, ino: Ino, epoch: u64) -> bool {
        self.0.lock().get(&ino).is_some_and(|known| known.epoch == epoch)
    }

    /// Whether the pages that the kernel may have of a file, which is opened now, are of this epoch. From now
    /// on they are.
    pub(crate) fn is_as_cached(&self, ino: Ino, epoch: u64) -> bool {
        let before = self.0.lock().get(&ino).copied().filter(|known| known.epoch == epoch);
        self.note(ino, before.unwrap_or(Known { epoch, dropped: false }));
        before.is_some()
    }

    /// The kernel dropped the pages of a file that is open: what it has from now on is of this epoch.
    pub(crate) fn dropped(&self, ino: Ino, epoch: u64) {
        self.note(ino, Known { epoch, dropped: true });
    }

    /// The kernel dropped some of the pages of a file, which it may have open, because another door wrote them.
    pub(crate) fn lost_some(&self, ino: Ino) {
        if let Some(known) = self.0.lock().get_mut(&ino) {
            known.dropped = true;
        }
    }

    /// A write through the page cache came here. One that was on its way as the pages were dropped is in none of
    /// them, if somebody read them before it came.
    pub(crate) fn wrote(&self, ino: Ino) {
        let mut known = self.0.lock();
        if known.get(&ino).is_some_and(|known| known.dropped) {
            known.remove(&ino);
        }
    }

    fn note(&self, ino: Ino, now: Known) {
        let mut known = self.0.lock();
        if known.len() >= FILES_MAX {
            known.clear();
        }
        known.insert(ino, now);
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

    #[test]
    fn pages_that_were_dropped_are_not_believed_once_a_write_came() {
        let cached = Cached::default();
        cached.is_as_cached(Ino(7), 1);
        cached.wrote(Ino(7));
        assert!(cached.is_of(Ino(7), 1), "the write is in the pages");
        cached.dropped(Ino(7), 2);
        assert!(cached.is_of(Ino(7), 2) && cached.is_as_cached(Ino(7), 2));
        cached.wrote(Ino(7));
        assert!(!cached.is_of(Ino(7), 2));
        cached.lost_some(Ino(7));
        assert!(!cached.is_of(Ino(7), 2), "nothing is known of it");
        cached.is_as_cached(Ino(7), 2);
        cached.lost_some(Ino(7));
        assert!(cached.is_of(Ino(7), 2), "the others are right");
        cached.wrote(Ino(7));
        assert!(!cached.is_of(Ino(7), 2), "a read that came between may have filled them");
    }
}
