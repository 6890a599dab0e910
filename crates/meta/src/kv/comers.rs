//! Who is about to ask for a sync: one that begins a moment before others come makes each of these wait for two.
//!
//! Who syncs bytes and then their metadata says so before its bytes leave. A flush of the metadata that would begin just
//! then waits a little for those who should be here any moment: without that, three groups of callers who follow each other
//! keep missing the flush before them, and each waits for three requests instead of two, for as long as they go on.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

/// Those who said that they come.
#[derive(Debug, Default)]
pub(crate) struct Comers {
    state: Mutex<State>,
    came: Notify,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    /// Since when each is under way.
    under_way: BTreeMap<u64, Instant>,
    /// How long the last flush took, which is about how long bytes take to the bucket.
    flush: Duration,
}

/// Somebody who comes; it is here, or does not come, once this is dropped.
#[derive(Debug, Default)]
pub struct Coming(Option<(Arc<Comers>, u64)>);

impl Comers {
    /// Somebody sets out.
    pub(crate) fn set_out(self: &Arc<Self>) -> Coming {
        let mut state = self.state.lock();
        state.last += 1;
        let number = state.last;
        state.under_way.insert(number, Instant::now());
        Coming(Some((self.clone(), number)))
    }

    /// A flush took so long.
    pub(crate) fn flushed(&self, took: Duration) {
        self.state.lock().flush = took;
    }

    /// Waits for those who should be here any moment, for an eighth of a flush at most. Answers whether it waited.
    pub(crate) async fn gather(&self) -> bool {
        let end = Instant::now() + self.state.lock().flush / 8;
        let mut waited = false;
        loop {
            let came = self.came.notified();
            if !self.somebody_is_near() || tokio::time::timeout_at(end, came).await.is_err() {
                return waited;
            }
            waited = true;
        }
    }

    /// Whether somebody has been under way for about as long as the way takes. Who has been for much longer has more to
    /// bring, and nobody knows how much.
    fn somebody_is_near(&self) -> bool {
        let (state, now) = (self.state.lock(), Instant::now());
        let near = state.flush * 3 / 4..state.flush * 3 / 2;
        // A timer is not exact to less than this.
        state.flush >= Duration::from_millis(8)
            && state.under_way.values().any(|since| near.contains(&now.duration_since(*since)))
    }
}

impl Drop for Coming {
    fn drop(&mut self) {
        if let Some((comers, number)) = self.0.take() {
            comers.state.lock().under_way.remove(&number);
            comers.came.notify_waiters();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn gathers_in(comers: &Comers) -> Duration {
        let began = Instant::now();
        comers.gather().await;
        began.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn a_flush_waits_for_who_is_near_and_for_nobody_else() {
        let comers = Arc::new(Comers::default());
        let ms = Duration::from_millis;
        let first = comers.set_out();
        assert_eq!(gathers_in(&comers).await, ms(0), "nothing is known of the way");
        comers.flushed(ms(80));
        assert_eq!(gathers_in(&comers).await, ms(0), "it has only begun");
        tokio::time::advance(ms(70)).await;
        assert_eq!(gathers_in(&comers).await, ms(10), "an eighth at most");
        let brought = comers.clone();
        let second = tokio::spawn(async move {
            tokio::time::sleep(ms(4)).await;
            drop(first);
            brought.set_out()
        });
        assert_eq!(gathers_in(&comers).await, ms(4), "it came");
        let second = second.await.unwrap();
        tokio::time::advance(ms(121)).await;
        assert_eq!(gathers_in(&comers).await, ms(0), "it has much to bring");
        drop(second);
        comers.flushed(ms(1));
        let _near = comers.set_out();
        tokio::time::advance(ms(1)).await;
        assert_eq!(gathers_in(&comers).await, ms(0), "less than a timer can tell");
    }

    #[tokio::test(start_paused = true)]
    async fn whoever_is_given_up_is_not_waited_for() {
        let comers = Arc::new(Comers::default());
        comers.flushed(Duration::from_millis(80));
        let given_up = comers.set_out();
        tokio::time::advance(Duration::from_millis(80)).await;
        drop(given_up);
        assert!(!comers.gather().await);
        assert!(comers.state.lock().under_way.is_empty());
    }
}
