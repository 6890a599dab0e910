//! Peers that are not asked for a while.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;
use weir_peer::{Fingerprint, Node};

/// How long after the first time that one was slow; twice that after the next time, and so on.
const LEAST: Duration = Duration::from_secs(1);
const MOST: Duration = Duration::from_secs(60);
/// How long one is left out that gave wrong bytes.
const WRONG: Duration = Duration::from_secs(600);

/// Until when who is left out, and how often in a row it was.
#[derive(Default)]
pub(super) struct LeftOut(Mutex<HashMap<Fingerprint, (Instant, u32)>>);

impl LeftOut {
    pub(super) fn has(&self, who: &Fingerprint) -> bool {
        self.0.lock().get(who).is_some_and(|(until, _)| Instant::now() < *until)
    }

    /// It was slow, or away. Many that waited for it at once count as one.
    pub(super) fn slow(&self, node: &Node) {
        let now = Instant::now();
        let mut all = self.0.lock();
        let (until, times) = all.entry(node.fingerprint).or_insert((now, 0));
        if now >= *until {
            *times = (*times + 1).min(16);
            *until = now + LEAST.saturating_mul(1 << (*times - 1)).min(MOST);
        }
    }

    /// It gave wrong bytes.
    pub(super) fn wrong(&self, node: &Node) {
        self.0.lock().insert(node.fingerprint, (Instant::now() + WRONG, 1));
    }

    /// It gave what was asked for. Who is left out stays so: that may have been on its way before.
    pub(super) fn sound(&self, node: &Node) {
        let now = Instant::now();
        self.0.lock().retain(|who, (until, _)| *who != node.fingerprint || now < *until);
    }
}
