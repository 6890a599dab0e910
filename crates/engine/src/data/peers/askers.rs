//! Which nodes asked for which parts of segments: those that this node asks the bucket for, for all.

use std::collections::HashMap;

use parking_lot::Mutex;
use weir_peer::Fingerprint;
use weir_types::SegmentId;

/// Parts that are remembered, of 4 MiB each: some 8 MiB of memory. When there would be more all are forgotten.
const PARTS_MAX: usize = 1 << 16;
/// Nodes that are remembered of each: the last ones.
const NODES_MAX: usize = 2;

/// A part of a segment.
pub(super) type Part = (SegmentId, u64);

/// Who asked.
#[derive(Default)]
pub(super) struct Askers(Mutex<HashMap<Part, Vec<Fingerprint>>>);

impl Askers {
    /// Those who asked for a part, the last one first, but for `who`, who asks now.
    pub(super) fn before(&self, part: Part, who: Fingerprint) -> Vec<Fingerprint> {
        let mut parts = self.0.lock();
        if parts.len() >= PARTS_MAX && !parts.contains_key(&part) {
            parts.clear();
        }
        let all = parts.entry(part).or_default();
        all.retain(|one| *one != who);
        let before = all.clone();
        all.insert(0, who);
        all.truncate(NODES_MAX);
        before
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_ones_who_asked_are_told() {
        let askers = Askers::default();
        let [part, other] = [(SegmentId(7), 0), (SegmentId(7), 1)];
        let who = |n| Fingerprint([n; 32]);
        assert_eq!(askers.before(part, who(1)), []);
        assert_eq!(askers.before(other, who(2)), []);
        assert_eq!(askers.before(part, who(1)), [], "not oneself");
        assert_eq!(askers.before(part, who(2)), [who(1)]);
        assert_eq!(askers.before(part, who(3)), [who(2), who(1)]);
        assert_eq!(askers.before(part, who(2)), [who(3)]);
        (0..PARTS_MAX as u64).for_each(|n| drop(askers.before((SegmentId(8), n), who(1))));
        assert_eq!(askers.before(part, who(1)), [], "forgotten");
        assert_eq!(askers.0.lock().len(), 1 + 2);
    }
}
