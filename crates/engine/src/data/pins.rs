//! Pinned files: they are never released.

use std::collections::HashSet;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use weir_types::Ino;

/// The pinned files, in memory: who releases asks for each file.
#[derive(Default)]
pub(crate) struct Pins {
    inos: RwLock<HashSet<Ino>>,
    count: AtomicUsize,
}

impl Pins {
    pub(crate) fn load(&self, inos: Vec<Ino>) {
        self.change(|all| all.extend(inos));
    }

    /// These are all, as the metadata has them by now.
    pub(crate) fn replace(&self, inos: Vec<Ino>) {
        self.change(|all| *all = inos.into_iter().collect());
    }

    pub(crate) fn has(&self, ino: Ino) -> bool {
        self.count.load(Ordering::Relaxed) > 0 && self.inos.read().contains(&ino)
    }

    /// The files are no more.
    pub(crate) fn forget(&self, inos: &[Ino]) {
        if self.count.load(Ordering::Relaxed) > 0 {
            self.set(inos, false);
        }
    }

    pub(crate) fn set(&self, inos: &[Ino], pinned: bool) {
        self.change(|all| match pinned {
            true => all.extend(inos),
            false => inos.iter().for_each(|ino| _ = all.remove(ino)),
        });
    }

    fn change(&self, change: impl FnOnce(&mut HashSet<Ino>)) {
        let mut all = self.inos.write();
        change(&mut all);
        self.count.store(all.len(), Ordering::Relaxed);
    }

    pub(crate) fn all(&self) -> Vec<Ino> {
        self.inos.read().iter().copied().collect()
    }
}
