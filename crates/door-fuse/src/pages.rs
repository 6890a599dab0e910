//! What the kernel's page cache has of a file beside those who write past it.
//!
//! Before a direct write the kernel drops the pages of its range, and after it, too, unless the write is
//! asynchronous (libaio, io_uring): then a reader who came between leaves the bytes of before in the
//! cache, for good. So the door has them dropped, before the write has its answer. Not where somebody
//! else has the file open for writing through the cache: a write that is in the cache and not here yet
//! would be lost to the cache if its page were dropped, see `open_reply`.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedRwLockReadGuard, RwLock, RwLockReadGuard, Semaphore};
use weir_types::Ino;

/// How long a write waits until pages are dropped. Who reads one meanwhile has it locked, and may wait
/// for a request that the kernel holds back until writes like this one are answered.
pub(crate) const DROP_WAIT: Duration = Duration::from_secs(1);
/// Threads that may wait for pages at once: those who read them need threads, too.
const DROPS: usize = 16;

/// Who has a file open through the page cache. Held for reading while pages are dropped: nobody else
/// opens it for that meanwhile.
#[derive(Debug, Default)]
pub(crate) struct Cached {
    /// Somebody had it since it was opened first.
    filled: bool,
    /// Those who may write.
    writers: usize,
}

impl Cached {
    fn may_be_old(&self) -> bool {
        self.filled && self.writers == 0
    }
}

/// The same for all open files of one inode.
type Shared = Arc<RwLock<Cached>>;

/// Those of all inodes, with how many files of each are open.
#[derive(Debug)]
pub(crate) struct Pages {
    open: Mutex<HashMap<Ino, (usize, Shared)>>,
    drops: Arc<Semaphore>,
}

impl Default for Pages {
    fn default() -> Self {
        Self { open: Mutex::default(), drops: Arc::new(Semaphore::new(DROPS)) }
    }
}

/// What an open file has to do with the page cache.
#[derive(Debug)]
pub(crate) struct Use {
    cached: Shared,
    writes: bool,
}

impl Use {
    /// Whether a direct write may be done without a wait; nobody opens the file for the page cache as
    /// long as the answer is kept.
    pub(crate) fn nobody_reads(&self) -> Option<OwnedRwLockReadGuard<Cached>> {
        let cached = self.cached.clone().try_read_owned().ok()?;
        (!cached.may_be_old()).then_some(cached)
    }
}

impl Pages {
    /// One more open file, before the kernel hears of it.
    pub(crate) async fn opened(&self, ino: Ino, through_cache: bool, writes: bool) -> Use {
        let cached = {
            let mut open = self.open.lock();
            let (files, cached) = open.entry(ino).or_default();
            *files += 1;
            cached.clone()
        };
        let writes = through_cache && writes;
        if through_cache {
            let mut cached = cached.write().await;
            cached.filled = true;
            cached.writers += usize::from(writes);
        }
        Use { cached, writes }
    }

    /// The same of a file that was opened at a daemon before this one: pages may be left from then.
    pub(crate) async fn opened_before(&self, ino: Ino, through_cache: bool, writes: bool) -> Use {
        let opened = self.opened(ino, through_cache, writes).await;
        opened.cached.write().await.filled = true;
        opened
    }

    /// All files that are open.
    pub(crate) fn all(&self) -> Vec<(Ino, Use)> {
        let open = self.open.lock();
        let used = |(_, cached): &(usize, Shared)| Use { cached: cached.clone(), writes: false };
        open.iter().map(|(ino, files)| (*ino, used(files))).collect()
    }

    /// One less, after the kernel closed it.
    pub(crate) async fn closed(&self, ino: Ino, ended: &Use) {
        if ended.writes {
            ended.cached.write().await.writers -= 1;
        }
        let mut open = self.open.lock();
        if let Some((files, _)) = open.get_mut(&ino) {
            *files -= 1;
            if *files == 0 {
                open.remove(&ino);
            }
        }
    }
}

/// Pages that may have the bytes of before.
pub(crate) struct Old(Shared);

impl Old {
    /// Whether they still may; nobody opens the file for the page cache as long as the answer is kept.
    pub(crate) fn still(&self) -> Option<RwLockReadGuard<'_, Cached>> {
        let cached = self.0.blocking_read();
        cached.may_be_old().then_some(cached)
    }
}

impl Pages {
    /// Tells the kernel of what another door changed. To be spawned: it waits for requests of the mount.
    pub(crate) fn tell(
        &self,
        tell: impl FnOnce() + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let drops = self.drops.clone();
        async move {
            let permit = drops.acquire_owned().await;
            let told = tokio::task::spawn_blocking(tell).await;
            drop((permit, told));
        }
    }

