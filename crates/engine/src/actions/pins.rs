//! Pins: files that are never released.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use parking_lot::RwLock;
use weir_tier::Mirror;
use weir_types::{Bytes, ErrorKind, FsError, Ino, Result};

use super::Root;
use super::walk::Walk;
use crate::engine::Core;

/// The pinned files, in memory: who releases asks for each file.
#[derive(Default)]
pub(crate) struct Pins {
    inos: RwLock<HashSet<Ino>>,
    count: AtomicUsize,
}

impl Pins {
    pub(super) fn load(&self, inos: Vec<Ino>) {
        self.change(|all| all.extend(inos));
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

    fn set(&self, inos: &[Ino], pinned: bool) {
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

    fn all(&self) -> Vec<Ino> {
        self.inos.read().iter().copied().collect()
    }
}

impl Core {
    /// Pins the files at or below these roots, or unpins them; answers how many.
    pub(super) async fn set_pins(
        self: &Arc<Self>,
        roots: &[Root],
        recursive: bool,
        pinned: bool,
    ) -> Result<u64> {
        let mut walk = Walk::new(self, roots, recursive);
        let mut files = 0;
        while let Some(found) = walk.next().await? {
            let inos: Vec<_> = found.iter().map(|file| file.ino).collect();
            let done = self.seen(self.meta.set_pins(&inos, pinned).await)?;
            self.actions.pins.set(&done, pinned);
            files += done.len() as u64;
        }
        Ok(files)
    }

    /// A file came in the place of another one: it is pinned if that was.
    pub(crate) async fn pin_as(&self, old: Ino, new: Ino) -> Result<()> {
        if self.actions.pins.has(old) {
            let done = self.seen(self.meta.set_pins(&[new], true).await)?;
            self.actions.pins.set(&done, true);
        }
        Ok(())
    }

    /// Whether release must leave a mirror alone.
    pub(crate) fn is_pinned(&self, mirror: &Mirror) -> bool {
        self.actions.pins.has(mirror.ino())
    }

    /// Room in the tier that pinned files take.
    pub(crate) fn pinned_bytes(&self) -> u64 {
        let mirrors = self.actions.pins.all().into_iter().filter_map(|ino| self.tier.find(ino));
        mirrors.map(|mirror| mirror.local_bytes()).sum()
    }

    /// Fails when pinned files leave no room for `bytes` more, whatever else goes.
    pub(crate) fn check_pins(&self, bytes: u64) -> Result<()> {
        let (pinned, room) = (self.pinned_bytes(), self.tier.limit()?.bytes);
        if pinned == 0 || pinned + bytes <= room {
            return Ok(());
        }
        let text = format!(
            "pinned files take {} of the {} that the tier can have: unpin some with `weir unpin`, \
             or mount with a larger --tier-size, if its disk has that",
            Bytes(pinned),
            Bytes(room)
        );
        Err(FsError::new(ErrorKind::NoSpace, text))
    }
}
