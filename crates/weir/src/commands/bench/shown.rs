//! How far the suites are, told by their threads and drawn by one task.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use weir_bench::suite;

use crate::progress::{Progress, Unit};

/// What is told of a run.
#[derive(Clone, Default)]
pub(super) struct Shown(Arc<ShownState>);

#[derive(Default)]
struct ShownState {
    /// Steps done of the phase.
    done: AtomicU64,
    phase: Mutex<Phase>,
}

#[derive(Clone, Default)]
struct Phase {
    /// Which it is, from 1.
    number: u64,
    name: String,
    steps: u64,
}

impl suite::Progress for Shown {
    fn phase(&self, name: &str, steps: u64) {
        let mut phase = self.0.phase.lock();
        self.0.done.store(0, Ordering::Relaxed);
        *phase = Phase { number: phase.number + 1, name: name.to_owned(), steps };
    }

    fn step(&self, steps: u64) {
        self.0.done.fetch_add(steps, Ordering::Relaxed);
    }
}

impl Shown {
    fn now(&self) -> (Phase, u64) {
        let phase = self.0.phase.lock();
        (phase.clone(), self.0.done.load(Ordering::Relaxed))
    }

    /// Draws until it is dropped.
    pub(super) async fn show(&self) {
        let mut progress = Progress::new(Unit::Steps);
        let mut shown = 0;
        loop {
            tokio::time::sleep(progress.interval()).await;
            let (phase, done) = self.now();
            if phase.number == 0 {
                continue;
            }
            if phase.number != shown {
                shown = phase.number;
                progress.next();
            }
            progress.show(done, Some(phase.steps), &phase.name);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_bench::suite::Progress as _;

    #[test]
    fn a_phase_begins_from_nothing() {
        let shown = Shown::default();
        assert_eq!(shown.now().0.number, 0);
        shown.phase("create", 10);
        shown.step(3);
        shown.step(4);
        assert_eq!(shown.now().1, 7);
        shown.phase("read", 5);
        let (phase, done) = shown.now();
        assert_eq!((phase.number, &phase.name[..], phase.steps, done), (2, "read", 5, 0));
    }
}
