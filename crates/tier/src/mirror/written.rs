//! Which bytes of its dirty pages a mirror has to bring to the bucket, where other nodes write the file, too:
//! those that were written here, and no others of the same page.
//!
//! What must always hold:
//! - A dirty page of which nothing is known here is to leave as a whole.
//! - What a flush took of a page is known apart from what was written since, until the flush ends: whoever
//!   wrote the former may have let others have it by then.
//! - A page of which others may have changed the rest is let go when it is clean.
//!
//! Nothing of it survives the process: what a crash left dirty leaves as a whole.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use weir_types::ByteRange;

use crate::ranges::{PAGE_BYTES, PageState, RangeMap, page_ceil, page_floor};

/// Parts of one page that are told apart. One with more counts as a whole.
const PARTS_MAX: usize = 64;

/// Bytes within a page: disjoint, in order, none touching the next.
type Parts = Vec<Range<u16>>;

/// What was written of the dirty pages of a mirror. Pages go by their first byte.
#[derive(Debug, Default)]
pub(crate) struct Written {
    /// Since the last flush took the page.
    since: BTreeMap<u64, Parts>,
    /// What a flush took of it; all of it where that is not said.
    taken: BTreeMap<u64, Option<Parts>>,
    /// Others may have changed the rest of it.
    stale: BTreeSet<u64>,
}

fn state_of(pages: &RangeMap, page: u64) -> Option<PageState> {
    pages.within(page, page + PAGE_BYTES).next().map(|(_, state)| state)
}

/// Adds bytes; `false` if there are too many parts to be told apart.
fn add(parts: &mut Parts, new: Range<u16>) -> bool {
    let first = parts.partition_point(|part| part.end < new.start);
    let behind = parts.partition_point(|part| part.start <= new.end);
    let touched = &parts[first..behind];
    let start = touched.first().map_or(new.start, |part| part.start.min(new.start));
    let end = touched.last().map_or(new.end, |part| part.end.max(new.end));
    parts.splice(first..behind, std::iter::once(start..end));
    parts.len() <= PARTS_MAX
}

/// What is in either; `None`, which is all, if it is in one.
fn either(a: Option<Parts>, b: Option<Parts>) -> Option<Parts> {
    let (mut all, more) = (a?, b?);
    more.into_iter().all(|part| add(&mut all, part)).then_some(all)
}

impl Written {
    /// Takes note of a write of `start..end`, before the pages become dirty by it.
    pub(crate) fn wrote(&mut self, start: u64, end: u64, pages: &RangeMap) {
        if start >= end {
            return;
        }
        let whole = page_ceil(start)..page_floor(end);
        if whole.start < whole.end {
            self.all_of(whole.start, whole.end);
            // What a flush has of one is known by its state only as long as that does not change.
            self.know_taken(whole.start, whole.end, pages);
        }
        for page in BTreeSet::from([page_floor(start), page_floor(end - 1)]) {
            let (from, to) = (start.max(page) - page, end.min(page + PAGE_BYTES) - page);
            if to - from < PAGE_BYTES {
                self.wrote_part(page, from as u16..to as u16, state_of(pages, page));
            }
        }
    }

    fn wrote_part(&mut self, page: u64, part: Range<u16>, state: Option<PageState>) {
        match state {
            Some(PageState::Dirty) => {
                if self.since.get_mut(&page).is_some_and(|parts| !add(parts, part)) {
                    self.since.remove(&page);
                }
            }
            Some(PageState::Flushing) => {
                self.taken.entry(page).or_insert(None);
                self.since.insert(page, vec![part]);
            }
            _ => {
                self.taken.remove(&page);
                self.stale.remove(&page);
                self.since.insert(page, vec![part]);
            }
        }
    }

    /// Of pages that become dirty as a whole nothing that was taken before is needed.
    fn know_taken(&mut self, start: u64, end: u64, pages: &RangeMap) {
        let known: Vec<_> = self.taken.range(start..end).map(|(page, _)| *page).collect();
        for page in known {
            if !state_of(pages, page).is_some_and(PageState::is_dirty) {
                self.taken.remove(&page);
                self.stale.remove(&page);
            }
        }
    }

