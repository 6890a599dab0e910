//! What the residency log says, entry by entry, and how entries add up to a mirror's state.

use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FsError, Ino, Result, UnixTime};

use crate::mirror::Pending;
use crate::ranges::{RangeMap, State};

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
    Filled { ino: Ino, start: u64, end: u64, state: State },
    /// Bytes were or are about to be written.
    Dirtied { ino: Ino, start: u64, end: u64, size: u64, pending: Pending },
    /// Size and times changed without a page.
    Pending { ino: Ino, size: u64, pending: Pending },
    /// Dirty ranges are in the bucket and the metadata says so.
    Flushed {
        ino: Ino,
        ranges: Vec<(u64, u64)>,
        generation: u64,
        remote_end: u64,
        pending: Pending,
    },
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
}

impl Entry {
    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        postcard::to_stdvec(self)
            .map_err(|e| FsError::new(ErrorKind::Bug, "encode residency entry").with_source(e))
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
                self.ranges.set(start, end, State::Dirty);
                self.size = size;
                self.pending = pending;
            }
            Entry::Pending { size, pending, .. } => {
                self.size = size;
                self.pending = pending;
            }
            Entry::Flushed { ref ranges, generation, remote_end, pending, .. } => {
                for &(start, end) in ranges {
                    self.ranges.turn(start, end, State::Flushing, State::Resident);
                    self.ranges.turn(start, end, State::Dirty, State::Resident);
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
        self.ranges.bytes(0, u64::MAX, State::is_local)
    }

    /// Bytes that are nowhere else.
    pub(crate) fn dirty_bytes(&self) -> u64 {
        self.ranges.bytes(0, u64::MAX, State::is_dirty)
    }
}

/// Time stamps that only the mirror knows.
impl Pending {
    /// `mtime` and `ctime` both now, the size as well.
    pub(crate) fn written(now: UnixTime) -> Self {
        Self { size: true, mtime: Some(now), ctime: Some(now) }
    }
}

mod range_list {
    use serde::{Deserialize, Deserializer, Serialize, Serializer};

    use crate::ranges::{RangeMap, State};

    pub(super) fn serialize<S: Serializer>(map: &RangeMap, to: S) -> Result<S::Ok, S::Error> {
        map.iter().collect::<Vec<_>>().serialize(to)
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<RangeMap, D::Error> {
        let mut map = RangeMap::default();
        for (start, end, state) in Vec::<(u64, u64, State)>::deserialize(from)? {
            map.set(start, end, state);
        }
        Ok(map)
    }
}
