//! A map from page ranges to states. Pure.

use std::collections::BTreeMap;
use std::ops::Bound;

use serde::{Deserialize, Serialize};
use weir_types::ByteRange;

/// Residency is kept in pages of 4 KiB, the page of the kernel's cache and of the disk.
pub const PAGE_BYTES: u64 = 4096;

/// `offset` rounded down to its page.
pub fn page_floor(offset: u64) -> u64 {
    offset / PAGE_BYTES * PAGE_BYTES
}

/// `offset` rounded up to a page; to the last one there is where that would be too much.
pub fn page_ceil(offset: u64) -> u64 {
    offset.checked_next_multiple_of(PAGE_BYTES).unwrap_or(page_floor(u64::MAX))
}

/// What is known of a page that may be read from the mirror file. A page without a state is
/// released: its bytes are in the bucket only (or, past the remote end, it is a hole).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PageState {
    /// Known to be zeros; the mirror file has a hole there too.
    Hole,
    /// The same bytes are in the bucket.
    Resident,
    /// The bytes are nowhere else.
    Dirty,
    /// Dirty, and on their way to the bucket; turns `Dirty` again when written meanwhile.
    Flushing,
}

impl PageState {
    /// Whether the bytes are nowhere but here.
    pub fn is_dirty(self) -> bool {
        matches!(self, PageState::Dirty | PageState::Flushing)
    }

    /// Whether a page in this state takes room on the disk.
    pub fn is_local(self) -> bool {
        self != PageState::Hole
    }
}

/// Disjoint, page-aligned ranges, each with a state; neighbours of one state are joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeMap {
    /// start -> (end, state)
    ranges: BTreeMap<u64, (u64, PageState)>,
}

impl RangeMap {
    /// Whether no page has a state.
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many ranges there are.
    pub fn len(&self) -> usize {
        self.ranges.len()
    }

    /// All ranges and their states, in order.
    pub fn iter(&self) -> impl Iterator<Item = (ByteRange, PageState)> + '_ {
        self.ranges.iter().map(|(start, (end, state))| (ByteRange::new(*start, *end), *state))
    }

    /// The ranges within `start..end`, clipped to it, in order.
    pub fn within(
        &self,
        start: u64,
        end: u64,
    ) -> impl Iterator<Item = (ByteRange, PageState)> + '_ {
        let before = self.ranges.range(..=start).next_back().map_or(start, |(s, _)| *s);
        self.ranges
            .range((Bound::Included(before), Bound::Excluded(end.max(before))))
            .map(move |(s, (e, state))| (ByteRange::new(*s, *e).within(start, end), *state))
            .filter(|(range, _)| !range.is_empty())
    }

    /// The parts of `start..end` that have no state, in order.
    pub fn gaps(&self, start: u64, end: u64) -> Vec<ByteRange> {
        let mut found = Vec::new();
        let mut at = start;
        for (ByteRange { start: s, end: e }, _) in self.within(start, end) {
            if at < s {
                found.push(ByteRange::new(at, s));
            }
            at = e;
        }
        if at < end {
            found.push(ByteRange::new(at, end));
        }
        found
    }

    /// Gives `start..end` the state, whatever was there.
    pub fn set(&mut self, start: u64, end: u64, state: PageState) {
        if start >= end {
            return;
        }
        self.clear(start, end);
        let (mut start, mut end) = (start, end);
        if let Some((&s, &(e, before))) = self.ranges.range(..start).next_back()
            && e == start
            && before == state
        {
            start = s;
        }
        if let Some(&(e, after)) = self.ranges.get(&end)
            && after == state
        {
            self.ranges.remove(&end);
            end = e;
        }
        self.ranges.insert(start, (end, state));
    }

    /// Takes the state from `start..end`.
    pub fn clear(&mut self, start: u64, end: u64) {
        if start >= end {
            return;
        }
        if let Some((&s, &(e, state))) = self.ranges.range(..start).next_back()
            && e > start
        {
            self.ranges.insert(s, (start, state));
            if e > end {
                self.ranges.insert(end, (e, state));
                return;
            }
        }
        while let Some((&s, &(e, state))) = self.ranges.range(start..end).next() {
            self.ranges.remove(&s);
            if e > end {
                self.ranges.insert(end, (e, state));
            }
        }
    }

    /// Turns every `from` within `start..end` into `to`.
    pub fn turn(&mut self, start: u64, end: u64, from: PageState, to: PageState) {
        let found: Vec<_> = self.within(start, end).filter(|(_, state)| *state == from).collect();
        for (range, _) in found {
            self.set(range.start, range.end, to);
        }
    }

    /// Bytes within `start..end` whose state satisfies `which`.
    pub fn bytes(&self, start: u64, end: u64, which: impl Fn(PageState) -> bool) -> u64 {
        self.within(start, end)
            .filter(|(_, state)| which(*state))
            .map(|(range, _)| range.len())
            .sum()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn states() -> impl Strategy<Value = Option<PageState>> {
        prop_oneof![
            Just(None),
            Just(Some(PageState::Hole)),
            Just(Some(PageState::Resident)),
            Just(Some(PageState::Dirty)),
            Just(Some(PageState::Flushing)),
        ]
    }

    proptest! {
        #[test]
        fn agrees_with_an_array(ops in prop::collection::vec((0u64..40, 0u64..12, states()), 1..60)) {
            let mut map = RangeMap::default();
            let mut model = [None; 64];
            for (page, count, state) in ops {
                let (start, end) = (page * PAGE_BYTES, (page + count) * PAGE_BYTES);
                match state {
                    Some(state) => map.set(start, end, state),
                    None => map.clear(start, end),
                }
                model[page as usize..(page + count) as usize].fill(state);
                for (i, want) in model.iter().enumerate() {
                    let at = i as u64 * PAGE_BYTES;
                    let have = map.within(at, at + PAGE_BYTES).next().map(|(_, s)| s);
                    prop_assert_eq!(have, *want, "page {}", i);
                    prop_assert_eq!(map.gaps(at, at + PAGE_BYTES).is_empty(), want.is_some());
                }
                let all: Vec<_> = map.iter().collect();
                for pair in all.windows(2) {
                    prop_assert!(pair[0].0.end <= pair[1].0.start);
                    prop_assert!(pair[0].0.end < pair[1].0.start || pair[0].1 != pair[1].1, "not joined");
                }
            }
        }
    }
}
