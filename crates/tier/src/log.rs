//! What the residency log says, entry by entry, and how entries add up to a mirror's state.

use serde::{Deserialize, Serialize};
use weir_types::{ByteRange, ErrorKind, FsError, Ino, Result};

use crate::frames::ENTRY_BYTES_MAX;
use crate::pending::Pending;
use crate::ranges::{PageState, RangeMap};

/// One entry of the residency log. Ranges are page-aligned `start..end` byte offsets.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) enum Entry {
    /// From here to `Opened` each mirror's whole state is written anew.
    Begin,
    /// All mirrors are those whose state came since `Begin`; the daemon runs in the boot with
    /// this id.
    Opened { boot_id: String },
    /// All was synced and the daemon ended: mirrors may be believed whatever happens next.
    Closed,
    /// The whole state of one mirror, whatever was said before.
    Whole(MirrorState),
    /// Fetched bytes are in the mirror file.
    Filled { ino: Ino, start: u64, end: u64, state: PageState },
    /// Bytes were or are about to be written.
    Dirtied { ino: Ino, start: u64, end: u64, size: u64, pending: Pending },
    /// Size and times changed without a page.
    Pending { ino: Ino, size: u64, pending: Pending },
    /// Dirty ranges are in the bucket and the metadata says so.
    Flushed { ino: Ino, ranges: Vec<ByteRange>, generation: u64, remote_end: u64, pending: Pending },
    /// A truncation, hole or copy voided local bytes; `size` is the size after it.
    Dropped { ino: Ino, start: u64, end: u64, size: u64, generation: u64, remote_end: u64 },
    /// Clean pages were let go.
    Released { ino: Ino, start: u64, end: u64 },
    /// The mirror is no more.
    Gone { ino: Ino },
    /// These mirrors are wholly on the disk as they are.
    Sealed { inos: Vec<Ino> },
    /// This mirror is about to change: after a power cut it is not believed.
    Unsealed { ino: Ino },
    /// The mirror file is lent for writing: programs may change it without a note here, until the
    /// next such entry says no.
    Lent { ino: Ino, writable: bool },
    /// A part of a whole state that is too long for one entry: the state with some of its ranges.
    /// The parts come in order, counted from 0, and the last one makes it count.
    WholePart { state: MirrorState, part: u32, last: bool },
    /// The disk lost bytes of this mirror file: what is dirty in it is in doubt, as long as any is.
    Doubted { ino: Ino },
}

/// Ranges in one entry.
const PART_RANGES: usize = 1 << 20;
/// Most bytes of a number as postcard writes it.
const VARINT_BYTES: usize = 10;

// Two offsets and a state for each range; a dozen numbers beside them.
const _: () = assert!(PART_RANGES * (2 * VARINT_BYTES + 1) + 12 * VARINT_BYTES < ENTRY_BYTES_MAX);

impl Entry {
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        postcard::to_stdvec(self)
            .map_err(|e| FsError::new(ErrorKind::Bug, "encode residency entry").with_source(e))
    }

    /// The entries of the log that say the same, each short enough for it; to be appended at once.
    pub(crate) fn encode_all(&self) -> Result<Vec<Vec<u8>>> {
        self.encode_parts(PART_RANGES)
    }

    fn encode_parts(&self, most: usize) -> Result<Vec<Vec<u8>>> {
        let Entry::Whole(whole) = self else { return Ok(vec![self.encode()?]) };
        if whole.ranges.len() <= most {
            return Ok(vec![self.encode()?]);
        }
        let all: Vec<_> = whole.ranges.iter().collect();
        let pieces: Vec<_> = all.chunks(most).collect();
        let last = pieces.len() - 1;
        let part = |(part, ranges): (usize, &&[(ByteRange, PageState)])| {
            let mut state = MirrorState { ranges: RangeMap::default(), ..whole.clone() };
            ranges.iter().for_each(|&(range, is)| state.ranges.set(range.start, range.end, is));
            Entry::WholePart { state, part: part as u32, last: part == last }.encode()
        };
        pieces.iter().enumerate().map(part).collect()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self> {
        postcard::from_bytes(bytes).map_err(|e| {
            let text = "the residency log holds an entry this version cannot read; mount with the \
                        version that wrote it, or move the tier directory away";
            FsError::new(ErrorKind::Corrupt, text).with_source(e)
        })
    }
}

