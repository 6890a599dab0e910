//! The locks that are held while something is awaited, and the one order in which they may be taken.
//!
//! Each has a [`Place`]: whoever holds one takes only locks that come later, and of locks with the
//! same place (those of several files) only such with a greater key. Debug builds check that at each
//! lock that waits, in the task that takes it; futures that one task runs side by side are told apart
//! by [`apart`]. Taking a lock without waiting (`try_…`) is always allowed: nobody waits for another
//! there.
//!
//! All other locks of the engine are leaves: held for a few lines, never while something is awaited.

use std::ops::{Deref, DerefMut};
use std::sync::Arc;

use tokio::sync::TryLockError;

/// What a lock guards, in the order in which they may be taken: the outermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// The tasks of a mount: their start, and their end.
    Tasks,
    /// One survey, for all who ask meanwhile.
    Survey,
    /// What is set aside: one merge, extraction or removal at a time.
    Quarantine,
    /// Which snapshots there are.
    Snapshots,
    /// The end of an action.
    ActionEnd,
    /// The number of the next action.
    ActionNumber,
    /// One who sets a quota, or removes one.
    QuotaSetting,
    /// A disk is opened, or given up to other nodes.
    DiskOpen,
    /// One pass of exports of a link. Key: the link.
    LinkExport,
    /// One import of a link. Key: the link.
    LinkImport,
    /// First listings of a link's directories; alone, the end of the link. Key: the link.
    LinkListings,
    /// One who asks a link's server what it can do. Key: the link.
    LinkProbe,
    /// One who empties the log.
    LogEmptying,
    /// Shared by those who note data in the journal; alone, that there is none.
    JournalData,
    /// Bytes of a disk's records as they are; alone, their replacement. Key: the record's lock.
    DiskRecord,
    /// One first listing of a directory. Key: the inode.
    Listing,
    /// The advisory locks of a file, where nodes share the volume. Key: the inode.
    FileLocks,
    /// The end of a file, between the look at its size and the append. Key: the inode.
    Append,
    /// One who gathers those that want single files flushed.
    FlushLead,
    /// One flush of a file. Key: the inode.
    Flush,
    /// One export of a file, from the PUT of its object to the commit that says so. Key: the inode.
    Object,
    /// One who tries the commits that wait.
    CommitTurn,
    /// A file's extents: a flush's commit, a truncation, a hole, a copy. Key: the inode.
    Change,
    /// One who takes times of reads to the metadata.
    Atimes,
    /// The next turn of a hydration.
    HydrateTurn,
    /// What this node holds of files without a name.
    Holds,
}

/// A mutex with a place in the order.
#[derive(Debug)]
pub(crate) struct Mutex<T = ()> {
    at: At,
    inner: Arc<tokio::sync::Mutex<T>>,
}

/// A lock that many share or one has, with a place in the order.
#[derive(Debug)]
pub(crate) struct RwLock<T = ()> {
    at: At,
    inner: Arc<tokio::sync::RwLock<T>>,
}

/// A lock's place and key.
type At = (Place, u64);

/// A lock that is held.
#[derive(Debug)]
pub(crate) struct Guard<G> {
    guard: G,
    _held: Held,
}

pub(crate) type OwnedMutexGuard<T = ()> = Guard<tokio::sync::OwnedMutexGuard<T>>;
pub(crate) type OwnedReadGuard<T = ()> = Guard<tokio::sync::OwnedRwLockReadGuard<T>>;
pub(crate) type OwnedWriteGuard<T = ()> = Guard<tokio::sync::OwnedRwLockWriteGuard<T>>;

impl<T> Mutex<T> {
    pub(crate) fn new(place: Place, key: u64, value: T) -> Self {
        Self { at: (place, key), inner: Arc::new(tokio::sync::Mutex::new(value)) }
    }

    pub(crate) async fn lock(&self) -> Guard<tokio::sync::MutexGuard<'_, T>> {
        check(self.at);
        let guard = self.inner.lock().await;
        Guard { guard, _held: Held::new(self.at) }
    }

    pub(crate) fn try_lock(&self) -> Result<Guard<tokio::sync::MutexGuard<'_, T>>, TryLockError> {
        let guard = self.inner.try_lock()?;
        Ok(Guard { guard, _held: Held::new(self.at) })
    }

    pub(crate) async fn lock_owned(&self) -> OwnedMutexGuard<T> {
        check(self.at);
        let guard = self.inner.clone().lock_owned().await;
        Guard { guard, _held: Held::new(self.at) }
    }

    pub(crate) fn try_lock_owned(&self) -> Result<OwnedMutexGuard<T>, TryLockError> {
        let guard = self.inner.clone().try_lock_owned()?;
        Ok(Guard { guard, _held: Held::new(self.at) })
    }
}

