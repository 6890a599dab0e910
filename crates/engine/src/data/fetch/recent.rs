//! Which parts of segments came of late, or are on their way: a fetch that brings more than was
//! asked for must not bring these again.

use std::collections::{BTreeMap, HashMap};

use parking_lot::Mutex;
use weir_types::SegmentId;

use crate::data::records::Run;

/// Segments that are remembered.
const SEGMENTS: usize = 1_024;

/// Ranges of segments, disjoint. To be forgotten when anything is released: what came is not here
/// any more then.
#[derive(Default)]
pub(crate) struct RecentFetches {
    segments: Mutex<HashMap<SegmentId, BTreeMap<u32, u32>>>,
}

impl RecentFetches {
    /// Takes note of a GET.
    pub(crate) fn note(&self, run: &Run) {
        let mut segments = self.segments.lock();
        if segments.len() >= SEGMENTS && !segments.contains_key(&run.segment) {
            segments.clear();
        }
        let ranges = segments.entry(run.segment).or_default();
        let (mut start, mut end) = (run.start, run.end);
        while let Some((&s, &e)) = ranges.range(..=end).next_back().filter(|(_, e)| **e >= start) {
            ranges.remove(&s);
            (start, end) = (start.min(s), end.max(e));
        }
        ranges.insert(start, end);
    }

    /// Where what came begins within `start..end`, or `end`.
    pub(crate) fn next(&self, segment: SegmentId, start: u32, end: u32) -> u32 {
        let segments = self.segments.lock();
        let Some(ranges) = segments.get(&segment) else {
            return end;
        };
        if ranges.range(..=start).next_back().is_some_and(|(_, e)| *e > start) {
            return start;
        }
        ranges.range(start..end.max(start)).next().map_or(end, |(s, _)| *s)
    }

    pub(crate) fn forget(&self) {
        self.segments.lock().clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_join_and_the_next_one_is_found() {
        let came = RecentFetches::default();
        let (one, two) = (SegmentId(1), SegmentId(2));
        let note = |start, end| came.note(&Run { segment: one, start, end, records: Vec::new() });
        note(100, 200);
        note(300, 400);
        assert_eq!(came.next(one, 0, 1_000), 100);
        assert_eq!(came.next(one, 0, 50), 50);
        assert_eq!(came.next(one, 150, 1_000), 150);
        assert_eq!(came.next(one, 200, 1_000), 300);
        assert_eq!(came.next(one, 400, 1_000), 1_000);
        assert_eq!(came.next(two, 0, 1_000), 1_000);
        note(150, 350);
        assert_eq!(came.next(one, 399, 1_000), 399);
        assert_eq!(came.next(one, 400, 1_000), 1_000);
        note(400, 500);
        note(50, 60);
        assert_eq!(came.next(one, 60, 1_000), 100);
        assert_eq!(came.next(one, 499, 1_000), 499);
        came.forget();
        assert_eq!(came.next(one, 0, 1_000), 1_000);
    }
}
