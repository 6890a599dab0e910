//! Crashes: between two steps of an import, an export or the end of a link, and at any time.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Once, PoisonError};

use rand::RngExt;

use super::Run;
use super::server::{Server, connect};

/// Where one side knows and the other does not.
const POINTS: [&str; 20] = [
    "engine::export-begun",
    "engine::export-copied",
    "engine::export-deleted",
    "engine::export-done",
    "engine::export-upload",
    "engine::export-part",
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

/// Of these, the steps of an upload in parts.
const UPLOAD: std::ops::Range<usize> = 4..8;

/// What ends a task that comes to such a point.
pub struct Crash;

/// How often somebody came to a point, and how often that was a crash.
struct Count {
    reached: AtomicU64,
    crashed: AtomicU64,
}

static COUNTS: [Count; POINTS.len()] =
    [const { Count { reached: AtomicU64::new(0), crashed: AtomicU64::new(0) } }; POINTS.len()];
/// The point from which nobody goes on, and how many may before.
static ARMED: Mutex<Option<(usize, u64, Arc<AtomicBool>)>> = Mutex::new(None);

fn arm(armed: Option<(usize, u64, Arc<AtomicBool>)>) {
    *ARMED.lock().unwrap_or_else(PoisonError::into_inner) = armed;
}

fn reached(at: usize) {
    COUNTS[at].reached.fetch_add(1, Ordering::SeqCst);
    let mut armed = ARMED.lock().unwrap_or_else(PoisonError::into_inner);
    let Some((_, left, fired)) = armed.as_mut().filter(|(armed, ..)| *armed == at) else { return };
    if *left > 0 {
        *left -= 1;
        return;
    }
    if !fired.swap(true, Ordering::SeqCst) {
        COUNTS[at].crashed.fetch_add(1, Ordering::SeqCst);
    }
    drop(armed);
    // Ends the task, and says nothing.
    std::panic::resume_unwind(Box::new(Crash));
}

/// Counts at all points from here on.
pub fn watch() {
    static WATCHED: Once = Once::new();
    WATCHED.call_once(|| {
        for (at, name) in POINTS.into_iter().enumerate() {
            fail::cfg_callback(name, move || reached(at)).expect("a fail point");
        }
    });
}

/// Says how often each point was reached, and crashed at.
pub fn tell() {
    eprintln!("{:>8} {:>8}", "reached", "crashes");
    for (name, Count { reached, crashed }) in POINTS.iter().zip(&COUNTS) {
        let (reached, crashed) = (reached.load(Ordering::SeqCst), crashed.load(Ordering::SeqCst));
        eprintln!("{reached:>8} {crashed:>8} {name}");
    }
}

/// A point from which nobody goes on.
pub struct Laid {
    name: &'static str,
    fired: Arc<AtomicBool>,
    /// Steps after which it is taken away.
    pub steps: u32,
}

impl Laid {
    fn at(at: usize, before: u64) -> Self {
        let fired = Arc::new(AtomicBool::new(false));
        arm(Some((at, before, fired.clone())));
        Self { name: POINTS[at], fired, steps: 20 }
    }

    pub fn fired(&self) -> bool {
        self.fired.load(Ordering::SeqCst)
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        arm(None);
    }
}

impl Run {
    pub fn lay(&mut self) {
        let at = match self.rng.random_bool(0.5) {
            true => self.rng.random_range(UPLOAD),
            false => self.rng.random_range(0..POINTS.len()),
        };
        let before = self.rng.random_range(0..2);
        self.trace.push(format!("lay {} behind {before}", POINTS[at]));
        self.laid = None;
        self.laid = Some(Laid::at(at, before));
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
        // Connections end with the runtime that they were made in.
        self.others = connect(&self.url);
        if Server::this().is_real() {
            // It may be busy yet with what was asked before the crash.
            self.rest(100);
        }
    }
}
