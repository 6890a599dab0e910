//! Group commit: those who wait for a sync at the same time share one.

use parking_lot::{Condvar, Mutex, MutexGuard};
use weir_types::Result;

/// How far something is synced, and whether more of it is being synced.
#[derive(Debug, Default)]
pub(super) struct Group {
    state: Mutex<Progress>,
    ended: Condvar,
}

#[derive(Debug, Default)]
struct Progress {
    synced: u64,
    syncing: bool,
}

impl Group {
    /// Returns when all before mark `wanted` is synced. `sync` is told how far that is already, and
    /// returns how far it brought it; one runs at a time. Who comes while one runs waits for it and at
    /// most one more: the next takes all that is there when it begins, and who needs no more than a
    /// sync brought goes when that ends, whoever begins another.
    ///
    /// # Errors
    /// That of the caller's own `sync`; one of somebody else's only makes the caller try.
    pub(super) fn reach(&self, wanted: u64, sync: impl FnOnce(u64) -> Result<u64>) -> Result<()> {
        let mut state = self.state.lock();
        while state.synced < wanted && state.syncing {
            self.ended.wait(&mut state);
        }
        if state.synced >= wanted {
            return Ok(());
        }
        state.syncing = true;
        let synced = state.synced;
        let done = MutexGuard::unlocked(&mut state, || sync(synced));
        state.syncing = false;
        if let Ok(synced) = done {
            state.synced = synced;
        }
        self.ended.notify_all();
        done.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use std::time::Duration;

    use weir_types::{ErrorKind, FsError};

    use super::*;

    const SOON: Duration = Duration::from_secs(20);

    /// Gives those who were begun the time to wait; nothing fails if it does not do.
    fn a_while() {
        std::thread::park_timeout(Duration::from_millis(20));
    }

    #[test]
    fn who_comes_during_a_sync_waits_for_it_and_one_more() {
        let group = Arc::new(Group::default());
        let syncs = Arc::new(AtomicU64::new(0));
        let (go, may_end) = mpsc::channel::<()>();
        let (begun, has_begun) = mpsc::channel();
        let first = std::thread::spawn({
            let group = group.clone();
            move || {
                group.reach(1, |before| {
                    begun.send(before).expect("somebody waits");
                    may_end.recv().expect("it may end");
                    Ok(1)
                })
            }
        });
        assert_eq!(has_begun.recv_timeout(SOON).expect("begins"), 0);
        let others: Vec<_> = (2..=8)
            .map(|wanted| {
                let (group, syncs) = (group.clone(), syncs.clone());
                std::thread::spawn(move || {
                    group.reach(wanted, |before| {
                        assert_eq!(before, 1);
                        syncs.fetch_add(1, Ordering::SeqCst);
                        Ok(8)
                    })
                })
            })
            .collect();
        a_while();
        go.send(()).expect("it waits");
        for thread in others.into_iter().chain([first]) {
            thread.join().expect("ends").expect("is synced");
        }
        assert_eq!(syncs.load(Ordering::SeqCst), 1, "all shared the next one");
    }

    #[test]
    fn who_is_synced_does_not_wait_for_the_sync_of_others() {
        for round in 0..20 {
            let group = Arc::new(Group::default());
            let (returned, has_returned) = mpsc::channel();
            group
                .reach(1, |_| {
                    let (group, returned) = (group.clone(), returned.clone());
                    std::thread::spawn(move || {
                        group.reach(1, |_| Ok(1)).expect("somebody else did");
                        let _ = returned.send(());
                    });
                    a_while();
                    Ok(1)
                })
                .expect("syncs");
            // The same thread is back before the one that it covered woke up.
            group
                .reach(2, |_| {
                    has_returned.recv_timeout(SOON).unwrap_or_else(|_| panic!("waits: {round}"));
                    Ok(2)
                })
                .expect("syncs");
        }
    }

    #[test]
    fn a_sync_that_failed_leaves_it_to_the_next() {
        let group = Group::default();
        let failed = group.reach(1, |_| Err(FsError::new(ErrorKind::Retry, "its disk failed")));
        failed.expect_err("failed");
        group.reach(1, |before| Ok(before + 1)).expect("syncs");
        group.reach(1, |_| panic!("it is synced")).expect("is synced");
    }
}
