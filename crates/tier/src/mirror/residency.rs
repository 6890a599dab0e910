//! What is known of each page of one mirror file, and of what is under way with them.

use weir_types::ByteRange;

use super::invalidations::Invalidations;
use super::passthrough_use::PassthroughUse;
use super::written::Written;
use crate::log::MirrorState;
use crate::pending::Pending;
use crate::ranges::{RangeMap, page_ceil};
use crate::space::{FEW_RANGES, MIRROR_BYTES, RANGE_BYTES};

/// The state of a mirror, behind its lock.
#[derive(Debug)]
pub(crate) struct Residency {
    pub(crate) state: MirrorState,
    /// Room that the pages take: kept, because counting a large file's ranges is slow.
    pub(crate) local_bytes: u64,
    /// Of that, bytes that are nowhere else.
    pub(crate) dirty_bytes: u64,
    /// Memory that this mirror is accounted for.
    pub(super) memory_bytes: u64,
    /// Counts what makes a fetch under way stale: releases and drops.
    pub(crate) stamp: Invalidations,
    /// Counts drops: what makes a flush under way void.
    pub(crate) drops: Invalidations,
    /// Counts flushes that began.
    pub(crate) flushes: u64,
    /// What of dirty pages was written, where others write the volume, too.
    pub(crate) written: Written,
    /// When the oldest dirty byte was written, in the tier's milliseconds.
    pub(crate) dirty_since_ms: Option<u64>,
    /// Written since the last journal entry.
    pub(crate) unjournaled: RangeMap,
    /// Counts all changes: what a seal under way must not miss.
    pub(crate) changes: u64,
    /// A later generation than the state's, of which the clean pages are. Not in the log: if this process ends, what is
    /// unflushed is held against the generation that it was written to.
    pub(crate) later: Option<u64>,
    /// Compared with the inode since this process began.
    pub(crate) verified: bool,
    /// The log speaks of this mirror. Its first entry there comes with its first page: a file that
    /// is only read past the tier, or opened and not used, costs no note.
    pub(crate) logged: bool,
    /// In the tier's list of those with something unflushed.
    pub(crate) listed: bool,
    /// Extents changed since the stamp last did.
    pub(crate) changed_since_stamp: bool,
    /// What is dirty may not be what was written; see [`Mirror::check_sound`].
    pub(crate) doubt: bool,
    /// Ranges in which the mirror file has bytes that must be zeros: they could not be taken out.
    /// Nobody reads or writes the file before they are.
    pub(crate) leftover: RangeMap,
    /// The tier no longer knows this mirror.
    pub(crate) gone: bool,
    /// What others have of the mirror file.
    pub(crate) passthrough: PassthroughUse,
}

impl Residency {
    /// The generation of the inode that the clean pages are of.
    pub(crate) fn generation(&self) -> u64 {
        self.later.unwrap_or(self.state.generation)
    }

    /// Whether a later generation is that of the state, too, from now on: nothing is unflushed any more.
    pub(crate) fn is_later_of_all(&mut self) -> bool {
        let later = self.later.filter(|_| !self.has_unflushed());
        later.into_iter().for_each(|later| (self.state.generation, self.later) = (later, None));
        later.is_some()
    }

    /// Others made another generation of the file, of which clean pages are in `state` from now on. Where something is
    /// unflushed the state keeps the one of before: others may have shut this node out before they changed the file, and
    /// it does not know it yet; then what is unflushed is not the volume's any more.
    pub(crate) fn others_made(&mut self, state: &mut MirrorState, generation: u64) {
        self.later = self.has_unflushed().then_some(generation);
        if self.later.is_none() {
            state.generation = generation;
        }
    }

    /// Whether the kernel must be asked if it lost any of it.
    pub(crate) fn is_watched(&self) -> bool {
        (self.dirty_bytes > 0 && !self.doubt) || self.passthrough.writable
    }

    /// Whether nothing is known here that the metadata does not tell, and nobody has the file.
    pub(crate) fn is_empty(&self) -> bool {
        self.state.ranges.is_empty() && !self.has_unflushed() && !self.passthrough.active
    }

    /// Whether something here is not yet in the bucket.
    pub(crate) fn has_unflushed(&self) -> bool {
        self.dirty_bytes > 0 || self.state.pending != Pending::default()
    }

    /// Pages were let go. Bytes of the same extents cannot become stale by that, so fetches under
    /// way are void only if the extents changed since the last time.
    pub(crate) fn mark_released(&mut self) {
        if std::mem::take(&mut self.changed_since_stamp) {
            self.stamp.add_all();
        }
    }

    /// The metadata dropped these bytes: fetches and flushes of them under way are void.
    pub(crate) fn mark_dropped(&mut self, start: u64, end: u64) {
        self.stamp.add(start, end);
        self.drops.add(start, end);
    }

    /// As if all were dropped: also of no size that was noted before is anything to be held.
    pub(crate) fn mark_all_dropped(&mut self) {
        self.stamp.add_all();
        self.drops.add_all();
    }

    pub(crate) fn mark_gone(&mut self) {
        (self.gone, self.doubt) = (true, false);
        self.mark_all_dropped();
        self.state.ranges = RangeMap::default();
        self.state.pending = Pending::default();
        self.unjournaled = RangeMap::default();
        self.written.clear();
        (self.local_bytes, self.dirty_bytes) = (0, 0);
        self.passthrough = self.passthrough.parted();
    }
}

/// Memory that a mirror takes with so many ranges.
pub(super) fn memory_of(ranges: &RangeMap) -> u64 {
    MIRROR_BYTES + ranges.len().saturating_sub(FEW_RANGES) as u64 * RANGE_BYTES
}

/// Released pages of `start..end`: without a state and below the remote end.
pub(crate) fn gaps_below(state: &MirrorState, start: u64, end: u64) -> Vec<ByteRange> {
    state.ranges.gaps(start, end.min(page_ceil(state.remote_end)))
}
