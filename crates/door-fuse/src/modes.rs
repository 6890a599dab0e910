//! How each open inode is served: by the daemon, through the kernel's page cache, or by the kernel
//! alone, from the mirror file (passthrough).
//!
//! The kernel takes one or the other for all open files of an inode and refuses an open that says
//! otherwise, so whoever opens while an inode is open gets the mode it is in. The kernel leaves a
//! mode before it says that a file was closed; what is known here lags behind and never ahead.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use weir_types::Result;

use crate::faces::Known;

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
    open: HashMap<Known, Open<B>>,
    /// Inodes that were in passthrough and that the daemon did not serve since. In passthrough the
    /// kernel does not look at its page cache, but `fadvise` and `readahead` fill it all the same,
    /// with bytes that nobody keeps up to date. It is dropped before the daemon's first open has an
    /// answer: nobody writes then, see `open_reply` on why that matters.
    stale: HashSet<Known>,
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
    fn left_passthrough(&mut self, ino: Known) {
        if !self.all_stale {
            self.stale.insert(ino);
            self.all_stale = self.stale.len() > STALE_MAX;
            if self.all_stale {
                self.stale = HashSet::new();
            }
        }
    }

    fn is_stale(&self, ino: Known) -> bool {
        self.all_stale || self.stale.contains(&ino)
    }
}

