//! The requests that wait for something, so that a mount can be handed to another daemon: it waits
//! for those that must come to an end, and leaves the others to the kernel, which sends them again.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tokio::sync::watch;

/// Those that may be served twice, or begun and given up: they change nothing, or the same again.
const REPEATABLE: [&str; 13] = [
    "read",
    "write",
    "lookup",
    "getattr",
    "readdirplus",
    "fsync",
    "getxattr",
    "readdir",
    "readlink",
    "fsyncdir",
    "statfs",
    "listxattr",
    "setlk",
];

/// Whether a request of this kind can be left to be sent again. What is written at a place that the
/// daemon looks for itself cannot, but only mounts do that on which nobody writes.
pub(crate) fn is_repeatable(op: &str) -> bool {
    op == "lseek" || REPEATABLE.contains(&op)
}

/// The requests of a mount that wait.
#[derive(Debug)]
pub(crate) struct Underway {
    /// How many of each kind nobody has answered or left.
    waiting: Mutex<BTreeMap<&'static str, usize>>,
    fewer: Condvar,
    /// Those that can be left are to be left.
    leaving: watch::Sender<bool>,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct Waiting {
    underway: Arc<Underway>,
    op: &'static str,
    counted: bool,
}

impl Default for Underway {
    fn default() -> Self {
        let (waiting, fewer) = (Mutex::default(), Condvar::new());
        Self { waiting, fewer, leaving: watch::Sender::new(false) }
    }
}

impl Underway {
    /// One more waits.
    pub(crate) fn enter(self: &Arc<Self>, op: &'static str) -> Waiting {
        *self.waiting.lock().entry(op).or_default() += 1;
        Waiting { underway: self.clone(), op, counted: true }
    }

    /// Returns when a request of this kind is to be left.
    pub(crate) async fn left(&self, op: &'static str) {
        if !is_repeatable(op) {
            return std::future::pending().await;
        }
        let mut leaving = self.leaving.subscribe();
        // It is never gone as long as this is here.
        let _ = leaving.wait_for(|leaving| *leaving).await;
    }

    /// Waits until none waits any more, but for those that were left: these are, if `resends`, once
    /// no other does. Not before: the kernel sends all again that was not answered, also what must
    /// come once. The error names those that are in the way after `limit`.
    pub(crate) fn drain(&self, resends: bool, limit: Duration) -> Result<(), String> {
        let began = Instant::now();
        let mut waiting = self.waiting.lock();
        while !waiting.is_empty() {
            let others = waiting.keys().any(|op| !is_repeatable(op));
            if resends && !others {
                self.leaving.send_replace(true);
            }
            if began.elapsed() >= limit {
                let of = |(op, count): (&&str, &usize)| format!("{count} {op}");
                return Err(waiting.iter().map(of).collect::<Vec<_>>().join(", "));
            }
            let left = limit - began.elapsed().min(limit);
            self.fewer.wait_for(&mut waiting, left.max(Duration::from_millis(1)));
        }
        Ok(())
    }

    /// None is to be left any more. Answers whether any may have been.
    pub(crate) fn go_on(&self) -> bool {
        self.leaving.send_replace(false)
    }

    /// One fewer: it was left, or nobody waits for it any more.
    pub(crate) fn done(&self, op: &'static str) {
        let mut waiting = self.waiting.lock();
        if let Some(count) = waiting.get_mut(op) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                waiting.remove(op);
            }
        }
        self.fewer.notify_all();
    }
}

impl Waiting {
    /// It has said so itself.
    pub(crate) fn was_left(mut self) {
        self.counted = false;
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if self.counted {
            self.underway.done(self.op);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHORT: Duration = Duration::from_millis(5);
    const LONG: Duration = Duration::from_secs(20);

    #[test]
    fn what_can_come_again_is_left_and_all_else_must_end() {
        let underway = Arc::new(Underway::default());
        underway.drain(true, SHORT).expect("nobody waits");
        let create = underway.enter("create");
        let other = underway.enter("create");
        let beside = underway.enter("read");
        let in_the_way = underway.drain(true, SHORT).expect_err("three wait");
        assert!(in_the_way.contains("2 create"), "{in_the_way}");
        assert!(!underway.go_on(), "nothing is sent again that must come once");
        drop((create, other, beside));
        underway.drain(true, SHORT).expect("they ended");
        let read = underway.enter("read");
        let runtime = tokio::runtime::Builder::new_multi_thread().build().expect("a runtime");
        let waits = underway.clone();
        let left = runtime.spawn(async move {
            waits.left("read").await;
            drop(read);
        });
        assert!(underway.drain(false, SHORT).is_err(), "this kernel cannot send again");
        underway.go_on();
        underway.drain(true, LONG).expect("it is left");
        runtime.block_on(left).expect("ends");
        assert!(underway.go_on(), "some were left");
        assert!(!underway.go_on());
    }

    #[test]
    fn what_makes_or_removes_anything_comes_once() {
        for op in ["create", "open", "release", "mkdir", "unlink", "rename", "setattr", "link"] {
            assert!(!is_repeatable(op), "{op}");
        }
        assert!(["fsync", "setlk", "lseek"].into_iter().all(is_repeatable));
        assert!(!is_repeatable("copy_file_range") && !is_repeatable("fallocate"));
    }
}