impl RwLock {
    pub(crate) fn new(place: Place, key: u64) -> Self {
        Self { at: (place, key), inner: Arc::default() }
    }

    pub(crate) async fn write(&self) -> Guard<tokio::sync::RwLockWriteGuard<'_, ()>> {
        check(self.at);
        let guard = self.inner.write().await;
        Guard { guard, _held: Held::new(self.at) }
    }

    pub(crate) fn try_read(
        &self,
    ) -> Result<Guard<tokio::sync::RwLockReadGuard<'_, ()>>, TryLockError> {
        let guard = self.inner.try_read()?;
        Ok(Guard { guard, _held: Held::new(self.at) })
    }

    pub(crate) fn try_read_owned(&self) -> Result<OwnedReadGuard, TryLockError> {
        let guard = self.inner.clone().try_read_owned()?;
        Ok(Guard { guard, _held: Held::new(self.at) })
    }

    pub(crate) async fn read_owned(&self) -> OwnedReadGuard {
        check(self.at);
        let guard = self.inner.clone().read_owned().await;
        Guard { guard, _held: Held::new(self.at) }
    }

    pub(crate) async fn write_owned(&self) -> OwnedWriteGuard {
        check(self.at);
        let guard = self.inner.clone().write_owned().await;
        Guard { guard, _held: Held::new(self.at) }
    }
}

impl<G: Deref> Deref for Guard<G> {
    type Target = G::Target;

    fn deref(&self) -> &G::Target {
        &self.guard
    }
}

impl<G: DerefMut> DerefMut for Guard<G> {
    fn deref_mut(&mut self) -> &mut G::Target {
        &mut self.guard
    }
}

#[cfg(debug_assertions)]
pub(crate) use checked::apart;
#[cfg(debug_assertions)]
use checked::{Held, check};
#[cfg(not(debug_assertions))]
pub(crate) use unchecked::apart;
#[cfg(not(debug_assertions))]
use unchecked::{Held, check};

/// Nothing is checked where it would cost.
#[cfg(not(debug_assertions))]
mod unchecked {
    use super::At;

    #[derive(Debug)]
    pub(super) struct Held;

    impl Held {
        pub(super) fn new(_: At) -> Self {
            Self
        }
    }

    pub(super) fn check(_: At) {}

    pub(crate) fn apart<F: Future>(future: F) -> F {
        future
    }
}

/// Who holds what, by task.
#[cfg(debug_assertions)]
mod checked {
    use std::cell::RefCell;
    use std::collections::HashMap;
    use std::pin::Pin;
    use std::sync::LazyLock;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::task::{Context, Poll};
    use std::thread::ThreadId;

    use super::At;

    /// Who takes locks one after the other.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
    enum Scope {
        Task(tokio::task::Id),
        Thread(ThreadId),
        /// A future among others of one task.
        Apart(u64),
    }

    static HELD: LazyLock<parking_lot::Mutex<HashMap<Scope, Vec<At>>>> =
        LazyLock::new(Default::default);
    static NEXT: AtomicU64 = AtomicU64::new(0);

    thread_local! {
        /// The futures apart that are being polled on this thread, the innermost last.
        static POLLED: RefCell<Vec<u64>> = const { RefCell::new(Vec::new()) };
    }

    /// Those that what runs now is part of, the innermost last.
    fn scopes() -> Vec<Scope> {
        let outer = tokio::task::try_id().map(Scope::Task);
        let outer = outer.unwrap_or_else(|| Scope::Thread(std::thread::current().id()));
        let apart = POLLED.with_borrow(|polled| polled.clone());
        std::iter::once(outer).chain(apart.into_iter().map(Scope::Apart)).collect()
    }

    /// A lock that a scope holds, whoever lets it go.
    #[derive(Debug)]
    pub(super) struct Held {
        scope: Option<Scope>,
        at: At,
    }

