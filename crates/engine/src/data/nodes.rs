//! The inodes in use: who has them open, and who may change their extents.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use weir_types::{ErrorKind, FsError, Ino, Inode, Result};

use super::followed::Followed;
use super::streams::Streams;
use crate::volume::locks::{self, Place};

/// How long removed files gather before they are purged. So long they can still be opened: a kernel
/// that found a name just before it was removed or replaced comes for its inode a moment later.
const GATHER: Duration = Duration::from_millis(20);

/// One inode in use.
#[derive(Debug)]
pub(crate) struct Node {
    pub(crate) ino: Ino,
    /// Held by whoever flushes the file: at most one flush of a file at a time.
    pub(crate) flush: locks::Mutex,
    /// Held while extents change: a flush's commit, a truncation, a hole, a copy.
    pub(crate) change: locks::Mutex,
    /// Held by who imports the names of a lazy link's directory: not [`Node::change`], or a `chmod`
    /// would wait for the bucket.
    pub(crate) listing: locks::Mutex,
    /// Held by an export from the PUT of the file's object to the commit that says so: not
    /// [`Node::change`], or a bucket that is away would keep the file from being opened.
    pub(crate) object: locks::Mutex,
    /// Held while advisory locks of the file change, where nodes share the volume.
    pub(crate) locks: locks::Mutex,
    /// Held by an appending write from the look at the size to the end of the write.
    pub(crate) append: locks::Mutex,
    /// Open files through which it may be written.
    pub(crate) writers: AtomicUsize,
    /// It had bytes and was cut to nothing, and nobody who wrote it has closed it since.
    pub(crate) emptied: AtomicBool,
    /// Parts of it that were sent and wait for their commit. They hold no lock, and what the journal
    /// has of their bytes goes with that commit: an fsync in the journal must not come between.
    pub(crate) sent: AtomicUsize,
    /// How the file is read, by all who have it open: one page cache serves them, so what one of
    /// them asks for is a part of what all of them read.
    pub(crate) streams: Mutex<Streams>,
    /// As it was seen last, where the mount follows a writer elsewhere. Changed under
    /// [`Node::change`].
    followed: Mutex<Option<Arc<Followed>>>,
}

impl Node {
    /// As it was seen last, where somebody else writes it.
    pub(crate) fn followed(&self) -> Option<Arc<Followed>> {
        self.followed.lock().clone()
    }

    /// It is seen so now.
    pub(crate) fn follow(&self, seen: Followed) {
        *self.followed.lock() = Some(Arc::new(seen));
    }
}

#[derive(Debug)]
struct Entry {
    node: Arc<Node>,
    opens: usize,
    /// Unlinked: to be purged when nobody has it open.
    unlinked: bool,
    /// Being purged: it can be opened no more.
    purging: bool,
}

/// All inodes in use, by number.
#[derive(Debug, Default)]
pub(crate) struct Nodes {
    entries: Mutex<HashMap<Ino, Entry>>,
    /// Those being purged of which nothing is done yet.
    to_purge: Mutex<Vec<Ino>>,
    purges: Notify,
}

impl Nodes {
    /// The node of `ino`, for a while.
    pub(crate) fn get(&self, ino: Ino) -> Arc<Node> {
        self.entry(&mut self.entries(), ino).node.clone()
    }

    /// The node of `ino`, open until [`Nodes::close`].
    pub(crate) fn open(&self, ino: Ino) -> Result<Arc<Node>> {
        let mut entries = self.entries();
        let entry = self.entry(&mut entries, ino);
        if entry.purging {
            return Err(FsError::new(ErrorKind::NotFound, format!("inode {ino} is removed")));
        }
        entry.opens += 1;
        Ok(entry.node.clone())
    }

    /// One open less. Answers whether it was the last one, and whether the file must be purged
    /// soon.
    pub(crate) fn close(&self, ino: Ino) -> (bool, bool) {
        let mut entries = self.entries();
        let Some(entry) = entries.get_mut(&ino) else {
            return (true, false);
        };
        entry.opens = entry.opens.saturating_sub(1);
        let last = entry.opens == 0;
        let purge = last && entry.unlinked;
        if last && !purge && Arc::strong_count(&entry.node) == 1 {
            entries.remove(&ino);
        }
        (last, purge)
    }

    /// The last name of `ino` is gone. Answers whether nobody has it open, so that it must be
    /// purged soon.
    pub(crate) fn unlinked(&self, ino: Ino) -> bool {
        let mut entries = self.entries();
        let entry = self.entry(&mut entries, ino);
        entry.unlinked = true;
        entry.opens == 0
    }

