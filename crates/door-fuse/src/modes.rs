//! How each open inode is served: by the daemon, through the kernel's page cache, or by the kernel
//! alone, from the mirror file (passthrough).
//!
//! The kernel takes one or the other for all open files of an inode and refuses an open that says
//! otherwise, so whoever opens while an inode is open gets the mode it is in. The kernel leaves a
//! mode before it says that a file was closed; what is known here lags behind and never ahead.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use weir_types::{Ino, Result};

/// Inodes of which it is remembered one by one that the kernel's page cache is not to be believed:
/// some 16 MiB of them. Only files that are lent come here, and large ones are.
const STALE_MAX: usize = 1 << 20;

/// The modes of all open inodes. `B` is what the kernel knows a mirror file by.
#[derive(Debug)]
pub(crate) struct Modes<B> {
    table: Mutex<Table<B>>,
}

#[derive(Debug)]
struct Table<B> {
    open: HashMap<Ino, Open<B>>,
    /// Inodes that were in passthrough and that the daemon did not serve since. In passthrough the
    /// kernel does not look at its page cache, but `fadvise` and `readahead` fill it all the same,
    /// with bytes that nobody keeps up to date.
    stale: HashSet<Ino>,
    /// There were too many of them: it may be any inode.
    all_stale: bool,
}

/// What was decided for an inode; inside, the mirror file it is served from. Its lock is held
/// while somebody decides, over disk I/O, and holds up those only who open the same inode.
type Decision<B> = Arc<Mutex<Option<Option<Arc<B>>>>>;

#[derive(Debug)]
struct Open<B> {
    files: usize,
    decision: Decision<B>,
}

impl<B> Table<B> {
    /// The daemon's first opens after passthrough may be answered in any order, and each tells the
    /// kernel to drop its page cache. One that ends is one that the kernel had the answer to.
    fn left(&mut self, ino: Ino, lent: bool, opened: bool) {
        if lent && !self.all_stale {
            self.stale.insert(ino);
            self.all_stale = self.stale.len() > STALE_MAX;
            if self.all_stale {
                self.stale = HashSet::new();
            }
        } else if !lent && opened {
            self.stale.remove(&ino);
        }
    }
}

/// How to serve one open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode<B> {
    /// By the daemon.
    Daemon {
        /// The kernel's page cache of the inode may be believed.
        keep: bool,
    },
    /// From this mirror file.
    Passthrough(Arc<B>),
}

impl<B> Default for Modes<B> {
    fn default() -> Self {
        Self {
            table: Mutex::new(Table {
                open: HashMap::new(),
                stale: HashSet::new(),
                all_stale: false,
            }),
        }
    }
}

impl<B> Modes<B> {
    /// One more open of `ino`; if it is the first one, `lend` decides. An error of that is no open.
    pub(crate) fn enter(
        &self,
        ino: Ino,
        lend: impl FnOnce() -> Result<Option<B>>,
    ) -> Result<Mode<B>> {
        let decision = {
            let mut table = self.table();
            let open = table
                .open
                .entry(ino)
                .or_insert_with(|| Open { files: 0, decision: Decision::default() });
            open.files += 1;
            open.decision.clone()
        };
        let mut decided = lock(&decision);
        let backing = match &mut *decided {
            Some(backing) => backing.clone(),
            open => match lend() {
                Ok(backing) => open.insert(backing.map(Arc::new)).clone(),
                Err(error) => {
                    // Before anybody else decides: what that one lends, only its own end gives back.
                    self.close(ino);
                    return Err(error);
                }
            },
        };
        drop(decided);
        Ok(match backing {
            Some(backing) => Mode::Passthrough(backing),
            None => {
                let table = self.table();
                Mode::Daemon { keep: !table.all_stale && !table.stale.contains(&ino) }
            }
        })
    }

