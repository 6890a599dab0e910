//! By themselves, and against a model of bytes.

use proptest::prelude::*;

use super::*;

const PAGE: u64 = PAGE_BYTES;

fn range(start: u64, end: u64) -> ByteRange {
    ByteRange::new(start, end)
}

/// A mirror's pages and what is written of them.
#[derive(Default)]
struct Mirror {
    pages: RangeMap,
    written: Written,
}

impl Mirror {
    fn write(&mut self, start: u64, end: u64) {
        self.written.wrote(start, end, &self.pages);
        self.pages.set(page_floor(start), page_ceil(end), PageState::Dirty);
    }

    fn take(&mut self) -> Vec<ByteRange> {
        let dirty = |(_, state): &(ByteRange, PageState)| state.is_dirty();
        let all: Vec<_> = self.pages.iter().filter(dirty).map(|(range, _)| range).collect();
        let leave = self.written.take(&all, &self.pages);
        all.iter().for_each(|r| self.pages.set(r.start, r.end, PageState::Flushing));
        leave
    }

    fn failed(&mut self, taken: &[ByteRange]) {
        self.written.failed(taken, &self.pages);
        self.pages.turn(0, u64::MAX, PageState::Flushing, PageState::Dirty);
    }

    fn flushed(&mut self, taken: &[ByteRange]) -> Vec<u64> {
        let stale = self.written.flushed(taken, &self.pages);
        self.pages.turn(0, u64::MAX, PageState::Flushing, PageState::Resident);
        stale
    }
}

#[test]
fn what_was_written_leaves_and_no_byte_beside_it() {
    let mut mirror = Mirror::default();
    mirror.write(8, 16);
    mirror.write(24, 32);
    mirror.write(16, 20);
    mirror.write(PAGE - 4, 3 * PAGE + 4);
    let leave = [range(8, 20), range(24, 32), range(PAGE - 4, PAGE), range(PAGE, 3 * PAGE)];
    assert_eq!(mirror.take(), [&leave[..], &[range(3 * PAGE, 3 * PAGE + 4)]].concat());
}

#[test]
fn a_page_of_which_nothing_is_known_leaves_as_a_whole() {
    let mut mirror = Mirror::default();
    mirror.pages.set(0, 2 * PAGE, PageState::Dirty);
    mirror.write(8, 16);
    assert_eq!(mirror.take(), [range(0, 2 * PAGE)]);
    mirror.write(8, 16);
    assert_eq!(mirror.written.since.len(), 1);
    mirror.failed(&[range(0, 2 * PAGE)]);
    assert_eq!(mirror.take(), [range(0, 2 * PAGE)], "what failed was the whole page");
}

#[test]
fn what_is_written_during_a_flush_leaves_with_the_next_one_alone() {
    let mut mirror = Mirror::default();
    mirror.write(0, 8);
    let first = mirror.take();
    mirror.write(8, 16);
    assert_eq!(mirror.flushed(&first), [0_u64; 0]);
    let second = mirror.take();
    assert_eq!(second, [range(8, 16)], "others may have the first bytes by now");
    mirror.write(20, 24);
    mirror.failed(&second);
    assert_eq!(mirror.take(), [range(8, 16), range(20, 24)]);
}

#[test]
fn a_flush_that_was_given_up_is_taken_along_by_the_next() {
    let mut mirror = Mirror::default();
    mirror.write(0, 8);
    mirror.take();
    assert_eq!(mirror.take(), [range(0, 8)]);
    mirror.write(100, 108);
    assert_eq!(mirror.take(), [range(0, 8), range(100, 108)]);
    mirror.write(0, PAGE);
    assert_eq!(mirror.take(), [range(0, PAGE)]);
}

#[test]
fn a_page_whose_rest_others_changed_goes_once_it_is_clean() {
    let mut mirror = Mirror::default();
    mirror.write(0, 8);
    mirror.write(PAGE, 2 * PAGE);
    mirror.written.others_changed();
    assert!(mirror.written.is_stale());
    let first = mirror.take();
    mirror.write(8, 16);
    assert_eq!(mirror.flushed(&first), [0_u64; 0], "it is dirty again");
    let second = mirror.take();
    assert_eq!(mirror.flushed(&second), [0], "and no page that was written as a whole");
    assert!(!mirror.written.is_stale());
}

#[test]
fn what_was_cut_off_still_becomes_clean() {
    let mut mirror = Mirror::default();
    mirror.write(100, 108);
    let leave = mirror.written.take(&[range(0, 50)], &mirror.pages);
    assert_eq!(leave, [range(0, 50)]);
}

#[test]
fn a_page_of_too_many_parts_is_written_as_a_whole() {
    let mut mirror = Mirror::default();
    (0..=PARTS_MAX as u64).for_each(|at| mirror.write(at * 16, at * 16 + 8));
    assert_eq!(mirror.take(), [range(0, PAGE)]);
}

proptest! {
    /// Each byte that was written leaves until it is named, and none that was not, as long as no page is
    /// written in too many parts.
    #[test]
    fn agrees_with_an_array(ops in prop::collection::vec((0u8..8, 0u64..5 * PAGE, 0u64..2 * PAGE), 1..40)) {
        let mut mirror = Mirror::default();
        let mut model = vec![(false, false); 8 * PAGE as usize];
        let mut under_way: Option<Vec<ByteRange>> = None;
        for (op, start, len) in ops {
            match op {
                0 => {
                    let taken = mirror.take();
                    let mut leave = vec![false; model.len()];
                    taken.iter().for_each(|r| leave[r.start as usize..r.end as usize].fill(true));
                    for (at, (since, before)) in model.iter_mut().enumerate() {
                        prop_assert_eq!(leave[at], *since || *before, "byte {}", at);
                        (*since, *before) = (false, *since || *before);
                    }
                    under_way = Some(taken);
                }
                1 => {
                    if let Some(taken) = under_way.take() {
                        mirror.failed(&taken);
                        model.iter_mut().for_each(|b| *b = (b.0 || b.1, false));
                    }
                }
                2 => {
                    if let Some(taken) = under_way.take() {
                        mirror.flushed(&taken);
                        model.iter_mut().for_each(|b| b.1 = false);
                    }
                }
                _ => {
                    let end = start + len.max(1);
                    mirror.write(start, end);
                    model[start as usize..end as usize].iter_mut().for_each(|b| b.0 = true);
                }
            }
        }
    }
}
