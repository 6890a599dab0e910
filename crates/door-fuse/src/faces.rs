//! By which numbers the kernel knows a file.
//!
//! The kernel serves all who have an inode open in one way, and cannot be told to serve those who open it from
//! now on in another one. So where a file that it reads by itself (passthrough) is to be served by the daemon
//! from now on, because somebody wants to write it, or because other nodes changed it, it is turned: it gets
//! another number, under which it is another inode to the kernel, with the same `st_ino`. Who has it open goes
//! on as before. An open that comes by an old number is answered with ESTALE, whereupon the kernel looks the
//! name up again, once, and opens what that leads to. Only where nodes share the volume.

use std::collections::HashMap;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use weir_types::Ino;

/// Bits of a number below those that tell faces apart: there are never so many inodes.
const INO_BITS: u32 = 56;
/// Files that are remembered to be turned: some 2 MiB of them.
const TURNED_MAX: usize = 1 << 16;

/// The number by which the kernel knows an inode: that one's, and above it which face of it this is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Known(pub(crate) u64);

impl Known {
    pub(crate) fn new(ino: Ino, face: u8) -> Self {
        Self(ino.0 | u64::from(face) << INO_BITS)
    }

    pub(crate) fn ino(self) -> Ino {
        Ino(self.0 & ((1 << INO_BITS) - 1))
    }

    fn face(self) -> u8 {
        (self.0 >> INO_BITS) as u8
    }
}

/// Those by which files are opened from now on, where that is not the first one.
#[derive(Debug, Default)]
pub(crate) struct Faces {
    turned: Mutex<HashMap<Ino, u8>>,
}

impl Faces {
    /// By which number an inode is to be known.
    pub(crate) fn of(&self, ino: Ino) -> Known {
        Known::new(ino, self.turned.lock().get(&ino).copied().unwrap_or(0))
    }

    /// Has the file opened by another number than `from`, the next one that `is_free`; nothing where it is
    /// already.
    pub(crate) fn turn(&self, from: Known, is_free: impl Fn(Known) -> bool) -> Known {
        let ino = from.ino();
        let mut turned = self.turned.lock();
        let now = Known::new(ino, turned.get(&ino).copied().unwrap_or(0));
        if now != from {
            return now;
        }
        let others = (1..=u8::MAX).map(|more| Known::new(ino, from.face().wrapping_add(more)));
        let next = others.into_iter().find(|known| is_free(*known)).unwrap_or(from);
        if turned.len() >= TURNED_MAX {
            turned.clear();
        }
        turned.insert(ino, next.face());
        next
    }

    /// All that are turned.
    pub(crate) fn all(&self) -> Vec<Known> {
        let turned = self.turned.lock();
        let mut all: Vec<_> = turned.iter().map(|(ino, face)| Known::new(*ino, *face)).collect();
        all.sort_unstable();
        all
    }

    /// Goes on with those of another daemon.
    pub(crate) fn restore(&self, all: impl IntoIterator<Item = Known>) {
        self.turned.lock().extend(all.into_iter().map(|known| (known.ino(), known.face())));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INO: Ino = Ino(7);

    #[test]
    fn a_turned_file_is_another_number_of_the_same_inode() {
        let faces = Faces::default();
        let first = faces.of(INO);
        assert_eq!((first, first.ino()), (Known(7), INO));
        let second = faces.turn(first, |_| true);
        assert_ne!(second, first);
        assert_eq!((second.ino(), faces.of(INO)), (INO, second));
        assert_eq!(faces.of(Ino(8)), Known(8));
        assert_eq!(faces.turn(first, |_| true), second, "somebody else was first");
        let after = Faces::default();
        after.restore(faces.all());
        assert_eq!(after.of(INO), second);
    }

    #[test]
    fn numbers_in_use_are_passed_over_and_come_back() {
        let faces = Faces::default();
        let mut seen = vec![faces.of(INO)];
        for _ in 0..255 {
            let now = faces.of(INO);
            let next = faces.turn(now, |known| !seen.contains(&known));
            assert!(!seen.contains(&next));
            seen.push(next);
        }
        let last = faces.of(INO);
        assert_eq!(faces.turn(last, |_| false), last, "all of them are in use");
        assert_eq!(faces.turn(last, |known| known == seen[3]), seen[3]);
    }
}