    /// Drops pages that may have the bytes of before a direct write which is done. To be spawned: it waits
    /// for whoever reads them. `drop_them` asks whether it is to, once it has the gate: who waits there has
    /// nothing that others wait for, and who opens the file must come to an end before a mount stands still.
    pub(crate) fn drop_old(
        &self,
        writer: &Use,
        drop_them: impl FnOnce(&Old) + Send + 'static,
    ) -> impl Future<Output = ()> + Send + 'static {
        let (drops, cached) = (self.drops.clone(), writer.cached.clone());
        async move {
            if !cached.read().await.may_be_old() {
                return;
            }
            let permit = drops.acquire_owned().await;
            let old = Old(cached);
            let dropped = tokio::task::spawn_blocking(move || drop_them(&old)).await;
            drop((permit, dropped));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const INO: Ino = Ino(7);

    #[tokio::test]
    async fn pages_may_be_old_where_somebody_read_through_the_cache_and_nobody_writes_so() {
        let pages = Pages::default();
        let direct = pages.opened(INO, false, true).await;
        assert!(direct.nobody_reads().is_some());
        let reader = pages.opened(INO, true, false).await;
        assert!(direct.nobody_reads().is_none());
        let writer = pages.opened(INO, true, true).await;
        assert!(direct.nobody_reads().is_some(), "whose write may be in the cache only");
        pages.closed(INO, &writer).await;
        pages.closed(INO, &reader).await;
        assert!(direct.nobody_reads().is_none(), "what was read stays in the cache");
        pages.closed(INO, &direct).await;
        assert!(pages.open.lock().is_empty());
        let direct = pages.opened(INO, false, true).await;
        assert!(direct.nobody_reads().is_some(), "the kernel drops what is from before");
    }

    #[tokio::test]
    async fn pages_from_before_this_daemon_may_be_old() {
        let pages = Pages::default();
        let direct = pages.opened_before(INO, false, true).await;
        assert!(direct.nobody_reads().is_none());
        let writer = pages.opened_before(INO, true, true).await;
        assert!(direct.nobody_reads().is_some());
        let (dropped, mut was_dropped) = tokio::sync::mpsc::channel(9);
        for ended in [false, true] {
            if ended {
                pages.closed(INO, &writer).await;
            }
            for (ino, used) in pages.all() {
                let dropped = dropped.clone();
                let drop_them = move |old: &Old| {
                    if old.still().is_some() {
                        dropped.try_send((ino, ended)).expect("room");
                    }
                };
                pages.drop_old(&used, drop_them).await;
            }
        }
        assert_eq!(was_dropped.try_recv(), Ok((INO, true)), "not while somebody writes");
        assert!(was_dropped.try_recv().is_err());
    }

    #[tokio::test]
    async fn who_waits_at_the_gate_to_drop_pages_is_in_the_way_of_nobody_who_opens_the_file() {
        let pages = Pages::default();
        let direct = pages.opened(INO, false, true).await;
        drop(pages.opened(INO, true, false).await);
        let (at_the_gate, arrives) = tokio::sync::oneshot::channel();
        let (open_it, opens) = std::sync::mpsc::channel::<()>();
        let (dropped, was_dropped) = tokio::sync::oneshot::channel();
        let dropping = pages.drop_old(&direct, move |old| {
            let _ = at_the_gate.send(());
            let _ = opens.recv();
            dropped.send(old.still().is_some()).expect("waits");
        });
        let dropping = tokio::spawn(dropping);
        arrives.await.expect("it comes to the gate");
        let open = tokio::time::timeout(Duration::from_secs(30), pages.opened(INO, true, false));
        let came = open.await.is_ok();
        drop(open_it);
        dropping.await.expect("ends");
        assert!(came, "the open waits for who waits at the gate");
        assert_eq!(was_dropped.await, Ok(true), "it is done once the gate is open");
    }

    #[tokio::test]
    async fn nobody_opens_a_file_for_the_cache_while_its_pages_are_dropped() {
        let pages = Pages::default();
        let direct = pages.opened(INO, false, true).await;
        let kept = direct.nobody_reads().expect("nobody does");
        let mut opening = std::pin::pin!(pages.opened(INO, true, false));
        let soon = Duration::from_millis(20);
        assert!(tokio::time::timeout(soon, &mut opening).await.is_err());
        assert!(direct.nobody_reads().is_none(), "somebody waits to");
        drop(kept);
        opening.await;
    }
}