    impl Held {
        pub(super) fn new(at: At) -> Self {
            let scope = scopes().pop();
            if let Some(scope) = scope {
                HELD.lock().entry(scope).or_default().push(at);
            }
            Self { scope, at }
        }
    }

    impl Drop for Held {
        fn drop(&mut self) {
            let Some(scope) = self.scope else { return };
            let mut held = HELD.lock();
            let Some(all) = held.get_mut(&scope) else { return };
            if let Some(index) = all.iter().rposition(|at| *at == self.at) {
                all.remove(index);
            }
            if all.is_empty() {
                held.remove(&scope);
            }
        }
    }

    /// Panics if whoever waits for this lock holds one that comes later.
    pub(super) fn check(at: At) {
        let scopes = scopes();
        let held = HELD.lock();
        let later = scopes.iter().filter_map(|scope| held.get(scope)).flatten().find(|h| **h >= at);
        if let Some(later) = later.copied() {
            drop(held);
            panic!("{at:?} is waited for under {later:?}: see the order of volume/locks.rs");
        }
    }

    /// A future that one task runs beside others: what it holds is not held by these.
    pub(crate) fn apart<F: Future>(future: F) -> impl Future<Output = F::Output> {
        Apart { id: NEXT.fetch_add(1, Ordering::Relaxed), future: Box::pin(future) }
    }

    struct Apart<F> {
        id: u64,
        future: Pin<Box<F>>,
    }

    impl<F: Future> Future for Apart<F> {
        type Output = F::Output;

        fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<F::Output> {
            /// Also when the future panics.
            struct Polled;
            impl Drop for Polled {
                fn drop(&mut self) {
                    POLLED.with_borrow_mut(|polled| polled.pop());
                }
            }
            POLLED.with_borrow_mut(|polled| polled.push(self.id));
            let _polled = Polled;
            self.future.as_mut().poll(context)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lock(place: Place, key: u64) -> Mutex {
        Mutex::new(place, key, ())
    }

    #[tokio::test]
    async fn locks_are_taken_in_their_order() {
        let (outer, first, second) =
            (lock(Place::Flush, 9), lock(Place::Change, 1), lock(Place::Change, 2));
        let _outer = outer.lock().await;
        let _first = first.lock().await;
        let _second = second.lock().await;
    }

    #[tokio::test]
    #[should_panic(expected = "(Flush, 1) is waited for under (Change, 1)")]
    async fn a_lock_that_comes_earlier_is_refused() {
        let (outer, inner) = (lock(Place::Flush, 1), lock(Place::Change, 1));
        let _inner = inner.lock().await;
        let _outer = outer.lock().await;
    }

    #[tokio::test]
    #[should_panic(expected = "(Change, 1) is waited for under (Change, 2)")]
    async fn of_two_files_the_lesser_one_comes_first() {
        let (one, two) = (lock(Place::Change, 1), lock(Place::Change, 2));
        let _two = two.lock().await;
        let _one = one.lock().await;
    }

    #[tokio::test]
    async fn who_does_not_wait_may_take_any() {
        let (outer, inner) = (lock(Place::Flush, 1), lock(Place::Change, 1));
        let _inner = inner.lock().await;
        assert!(outer.try_lock().is_ok());
    }

    #[tokio::test]
    async fn what_another_task_lets_go_is_held_no_more() {
        let (outer, inner) = (lock(Place::Flush, 1), lock(Place::Change, 1));
        let guard = inner.lock_owned().await;
        tokio::spawn(async move { drop(guard) }).await.expect("runs");
        let _outer = outer.lock().await;
    }

    #[tokio::test]
    async fn futures_apart_hold_each_their_own() {
        let (outer, inner) = (lock(Place::Flush, 1), lock(Place::Change, 1));
        let holds = apart(async {
            let _inner = inner.lock().await;
            tokio::task::yield_now().await;
            tokio::task::yield_now().await;
        });
        let takes = apart(async {
            tokio::task::yield_now().await;
            let _outer = outer.lock().await;
        });
        futures::future::join(holds, takes).await;
    }

    #[tokio::test]
    #[should_panic(expected = "(Flush, 1) is waited for under (Change, 1)")]
    async fn a_future_apart_is_under_what_its_task_holds() {
        let (outer, inner) = (lock(Place::Flush, 1), lock(Place::Change, 1));
        let _inner = inner.lock().await;
        apart(async { drop(outer.lock().await) }).await;
    }
}