    /// One open less; `opened` says that the kernel had the answer to it. Answers whether it was the
    /// last one in passthrough: what was lent can be taken back.
    pub(crate) fn leave(&self, ino: Ino, opened: bool) -> bool {
        let Some(decision) = self.table().open.get(&ino).map(|open| open.decision.clone()) else {
            return false;
        };
        let lent = matches!(*lock(&decision), Some(Some(_)));
        // Before the next open can be the first one.
        self.table().left(ino, lent, opened);
        self.close(ino).is_some() && lent
    }

    /// Answers what ends with it.
    fn close(&self, ino: Ino) -> Option<Open<B>> {
        let mut table = self.table();
        let open = table.open.get_mut(&ino)?;
        open.files -= 1;
        if open.files > 0 { None } else { table.open.remove(&ino) }
    }

    /// Whether `ino` is open, and so its mode is decided.
    pub(crate) fn is_open(&self, ino: Ino) -> bool {
        self.table().open.contains_key(&ino)
    }

    fn table(&self) -> MutexGuard<'_, Table<B>> {
        lock(&self.table)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock()
}

#[cfg(test)]
mod tests {
    use weir_types::{ErrorKind, FsError};

    use super::*;

    const INO: Ino = Ino(7);

    fn enter(modes: &Modes<u32>, lend: impl FnOnce() -> Option<u32>) -> Mode<u32> {
        modes.enter(INO, || Ok(lend())).expect("enters")
    }

    fn never() -> Option<u32> {
        panic!("the mode is decided already")
    }

    #[test]
    fn the_first_open_decides_for_all_until_the_last_close() {
        let modes = Modes::default();
        assert_eq!(enter(&modes, || Some(1)), Mode::Passthrough(Arc::new(1)));
        assert_eq!(enter(&modes, never), Mode::Passthrough(Arc::new(1)));
        assert!(!modes.leave(INO, true));
        assert_eq!(enter(&modes, never), Mode::Passthrough(Arc::new(1)));
        assert!(!modes.leave(INO, true));
        assert!(modes.is_open(INO));
        assert!(modes.leave(INO, true), "the last one");
        assert!(!modes.is_open(INO));
        assert!(matches!(enter(&modes, || None), Mode::Daemon { .. }));
        assert!(matches!(enter(&modes, never), Mode::Daemon { .. }));
        assert!(!modes.leave(INO, true));
        assert!(!modes.leave(INO, true), "nothing was lent");
        assert_eq!(enter(&modes, || Some(2)), Mode::Passthrough(Arc::new(2)));
    }

    #[test]
    fn a_refused_open_is_none_and_the_next_one_decides() {
        let modes = Modes::default();
        let refused = modes.enter(INO, || Err(FsError::new(ErrorKind::Retry, "no")));
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::Retry);
        assert!(!modes.is_open(INO));
        assert_eq!(enter(&modes, || Some(1)), Mode::Passthrough(Arc::new(1)));
    }

    #[test]
    fn while_one_inode_is_decided_others_are_opened() {
        let modes = Modes::<u32>::default();
        let mode = enter(&modes, || {
            assert!(modes.is_open(INO));
            assert!(modes.enter(Ino(8), || Ok(None)).is_ok());
            Some(1)
        });
        assert_eq!(mode, Mode::Passthrough(Arc::new(1)));
    }

    #[test]
    fn after_passthrough_the_page_cache_is_not_believed_until_the_kernel_dropped_it() {
        let modes = Modes::default();
        let kept = || enter(&modes, || None) == Mode::Daemon { keep: true };
        assert!(kept(), "it was never in passthrough");
        modes.leave(INO, true);
        enter(&modes, || Some(1));
        modes.leave(INO, true);
        assert!(!kept());
        assert!(!kept(), "the kernel may take the second answer first");
        modes.leave(INO, false);
        assert!(!kept(), "it never had an answer to the one that ended");
        modes.leave(INO, true);
        assert!(kept());
    }
}
