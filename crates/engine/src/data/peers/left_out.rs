//! Peers that are not asked for a while.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weir_peer::{Fingerprint, Node};

/// How long after the first time that one was slow; twice that after the next time, and so on.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(60);
/// So often in a row one is too slow before it is left out: a machine that is busy for a moment makes all
/// slow, and what it would have given costs another pass over the bucket.
const SLOW: u32 = 2;
/// How long one is left out that gave wrong bytes.
const WRONG: Duration = Duration::from_secs(600);

/// What is known against a peer.
struct Known {
    /// How often it was too slow since it last gave anything.
    slow: u32,
    /// How often in a row it was left out.
    times: u32,
    until: Instant,
}

/// Who is left out, and until when.
#[derive(Default)]
pub(super) struct LeftOut(Mutex<HashMap<Fingerprint, Known>>);

impl LeftOut {
    pub(super) fn has(&self, who: &Fingerprint) -> bool {
        self.0.lock().get(who).is_some_and(|known| Instant::now() < known.until)
    }

    /// It was left out, and did not give anything since.
    #[cfg(test)]
    pub(super) fn had(&self, who: &Fingerprint) -> bool {
        self.0.lock().get(who).is_some_and(|known| known.times > 0)
    }

    /// The bucket was faster than it, though that was asked later.
    pub(super) fn slow(&self, node: &Node) {
        self.note(node, 1);
    }

    /// It cannot be asked.
    pub(super) fn away(&self, node: &Node) {
        self.note(node, SLOW);
    }

    /// Many that waited for it at once count as one, once it is left out.
    fn note(&self, node: &Node, slow: u32) {
        let now = Instant::now();
        let mut all = self.0.lock();
        let new = || Known { slow: 0, times: 0, until: now };
        let known = all.entry(node.fingerprint).or_insert_with(new);
        if now < known.until {
            return;
        }
        known.slow += slow;
        if known.slow >= SLOW {
            known.times = (known.times + 1).min(16);
            known.until = now + LEAST.saturating_mul(1 << (known.times - 1)).min(MOST);
        }
    }

    /// It gave wrong bytes.
    pub(super) fn wrong(&self, node: &Node) {
        let until = Instant::now() + WRONG;
        self.0.lock().insert(node.fingerprint, Known { slow: SLOW, times: 1, until });
    }

    /// It gave what was asked for. Who is left out stays so: that may have been on its way before.
    pub(super) fn sound(&self, node: &Node) {
        let now = Instant::now();
        self.0.lock().retain(|who, known| *who != node.fingerprint || now < known.until);
    }
}
