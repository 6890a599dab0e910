//! The algebra of extent lists: those of one chunk, sorted by start, never overlapping. Pure.

use weir_types::Extent;

/// Most bytes of a commit for one extent of a row that it changes, before or after: the extent, the
/// counter of its segment, and a row that says who shares it.
const EXTENT_COMMIT_BYTES: usize = 128;

/// Most bytes that a commit needs to change a chunk's row, whose extents before and after are so
/// many together.
pub(crate) fn commit_bytes(extents: usize) -> usize {
    64 + extents * EXTENT_COMMIT_BYTES
}

/// What is left of the list when `start..end` of the chunk becomes a hole.
pub(crate) fn cut(list: &[Extent], start: u32, end: u32) -> Vec<Extent> {
    let around = |e: &Extent| [e.slice(0, start), e.slice(end.max(start), u32::MAX)];
    if start >= end {
        return list.to_vec();
    }
    list.iter().flat_map(around).flatten().collect()
}

/// The parts of the list inside `start..end` of the chunk.
pub(crate) fn slice(list: &[Extent], start: u32, end: u32) -> impl Iterator<Item = Extent> {
    list.iter().filter_map(move |extent| extent.slice(start, end))
}

/// The list with `new` in place of whatever lay there.
pub(crate) fn replace(list: &[Extent], new: Extent) -> Vec<Extent> {
    let mut after = cut(list, new.start, new.end());
    let at = after.partition_point(|extent| extent.start < new.start);
    after.insert(at, new);
    after
}

/// Bytes of the chunk that records of segments cover.
pub(crate) fn covered(list: &[Extent]) -> i64 {
    list.iter().filter(|e| !e.is_native()).map(|extent| i64::from(extent.len)).sum()
}

#[cfg(test)]
mod tests {
    use weir_types::{RecordRef, SegmentId};

    use super::*;

    fn extent(start: u32, len: u32, segment: u128) -> Extent {
        let record = RecordRef {
            segment: SegmentId(segment),
            position: 0,
            stored_bytes: 9,
            raw_bytes: 1 << 20,
            checksum: 0,
        };
        Extent { start, len, record, skip: 0 }
    }

    fn shape(list: &[Extent]) -> Vec<(u32, u32, u128, u32)> {
        list.iter().map(|e| (e.start, e.len, e.record.segment.0, e.skip)).collect()
    }

    #[test]
    fn a_cut_through_the_middle_leaves_both_sides() {
        let list = [extent(10, 20, 1), extent(40, 10, 2)];
        assert_eq!(shape(&cut(&list, 15, 45)), [(10, 5, 1, 0), (45, 5, 2, 5)]);
        assert_eq!(shape(&cut(&list, 12, 14)), [(10, 2, 1, 0), (14, 16, 1, 4), (40, 10, 2, 0)]);
        assert_eq!(cut(&list, 20, 20), list);
        assert_eq!(cut(&list, 30, 40), list);
        assert_eq!(cut(&list, 0, u32::MAX), []);
    }

    #[test]
    fn a_replacement_lands_in_order() {
        let list = [extent(0, 10, 1), extent(20, 10, 2)];
        let after = replace(&list, extent(5, 20, 3));
        assert_eq!(shape(&after), [(0, 5, 1, 0), (5, 20, 3, 0), (25, 5, 2, 5)]);
        assert_eq!(covered(&after), 30);
        assert_eq!(shape(&replace(&list, extent(10, 10, 3)))[1], (10, 10, 3, 0));
    }

    #[test]
    fn a_slice_keeps_only_the_inside() {
        let list = [extent(0, 10, 1), extent(20, 10, 2)];
        let inside: Vec<_> = slice(&list, 5, 21).collect();
        assert_eq!(shape(&inside), [(5, 5, 1, 5), (20, 1, 2, 0)]);
    }
}