/// How to serve one open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Mode<B> {
    /// By the daemon; what the kernel's page cache has of it is right.
    Daemon,
    /// From this mirror file.
    Passthrough(Arc<B>),
    /// Not by this number: what it is served from is not what this open is for. It is not open.
    Elsewhere,
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
    /// One more open of `ino`; if it is the first one, `lend` decides, and `drop_pages` empties the
    /// kernel's page cache of it where that is not to be believed. An error of either is no open. What was
    /// lent to an earlier open must `suit` this one.
    pub(crate) fn enter(
        &self,
        ino: Known,
        suits: impl FnOnce(&B) -> bool,
        lend: impl FnOnce() -> Result<Option<B>>,
        drop_pages: impl FnOnce() -> Result<()>,
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
            Some(Some(backing)) if !suits(backing) => {
                self.close(ino);
                return Ok(Mode::Elsewhere);
            }
            Some(backing) => backing.clone(),
            open => match self.decide(ino, lend, drop_pages) {
                Ok(backing) => open.insert(backing.map(Arc::new)).clone(),
                Err(error) => {
                    // Before anybody else decides: what that one lends, only its own end gives back.
                    self.close(ino);
                    return Err(error);
                }
            },
        };
        Ok(backing.map_or(Mode::Daemon, Mode::Passthrough))
    }

    fn decide(
        &self,
        ino: Known,
        lend: impl FnOnce() -> Result<Option<B>>,
        drop_pages: impl FnOnce() -> Result<()>,
    ) -> Result<Option<B>> {
        let backing = lend()?;
        if backing.is_none() && self.table().is_stale(ino) {
            drop_pages()?;
            self.table().stale.remove(&ino);
        }
        Ok(backing)
    }

    /// One open less. Answers what was lent, if it was the last one in passthrough: it can be taken back.
    pub(crate) fn leave(&self, ino: Known) -> Option<Arc<B>> {
        let lent = self.lent(ino);
        if lent.is_some() {
            // Before the next open can be the first one.
            self.table().left_passthrough(ino);
        }
        self.close(ino).and(lent)
    }

    /// What all who have `ino` open are served from, if the kernel does that.
    pub(crate) fn lent(&self, ino: Known) -> Option<Arc<B>> {
        let decision = self.table().open.get(&ino).map(|open| open.decision.clone())?;
        lock(&decision).clone().flatten()
    }

    /// The kernel's page cache of `ino` is not to be believed, should the daemon serve it.
    pub(crate) fn doubt_pages(&self, ino: Known) {
        self.table().left_passthrough(ino);
    }

    /// Answers what ends with it.
    fn close(&self, ino: Known) -> Option<Open<B>> {
        let mut table = self.table();
        let open = table.open.get_mut(&ino)?;
        open.files -= 1;
        if open.files > 0 { None } else { table.open.remove(&ino) }
    }

    /// All open inodes, each with how many files it has open and what it is served from.
    pub(crate) fn all(&self) -> Vec<(Known, usize, Option<Arc<B>>)> {
        let table = self.table();
        let all = table.open.iter().map(|(ino, open)| (*ino, open.files, open.decision.clone()));
        let all: Vec<_> = all.collect();
        drop(table);
        all.into_iter().map(|(ino, files, of)| (ino, files, lock(&of).clone().flatten())).collect()
    }

    /// Inodes of which the kernel's page cache is not to be believed; `None` if it may be any.
    pub(crate) fn stale(&self) -> Option<Vec<Known>> {
        let table = self.table();
        (!table.all_stale).then(|| table.stale.iter().copied().collect())
    }

    /// Goes on with what another decided.
    pub(crate) fn restore(
        &self,
        all: impl Iterator<Item = (Known, usize, Option<B>)>,
        stale: Option<Vec<Known>>,
    ) {
        let mut table = self.table();
        for (ino, files, backing) in all {
            let decision = Arc::new(Mutex::new(Some(backing.map(Arc::new))));
            table.open.insert(ino, Open { files, decision });
        }
        table.all_stale = stale.is_none();
        table.stale = stale.unwrap_or_default().into_iter().collect();
    }

    /// Whether `ino` is open, and so its mode is decided.
    pub(crate) fn is_open(&self, ino: Known) -> bool {
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
    use std::cell::Cell;

    use weir_types::{ErrorKind, FsError};

    use super::*;

    const INO: Known = Known(7);

    fn enter(modes: &Modes<u32>, lend: impl FnOnce() -> Option<u32>) -> Mode<u32> {
        modes.enter(INO, |_| true, || Ok(lend()), || Ok(())).expect("enters")
    }

    fn refusal() -> FsError {
        FsError::new(ErrorKind::Retry, "no")
    }

    fn never() -> Option<u32> {
        panic!("the mode is decided already")
    }

    #[test]
    fn the_first_open_decides_for_all_until_the_last_close() {
        let modes = Modes::default();
        assert_eq!(enter(&modes, || Some(1)), Mode::Passthrough(Arc::new(1)));
        assert_eq!(enter(&modes, never), Mode::Passthrough(Arc::new(1)));
        assert!(modes.leave(INO).is_none());
        assert_eq!(enter(&modes, never), Mode::Passthrough(Arc::new(1)));
        assert!(modes.leave(INO).is_none());
        assert!(modes.is_open(INO));
        assert!(modes.leave(INO).is_some(), "the last one");
        assert!(!modes.is_open(INO));
        assert!(matches!(enter(&modes, || None), Mode::Daemon));
        assert!(matches!(enter(&modes, never), Mode::Daemon));
        assert!(modes.leave(INO).is_none());
        assert!(modes.leave(INO).is_none(), "nothing was lent");
        assert_eq!(enter(&modes, || Some(2)), Mode::Passthrough(Arc::new(2)));
    }

    #[test]
    fn what_does_not_suit_an_open_is_not_opened() {
        let modes = Modes::default();
        enter(&modes, || Some(1));
        let refused = modes.enter(INO, |lent| *lent == 2, || Ok(never()), || Ok(()));
        assert_eq!(refused.expect("answers"), Mode::Elsewhere);
        assert_eq!(modes.lent(INO), Some(Arc::new(1)));
        assert_eq!(modes.leave(INO), Some(Arc::new(1)), "it is open once");
        assert_eq!((modes.lent(INO), modes.leave(INO)), (None, None));
    }

    #[test]
    fn a_refused_open_is_none_and_the_next_one_decides() {
        let modes = Modes::default();
        let refused = modes.enter(INO, |_| true, || Err(refusal()), || Ok(()));
        assert_eq!(refused.expect_err("refused").kind(), ErrorKind::Retry);
        assert!(!modes.is_open(INO));
        assert_eq!(enter(&modes, || Some(1)), Mode::Passthrough(Arc::new(1)));
    }

    #[test]
    fn whoever_goes_on_serves_each_as_before_until_its_last_close() {
        let before = Modes::default();
        enter(&before, || Some(1));
        enter(&before, never);
        before.enter(Known(8), |_| true, || Ok(None), || Ok(())).expect("enters");
        let all = before.all().into_iter();
        let after = Modes::default();
        after.restore(all.map(|(ino, files, of)| (ino, files, of.map(|of| *of))), before.stale());
        assert_eq!(enter(&after, never), Mode::Passthrough(Arc::new(1)));
        let beside = after.enter(Known(8), |_| true, || panic!("it is decided"), || Ok(()));
        assert_eq!(beside.expect("enters"), Mode::Daemon);
        assert!(after.leave(INO).is_none());
        assert!(after.leave(INO).is_none());
        assert!(after.leave(INO).is_some(), "the last one, of three");
        let drops = Cell::new(0);
        let served = |modes: &Modes<u32>| {
            let drop_pages = || {
                drops.set(drops.get() + 1);
                Ok(())
            };
            modes.enter(INO, |_| true, || Ok(None), drop_pages).expect("enters");
            modes.leave(INO);
        };
        let last = Modes::default();
        last.restore(std::iter::empty(), after.stale());
        served(&last);
        assert_eq!(drops.get(), 1, "it was in passthrough before");
        let any = Modes::default();
        any.restore(std::iter::empty(), None);
        served(&any);
        assert_eq!((drops.get(), any.stale()), (2, None));
    }

    #[test]
    fn while_one_inode_is_decided_others_are_opened() {
        let modes = Modes::<u32>::default();
        let mode = enter(&modes, || {
            assert!(modes.is_open(INO));
            assert!(modes.enter(Known(8), |_| true, || Ok(None), || Ok(())).is_ok());
            Some(1)
        });
        assert_eq!(mode, Mode::Passthrough(Arc::new(1)));
    }

    #[test]
    fn after_passthrough_the_page_cache_is_dropped_before_anybody_has_the_file_open() {
        let modes = Modes::default();
        let drops = Cell::new(0);
        let served = |lent: Option<u32>, dropped: Result<()>| {
            let drop_pages = || {
                drops.set(drops.get() + 1);
                dropped
            };
            modes.enter(INO, |_| true, || Ok(lent), drop_pages)
        };
        served(None, Ok(())).expect("opens");
        assert_eq!(drops.get(), 0, "it was never in passthrough");
        modes.leave(INO);
        served(Some(1), Ok(())).expect("opens");
        modes.leave(INO);
        served(Some(1), Ok(())).expect("opens");
        assert_eq!(drops.get(), 0, "in passthrough the kernel does not look at it");
        modes.leave(INO);
        served(None, Err(refusal())).expect_err("the kernel did not");
        assert!(!modes.is_open(INO));
        served(None, Ok(())).expect("opens");
        assert_eq!(drops.get(), 2, "it is tried again");
        served(None, Ok(())).expect("opens");
        modes.leave(INO);
        modes.leave(INO);
        served(None, Ok(())).expect("opens");
        assert_eq!(drops.get(), 2, "it was dropped, and the daemon served it since");
    }
}
