//! Which objects of links were read from their buckets, for who keeps account of their ages and of what reading them
//! costs.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use weir_types::LinkId;

/// Objects noted at most between two looks: those beyond seem to be older than they are, by a day at most where they are
/// read again.
const OBJECTS_MAX: usize = 500_000;

/// What was read of one object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct ObjectRead {
    /// GETs that were answered.
    pub(crate) requests: u64,
    /// Bytes that they brought.
    pub(crate) bytes: u64,
}

/// What was read since the last look.
#[derive(Default)]
pub(crate) struct ObjectReads {
    watched: AtomicBool,
    read: Mutex<HashMap<(LinkId, String), ObjectRead>>,
}

impl ObjectReads {
    /// Whether reads are noted from now on: somebody takes the notes now and then.
    pub(crate) fn watch(&self, watched: bool) {
        self.watched.store(watched, Ordering::Relaxed);
        if !watched {
            self.read.lock().clear();
        }
    }

    pub(crate) fn note(&self, link: LinkId, key: &str, bytes: u64) {
        if self.watched.load(Ordering::Relaxed) {
            self.add((link, key.to_owned()), ObjectRead { requests: 1, bytes });
        }
    }

    pub(crate) fn take(&self) -> HashMap<(LinkId, String), ObjectRead> {
        std::mem::take(&mut *self.read.lock())
    }

    pub(crate) fn give_back(&self, back: HashMap<(LinkId, String), ObjectRead>) {
        back.into_iter().for_each(|(object, read)| self.add(object, read));
    }

    fn add(&self, object: (LinkId, String), more: ObjectRead) {
        let mut all = self.read.lock();
        if all.len() >= OBJECTS_MAX && !all.contains_key(&object) {
            return;
        }
        let read = all.entry(object).or_default();
        read.requests += more.requests;
        read.bytes += more.bytes;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_are_noted_as_long_as_somebody_looks() {
        let (reads, link) = (ObjectReads::default(), LinkId(1));
        reads.note(link, "a", 10);
        assert!(reads.take().is_empty());
        reads.watch(true);
        reads.note(link, "a", 10);
        reads.note(link, "a", 5);
        let taken = reads.take();
        let both = ObjectRead { requests: 2, bytes: 15 };
        assert_eq!(taken, HashMap::from([((link, "a".to_owned()), both)]));
        reads.note(link, "a", 1);
        reads.give_back(taken);
        assert_eq!(reads.take()[&(link, "a".to_owned())], ObjectRead { requests: 3, bytes: 16 });
        reads.note(link, "b", 1);
        reads.watch(false);
        assert!(reads.take().is_empty());
    }
}
