//! Which segments were read from their buckets, for who keeps account of their ages and of what reading them costs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weir_types::SegmentId;

use crate::Component;

/// What was read of one segment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentRead {
    /// GETs that were answered.
    pub requests: u64,
    /// Bytes that they brought.
    pub bytes: u64,
    /// Some were for somebody who uses the volume, not for its upkeep.
    pub used: bool,
}

/// What was read since the last look.
#[derive(Default)]
pub(crate) struct SegmentReads {
    watched: AtomicBool,
    read: Mutex<HashMap<SegmentId, SegmentRead>>,
}

impl SegmentReads {
    /// From now on reads are noted: somebody takes the notes now and then.
    pub(crate) fn watch(&self) {
        self.watched.store(true, Ordering::Relaxed);
    }

    pub(crate) fn note(&self, component: Component, key: &str, bytes: u64) {
        let upkeep = matches!(component, Component::Collect | Component::Check);
        if !self.watched.load(Ordering::Relaxed) || !(upkeep || component == Component::Data) {
            return;
        }
        if let Some(id) = SegmentId::from_object_key(key) {
            let mut read = self.read.lock();
            let read = read.entry(id).or_default();
            read.requests += 1;
            read.bytes += bytes;
            read.used |= !upkeep;
        }
    }

    pub(crate) fn take(&self) -> HashMap<SegmentId, SegmentRead> {
        std::mem::take(&mut *self.read.lock())
    }

    pub(crate) fn give_back(&self, back: HashMap<SegmentId, SegmentRead>) {
        let mut all = self.read.lock();
        for (id, back) in back {
            let read = all.entry(id).or_default();
            read.requests += back.requests;
            read.bytes += back.bytes;
            read.used |= back.used;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_of_segments_are_noted_once_somebody_looks() {
        let (reads, id) = (SegmentReads::default(), SegmentId::new(5, 6));
        let key = id.object_key();
        reads.note(Component::Data, &key, 10);
        assert!(reads.take().is_empty());
        reads.watch();
        reads.note(Component::Collect, &key, 10);
        assert!(!reads.read.lock()[&id].used, "upkeep is no use");
        reads.note(Component::Data, &key, 5);
        reads.note(Component::Link, &key, 5);
        reads.note(Component::Data, "volume.json", 5);
        assert_eq!(
            reads.take(),
            HashMap::from([(id, SegmentRead { requests: 2, bytes: 15, used: true })])
        );
        assert!(reads.take().is_empty());
        let back = SegmentRead { requests: 1, bytes: 7, used: true };
        reads.note(Component::Check, &key, 5);
        reads.give_back(HashMap::from([(id, back)]));
        let both = SegmentRead { requests: 2, bytes: 12, used: true };
        assert_eq!(reads.take(), HashMap::from([(id, both)]));
    }
}
