//! What the kernel's handle numbers stand for.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fuser::{Errno, FileHandle};
use parking_lot::RwLock;

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
    pub(crate) fn add(&self, thing: T) -> FileHandle {
        let number = self.last.fetch_add(1, Ordering::Relaxed) + 1;
        let mut open = self.open.write();
        open.insert(number, Arc::new(thing));
        FileHandle(number)
    }

    /// What `handle` stands for; EBADF if nothing.
    pub(crate) fn get(&self, handle: FileHandle) -> Result<Arc<T>, Errno> {
        let open = self.open.read();
        open.get(&handle.0).cloned().ok_or(Errno::EBADF)
    }

    /// Forgets `handle`; EBADF if it stands for nothing.
    pub(crate) fn remove(&self, handle: FileHandle) -> Result<Arc<T>, Errno> {
        let mut open = self.open.write();
        open.remove(&handle.0).ok_or(Errno::EBADF)
    }
}

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
        assert_eq!(handles.get(first).unwrap_err(), Errno::EBADF);
        assert_eq!(handles.remove(first).unwrap_err(), Errno::EBADF);
    }
}
