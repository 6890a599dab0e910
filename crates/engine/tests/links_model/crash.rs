//! Crashes: between two steps of an import, an export or the end of a link, and at any time.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use rand::RngExt;

use super::Run;

/// Where one side knows and the other does not.
const POINTS: [&str; 18] = [
    "engine::export-begun",
    "engine::export-copied",
    "engine::export-deleted",
    "engine::export-done",
    "engine::export-parts",
    "engine::export-put",
    "engine::directory-placed",
    "engine::directory-left",
    "engine::object-judged",
    "engine::object-forgotten",
    "engine::name-gone",
    "engine::way-made",
    "engine::detached",
    "engine::absorbed",
    "engine::import-page",
    "engine::names-listed",
    "engine::link-added",
    "engine::link-apart",
];

/// What ends a task that comes to such a point.
pub struct Crash;

/// A point from which nobody goes on.
pub struct Laid {
    name: &'static str,
    fired: Arc<AtomicBool>,
    /// Steps after which it is taken away.
    pub steps: u32,
}

impl Laid {
    fn at(name: &'static str, nth: u64) -> Self {
        let (fired, count) = (Arc::new(AtomicBool::new(false)), AtomicU64::new(0));
        let has = fired.clone();
        let stop = move || {
            if count.fetch_add(1, Ordering::SeqCst) + 1 >= nth {
                has.store(true, Ordering::SeqCst);
                // Ends the task, and says nothing.
                std::panic::resume_unwind(Box::new(Crash));
            }
        };
        fail::cfg_callback(name, stop).expect("a fail point");
        Self { name, fired, steps: 20 }
    }

    pub fn fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        fail::remove(self.name);
    }
}

impl Run {
    pub fn lay(&mut self) {
        let (at, nth) = (self.rng.random_range(0..POINTS.len()), self.rng.random_range(1..3));
        self.trace.push(format!("lay {} {nth}", POINTS[at]));
        self.laid = None;
        self.laid = Some(Laid::at(POINTS[at], nth));
    }

    pub fn has_crashed(&self) -> bool {
        self.laid.as_ref().is_some_and(Laid::fired)
    }

    /// Mounts again if somebody came to the point that was laid.
    pub fn after_crash(&mut self) {
        if self.has_crashed() {
            let laid = self.laid.take().expect("one");
            self.trace.push(format!("crash at {}", laid.name));
            self.world.kill();
            drop(laid);
            self.mount();
        }
    }

    pub fn end(&mut self) {
        self.laid = None;
        match self.rng.random_range(0..8) {
            0..3 => {
                self.trace.push("kill".to_owned());
                self.world.kill();
            }
            // What was not synced before may be set aside.
            3..5 if self.world.run(self.world.engine().flush_all()).is_ok() => {
                self.trace.push("flush and reboot".to_owned());
                self.world.reboot();
            }
            5..7 if self.world.run(self.world.engine().flush_all()).is_ok() => {
                self.trace.push("flush and lose the tier".to_owned());
                self.ledger.lost_tier = true;
                self.world.lose_machine();
            }
            _ => {
                self.trace.push("unmount".to_owned());
                self.world.unmount().expect("unmounts");
            }
        }
        self.mount();
    }

    fn mount(&mut self) {
        // A tier need not know its clean bytes again.
        self.ledger.release();
        self.world.mount().expect("mounts");
    }
}
