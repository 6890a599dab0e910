//! What the kernel's handle numbers stand for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::RwLock;
use weir_engine::OpenFile;
use weir_fuse::Errno;
use weir_types::Ino;

use crate::faces::Known;
use crate::listings::Copy;
use crate::pages::Use;

/// A table of open things, by the number that the kernel knows each by. Numbers are never used
/// twice, so a stale one finds nothing.
#[derive(Debug)]
pub(crate) struct Handles<T> {
    last: AtomicU64,
    open: RwLock<HashMap<u64, Arc<T>>>,
}

impl<T> Default for Handles<T> {
    fn default() -> Self {
        Self { last: AtomicU64::new(0), open: RwLock::default() }
    }
}

impl<T> Handles<T> {
    /// Gives `thing` a number.
    pub(crate) fn add(&self, thing: T) -> u64 {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut open = self.open.write();
        open.insert(number, Arc::new(thing));
        number
    }

    /// The last number that was given, and all that is open.
    pub(crate) fn all(&self) -> (u64, Vec<(u64, Arc<T>)>) {
        let open = self.open.read();
        let mut all: Vec<_> = open.iter().map(|(number, thing)| (*number, thing.clone())).collect();
        all.sort_unstable_by_key(|(number, _)| *number);
        (self.last.load(Ordering::Relaxed), all)
    }

    /// Gives `thing` the number by which the kernel knows it already.
    pub(crate) fn put(&self, handle: u64, thing: T) {
        self.open.write().insert(handle, Arc::new(thing));
    }

    /// Numbers up to this one were given by whoever served the mount before.
    pub(crate) fn go_on_after(&self, last: u64) {
        self.last.fetch_max(last, Ordering::Relaxed);
    }

    /// What `handle` stands for; EBADF if nothing.
    pub(crate) fn get(&self, handle: u64) -> Result<Arc<T>, Errno> {
        let open = self.open.read();
        open.get(&handle).cloned().ok_or(Errno(libc::EBADF))
    }

    /// Forgets `handle`; EBADF if it stands for nothing.
    pub(crate) fn remove(&self, handle: u64) -> Result<Arc<T>, Errno> {
        let mut open = self.open.write();
        open.remove(&handle).ok_or(Errno(libc::EBADF))
    }
}

/// An open file as the kernel holds it.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) open: Arc<OpenFile>,
    /// By which number the kernel has it open.
    pub(crate) known: Known,
    /// Reads and writes pass the page cache by.
    pub(crate) direct: bool,
    pub(crate) pages: Use,
    /// The kernel may map the mirror file for writing.
    pub(crate) maps_writable: bool,
    /// `DoorState::privileges_given` when the file was last seen without set-uid and set-gid.
    pub(crate) plain_since: AtomicU64,
    /// `DoorState::capabilities_given` when the file was last seen without capabilities.
    pub(crate) bare_since: AtomicU64,
}

/// An open directory.
#[derive(Debug)]
pub(crate) struct Dir {
    pub(crate) ino: Ino,
    pub(crate) copy: Copy,
    /// It was read to its end.
    pub(crate) ended: AtomicBool,
}

impl Dir {
    pub(crate) fn new(ino: Ino, copy: Copy) -> Self {
        Self { ino, copy, ended: AtomicBool::new(false) }
    }
}

/// What an open comes to: its number, and how the kernel is to treat it.
pub(crate) type Opened = (u64, u32);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_closed_number_finds_nothing_and_is_not_used_again() {
        let handles = Handles::default();
        let first = handles.add("first");
        assert_eq!(*handles.get(first).unwrap(), "first");
        assert_eq!(*handles.remove(first).unwrap(), "first");
        let second = handles.add("second");
        assert_ne!(first, second);
        assert_eq!(handles.get(first).unwrap_err(), Errno(libc::EBADF));
        assert_eq!(handles.remove(first).unwrap_err(), Errno(libc::EBADF));
    }

    #[test]
    fn numbers_of_before_stand_for_the_same_and_are_not_given_again() {
        let before = Handles::default();
        let (kept, closed) = (before.add("kept"), before.add("closed"));
        before.remove(closed).unwrap();
        let (last, all) = before.all();
        let after = Handles::default();
        for (number, thing) in all {
            after.put(number, *thing);
        }
        after.go_on_after(last);
        assert_eq!(*after.get(kept).unwrap(), "kept");
        assert_eq!(after.get(closed).unwrap_err(), Errno(libc::EBADF));
        assert!(after.add("new") > closed);
    }
}