    /// A flush takes these ranges of dirty pages, which `pages` says are dirty or taken by one that was given
    /// up. Answers what is to leave of them.
    pub(crate) fn take(&mut self, ranges: &[ByteRange], pages: &RangeMap) -> Vec<ByteRange> {
        if self.since.is_empty() && self.taken.is_empty() {
            return ranges.to_vec();
        }
        let mut leave = Vec::with_capacity(ranges.len());
        for range in ranges {
            let mut at = range.start;
            for page in self.known(range) {
                let Some(parts) = self.take_page(page, state_of(pages, page)) else { continue };
                let (start, end) = (page.max(range.start), (page + PAGE_BYTES).min(range.end));
                leave.extend((at < start).then(|| ByteRange::new(at, start)));
                at = end;
                let within = |part: &Range<u16>| {
                    ByteRange::new(page + u64::from(part.start), page + u64::from(part.end))
                        .within(start, end)
                };
                let before = leave.len();
                leave.extend(parts.iter().map(within).filter(|part| !part.is_empty()));
                if leave.len() == before {
                    // What was written was cut off: the page must be in a flush to become clean.
                    leave.push(ByteRange::new(start, end));
                }
                self.taken.insert(page, Some(parts));
            }
            leave.extend((at < range.end).then(|| ByteRange::new(at, range.end)));
        }
        leave
    }

    /// The pages of a range of which something is known, in order.
    fn known(&self, range: &ByteRange) -> BTreeSet<u64> {
        let pages = page_floor(range.start)..page_ceil(range.end);
        let since = self.since.range(pages.clone()).map(|(page, _)| *page);
        since.chain(self.taken.range(pages).map(|(page, _)| *page)).collect()
    }

    /// What is to leave of a page; `None` for all of it.
    fn take_page(&mut self, page: u64, state: Option<PageState>) -> Option<Parts> {
        let (since, taken) = (self.since.remove(&page), self.taken.remove(&page));
        match state {
            Some(PageState::Flushing) => taken?,
            _ => match taken {
                Some(taken) => either(since, taken),
                None => since,
            },
        }
    }

    /// The flush of these ranges failed, and their pages are about to be dirty again.
    pub(crate) fn failed(&mut self, ranges: &[ByteRange], pages: &RangeMap) {
        for page in self.taken_in(ranges) {
            let (since, taken) = (self.since.remove(&page), self.taken.remove(&page).flatten());
            let left = match state_of(pages, page) {
                Some(PageState::Flushing) => taken,
                _ => either(since, taken),
            };
            if let Some(parts) = left {
                self.since.insert(page, parts);
            }
        }
    }

    /// The metadata names these ranges. Answers the pages among them that are clean now and are to be let go.
    pub(crate) fn flushed(&mut self, ranges: &[ByteRange], pages: &RangeMap) -> Vec<u64> {
        let mut let_go = Vec::new();
        for page in self.taken_in(ranges) {
            self.taken.remove(&page);
            if state_of(pages, page) == Some(PageState::Flushing) && self.stale.remove(&page) {
                let_go.push(page);
            }
        }
        let_go
    }

    fn taken_in(&self, ranges: &[ByteRange]) -> BTreeSet<u64> {
        if self.taken.is_empty() {
            return BTreeSet::new();
        }
        let of = |range: &ByteRange| {
            let pages = page_floor(range.start)..page_ceil(range.end);
            self.taken.range(pages).map(|(page, _)| *page)
        };
        ranges.iter().flat_map(of).collect()
    }

    /// Others changed the file: what is dirty stays, and the rest of its pages is not to be believed.
    pub(crate) fn others_changed(&mut self) {
        let parts = self
            .taken
            .iter()
            .filter(|(page, taken)| taken.is_some() || self.since.contains_key(page));
        let stale: Vec<_> = self.since.keys().chain(parts.map(|(page, _)| page)).copied().collect();
        self.stale.extend(stale);
    }

    /// Whether others may have changed the rest of a page that is dirty.
    pub(crate) fn is_stale(&self) -> bool {
        !self.stale.is_empty()
    }

    /// Where what is to leave of a range of pages ends, which are all dirty or all taken by a flush.
    pub(crate) fn end_of(&self, range: &ByteRange, state: PageState) -> u64 {
        let page = page_floor(range.end - 1);
        let end = |parts: &Parts| parts.last().map_or(page, |part| page + u64::from(part.end));
        let taken = self.taken.get(&page).map(|parts| parts.as_ref().map_or(range.end, end));
        let end = match state {
            PageState::Flushing => taken,
            _ => self.since.get(&page).map(|parts| end(parts).max(taken.unwrap_or(page))),
        };
        end.unwrap_or(range.end)
    }

    /// Pages of this range become dirty as a whole.
    pub(crate) fn all_of(&mut self, start: u64, end: u64) {
        let known: Vec<_> = self.since.range(start..end).map(|(page, _)| *page).collect();
        known.iter().for_each(|page| drop(self.since.remove(page)));
    }

    /// Nothing is dirty.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests;