/// What is known of one mirror file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct MirrorState {
    pub(crate) ino: Ino,
    /// Generation of the file's extents that the clean pages mirror.
    pub(crate) generation: u64,
    /// The file's size as local writers made it.
    pub(crate) size: u64,
    /// Pages without a state are in the bucket below this offset and holes from it on.
    pub(crate) remote_end: u64,
    pub(crate) pending: Pending,
    #[serde(with = "range_list")]
    pub(crate) ranges: RangeMap,
}

impl MirrorState {
    pub(crate) fn new(ino: Ino, size: u64, generation: u64) -> Self {
        Self {
            ino,
            generation,
            size,
            remote_end: size,
            pending: Pending::default(),
            ranges: RangeMap::default(),
        }
    }

    /// Takes up what an entry about this mirror says.
    pub(crate) fn apply(&mut self, entry: &Entry) {
        match *entry {
            Entry::Filled { start, end, state, .. } => self.ranges.set(start, end, state),
            Entry::Dirtied { start, end, size, pending, .. } => {
                self.ranges.set(start, end, PageState::Dirty);
                self.size = size;
                self.pending = pending;
            }
            Entry::Pending { size, pending, .. } => {
                self.size = size;
                self.pending = pending;
            }
            Entry::Flushed { ref ranges, generation, remote_end, pending, .. } => {
                for &ByteRange { start, end } in ranges {
                    self.ranges.turn(start, end, PageState::Flushing, PageState::Resident);
                    self.ranges.turn(start, end, PageState::Dirty, PageState::Resident);
                }
                self.generation = generation;
                self.remote_end = remote_end;
                self.pending = pending;
            }
            Entry::Dropped { start, end, size, generation, remote_end, .. } => {
                self.ranges.clear(start, end);
                self.size = size;
                self.generation = generation;
                self.remote_end = remote_end;
            }
            Entry::Released { start, end, .. } => self.ranges.clear(start, end),
            Entry::Whole(ref whole) => *self = whole.clone(),
            _ => {}
        }
    }

    /// Bytes of room that the pages take.
    pub(crate) fn local_bytes(&self) -> u64 {
        self.ranges.bytes(0, u64::MAX, PageState::is_local)
    }

    /// Bytes that are nowhere else.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.ranges.bytes(0, u64::MAX, PageState::is_dirty)
    }
}

mod range_list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use weir_types::ByteRange;

    use crate::ranges::{PageState, RangeMap};

    pub(super) fn serialize<S: Serializer>(map: &RangeMap, to: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<RangeMap, D::Error> {
        let mut map = RangeMap::default();
        for (range, state) in Vec::<(ByteRange, PageState)>::deserialize(from)? {
            map.set(range.start, range.end, state);
        }
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ranges::{PAGE_BYTES, page_floor};

    #[test]
    fn a_state_in_parts_is_the_same_state_and_counts_only_when_it_is_whole() {
        let mut state = MirrorState::new(Ino(7), 1 << 30, 3);
        for page in 0..25 {
            let start = 2 * page * PAGE_BYTES;
            state.ranges.set(start, start + PAGE_BYTES, PageState::Dirty);
        }
        let parts = Entry::Whole(state.clone()).encode_parts(10).expect("encodes");
        assert_eq!(parts.len(), 3);
        let before = Entry::Whole(MirrorState::new(Ino(7), 5, 1)).encode().expect("encodes");
        let mut replay = crate::recover::Replay::default();
        for (count, entry) in [&before].into_iter().chain(&parts[..2]).chain(&parts).enumerate() {
            replay.entry(entry).expect("takes");
            let have = replay.state(Ino(7)).expect("known");
            assert_eq!(*have == state, count == 5, "entry {count}");
        }
        assert_eq!(Entry::Whole(state.clone()).encode_all().expect("encodes").len(), 1);
    }

    #[test]
    fn the_longest_ranges_fit_their_entry() {
        let mut state = MirrorState::new(Ino(u64::MAX), u64::MAX, u64::MAX);
        // The largest offsets that there are: each number takes all its bytes.
        for range in 0..PART_RANGES as u64 {
            let start = page_floor(u64::MAX) - 2 * PAGE_BYTES * (range + 1);
            state.ranges.set(start, start + PAGE_BYTES, PageState::Dirty);
        }
        let entries = Entry::Whole(state.clone()).encode_all().expect("encodes");
        assert!(entries.len() == 1 && entries[0].len() < ENTRY_BYTES_MAX);
        state.ranges.set(0, PAGE_BYTES, PageState::Dirty);
        assert_eq!(Entry::Whole(state).encode_all().expect("encodes").len(), 2);
    }
}