    /// A name of `inode` went: if it was the last one, the file goes with its last open.
    pub(crate) fn name_gone(&self, inode: &Inode) {
        let gone = inode.nlink == 0;
        if gone && self.unlinked(inode.ino) {
            self.purge_soon(inode.ino);
        }
    }

    /// Has `ino` purged in the background, unless somebody opens it before.
    pub(crate) fn purge_soon(&self, ino: Ino) {
        self.to_purge.lock().push(ino);
        self.purges.notify_one();
    }

    /// Waits until something is to be purged: what was removed a little while ago and can be opened
    /// no more from now on.
    pub(crate) async fn wait_for_purges(&self) -> Vec<Ino> {
        loop {
            self.purges.notified().await;
            let gathered = std::mem::take(&mut *self.to_purge.lock());
            tokio::time::sleep(GATHER).await;
            let inos = self.begin_purges(gathered);
            if !inos.is_empty() {
                return inos;
            }
        }
    }

    /// Those that nobody has opened since, each once.
    fn begin_purges(&self, mut inos: Vec<Ino>) -> Vec<Ino> {
        let mut entries = self.entries();
        inos.retain(|ino| match entries.get_mut(ino) {
            Some(entry) if entry.opens == 0 && !entry.purging => {
                entry.purging = true;
                true
            }
            // Its last close has it purged; or another one of the two does.
            _ => false,
        });
        inos
    }

    /// The purge of `ino` is done.
    pub(crate) fn purged(&self, ino: Ino) {
        self.entries().remove(&ino);
    }

    /// Whether any removed file that nobody has open is not purged yet: it was removed a moment ago.
    pub(crate) fn any_to_purge(&self) -> bool {
        self.entries().values().any(|entry| entry.unlinked && entry.opens == 0)
    }

    /// Whether `ino` is open.
    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        self.entries().get(&ino).is_some_and(|e| e.opens > 0)
    }

    /// What is followed of `ino`, if it is open.
    pub(crate) fn followed(&self, ino: Ino) -> Option<Arc<Followed>> {
        self.entries().get(&ino).filter(|entry| entry.opens > 0)?.node.followed()
    }

    /// Those that are open and followed.
    pub(crate) fn all_followed(&self) -> Vec<Arc<Node>> {
        let entries = self.entries();
        let open = entries.values().filter(|entry| entry.opens > 0).map(|entry| &entry.node);
        open.filter(|node| node.followed().is_some()).cloned().collect()
    }

    /// Whether somebody has `ino` open for writing.
    pub(crate) fn has_writers(&self, ino: Ino) -> bool {
        self.entries().get(&ino).is_some_and(|e| e.node.writers.load(Ordering::Acquire) > 0)
    }

    /// Forgets nodes that nobody holds.
    pub(crate) fn sweep(&self) {
        self.entries().retain(|_, e| e.opens > 0 || e.unlinked || Arc::strong_count(&e.node) > 1);
    }

    fn entry<'a>(&self, entries: &'a mut HashMap<Ino, Entry>, ino: Ino) -> &'a mut Entry {
        entries.entry(ino).or_insert_with(|| Entry {
            node: Arc::new(Node {
                ino,
                flush: locks::Mutex::new(Place::Flush, ino.0, ()),
                change: locks::Mutex::new(Place::Change, ino.0, ()),
                listing: locks::Mutex::new(Place::Listing, ino.0, ()),
                object: locks::Mutex::new(Place::Object, ino.0, ()),
                locks: locks::Mutex::new(Place::FileLocks, ino.0, ()),
                append: locks::Mutex::new(Place::Append, ino.0, ()),
                writers: AtomicUsize::new(0),
                sent: AtomicUsize::new(0),
                emptied: AtomicBool::new(false),
                streams: Mutex::default(),
                followed: Mutex::default(),
            }),
            opens: 0,
            unlinked: false,
            purging: false,
        })
    }

    fn entries(&self) -> MutexGuard<'_, HashMap<Ino, Entry>> {
        self.entries.lock()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn what_was_just_removed_can_still_be_opened_and_goes_with_its_last_close() {
        let nodes = Nodes::default();
        let (kept, gone) = (Ino(7), Ino(8));
        for ino in [kept, gone] {
            assert!(nodes.unlinked(ino), "nobody has it open");
            nodes.purge_soon(ino);
        }
        drop(nodes.open(kept).expect("it is not purged yet"));
        assert_eq!(nodes.wait_for_purges().await, [gone]);
        assert_eq!(nodes.open(gone).expect_err("it is purged").kind(), ErrorKind::NotFound);
        nodes.purged(gone);
        assert_eq!(nodes.close(kept), (true, true));
        nodes.purge_soon(kept);
        nodes.purge_soon(kept);
        assert_eq!(nodes.wait_for_purges().await, [kept], "once");
        assert!(nodes.open(kept).is_err());
    }
}
