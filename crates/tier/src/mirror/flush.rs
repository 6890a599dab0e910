//! Dirty data on its way out: into segments, or into the journal.

use weir_types::{ByteRange, Result};

use crate::log::Entry;
use crate::mirror::{Mirror, Residency};
use crate::pending::Pending;
use crate::ranges::{PageState, page_ceil, page_floor};

/// Dirty ranges taken for a flush; see [`Mirror::snapshot`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Snapshot {
    /// Within the size, in order.
    pub ranges: Vec<ByteRange>,
    /// The file's size.
    pub size: u64,
    /// The attributes to commit.
    pub pending: Pending,
    /// Whether no dirty range was left out.
    pub complete: bool,
    /// [`Mirror::epoch`] as it was taken: in another one the size may be of before a cut by others.
    pub epoch: u64,
    drops: u64,
    /// Which flush of the file this is.
    flush: u64,
}

impl Snapshot {
    /// Takes off what lies before `at` (a page's edge): a snapshot of its own that says neither size
    /// nor times.
    pub fn split_head(&mut self, at: u64) -> Snapshot {
        let before = |&ByteRange { start, end }: &ByteRange| {
            (start < at).then(|| ByteRange::new(start, end.min(at)))
        };
        let head = self.ranges.iter().filter_map(before).collect();
        let behind = |&ByteRange { start, end }: &ByteRange| {
            (end > at).then(|| ByteRange::new(start.max(at), end))
        };
        self.ranges = self.ranges.iter().filter_map(behind).collect();
        let pending = Pending::default();
        Snapshot { ranges: head, pending, complete: false, ..*self }
    }
}

/// What a journal needs of a file; see [`Mirror::take_unjournaled`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unjournaled {
    /// Within the size, in order.
    pub ranges: Vec<ByteRange>,
    /// The file's size.
    pub size: u64,
    /// The attributes that the metadata does not have.
    pub pending: Pending,
}

impl Mirror {
    /// Takes up to `limit` bytes of dirty ranges, from `after` on, for a flush: they stay readable
    /// and writable, and a write makes them dirty again. One from 0 on begins another flush, which
    /// voids what an earlier one took and did not commit.
    pub fn snapshot(&self, after: u64, limit: u64) -> Snapshot {
        let mut residency = self.write_state();
        residency.flushes += u64::from(after == 0);
        let size = residency.state.size;
        let mut ranges = Vec::new();
        let (mut taken, mut complete) = (0, true);
        for (ByteRange { start, end }, state) in residency.state.ranges.within(after, u64::MAX) {
            // The caller flushes this file alone: what is still in flight was given up by another.
            if !state.is_dirty() || start >= size {
                continue;
            }
            if taken >= limit {
                complete = false;
                break;
            }
            let whole = end.min(size);
            let end = whole.min(start.saturating_add(page_ceil(limit - taken)));
            complete &= end == whole;
            taken += end - start;
            ranges.push(ByteRange::new(start, end));
        }
        let Residency { written, state, .. } = &mut *residency;
        let leave = written.take(&ranges, &state.ranges);
        for ByteRange { start, end } in ranges {
            state.ranges.set(start, page_ceil(end), PageState::Flushing);
        }
        let ranges = leave;
        let (pending, drops) = (residency.state.pending, residency.drops.now());
        let epoch = self.epoch();
        Snapshot { ranges, size, pending, complete, epoch, drops, flush: residency.flushes }
    }

    /// Dirty bytes from `after` on that no flush has taken.
    pub fn dirty_after(&self, after: u64) -> u64 {
        let residency = self.read_state();
        let end = residency.state.size;
        residency.state.ranges.bytes(after, end.max(after), |state| state == PageState::Dirty)
    }

    /// Whether nothing of the snapshot was cut off, punched or replaced since, nor taken anew.
    pub fn still_valid(&self, snapshot: &Snapshot) -> bool {
        let residency = self.read_state();
        !residency.gone
            && residency.flushes == snapshot.flush
            && residency.drops.spare(snapshot.drops, &snapshot.ranges)
    }

    /// Whether the snapshot has all bytes of the file as it is now: nothing was left out, nor written since.
    pub fn is_all(&self, snapshot: &Snapshot) -> bool {
        let Snapshot { ranges, size, complete, .. } = snapshot;
        let had_all =
            *complete && matches!(ranges[..], [range] if range.start == 0 && range.end >= *size);
        let residency = self.read_state();
        let written_since = || {
            residency.state.ranges.bytes(0, (*size).max(1), |state| state == PageState::Dirty) > 0
        };
        had_all && residency.state.size == *size && !written_since()
    }

    /// The flush of `snapshot` failed or is void: its ranges are dirty again.
    pub fn flush_failed(&self, snapshot: &Snapshot) {
        let mut residency = self.write_state();
        if residency.flushes != snapshot.flush {
            return;
        }
        let Residency { written, state, .. } = &mut *residency;
        written.failed(&snapshot.ranges, &state.ranges);
        for &ByteRange { start, end } in &snapshot.ranges {
            state.ranges.turn(
                page_floor(start),
                page_ceil(end),
                PageState::Flushing,
                PageState::Dirty,
            );
        }
    }

    /// The metadata names the snapshot's bytes: those not written again are clean. `false` if
    /// another flush took them since: then that one makes them clean, and they may have changed.
    pub fn flushed(
        &self,
        snapshot: &Snapshot,
        generation: u64,
        committed_size: u64,
    ) -> Result<bool> {
        self.shared.settling.note(self.ino);
        let mut residency = self.write_state();
        if residency.gone {
            return Ok(true);
        }
        let newest = residency.flushes == snapshot.flush;
        residency.changed_since_stamp = true;
        let longer = ByteRange::new(residency.state.remote_end, committed_size);
        self.name_holes(&mut residency, longer)?;
        let mut clean = Vec::new();
        for &ByteRange { start, end } in snapshot.ranges.iter().filter(|_| newest) {
            let flushing = residency.state.ranges.within(page_floor(start), page_ceil(end));
            clean.extend(flushing.filter(|r| r.1 == PageState::Flushing).map(|r| r.0));
        }
        // Several parts of one page leave by ranges of their own.
        clean.dedup();
        let Residency { written, state, .. } = &mut *residency;
        let stale = match newest {
            true => written.flushed(&snapshot.ranges, &state.ranges),
            false => Vec::new(),
        };
        let state = &residency.state;
        let mut pending = state.pending;
        pending.size = state.size != committed_size;
        pending.mtime = pending.mtime.filter(|t| Some(*t) != snapshot.pending.mtime);
        pending.ctime = pending.ctime.filter(|t| Some(*t) != snapshot.pending.ctime);
        let remote_end = state.remote_end.max(committed_size);
        let ino = self.ino;
        let ranges = clean.clone();
        let entry = Entry::Flushed { ino, ranges, generation, remote_end, pending };
        self.note(&mut residency, entry)?;
        for ByteRange { start, end } in clean {
            residency.unjournaled.clear(start, end);
        }
        if residency.dirty_bytes == 0 {
            residency.written.clear();
        }
        self.let_go_stale(&mut residency, &stale)?;
        let since_ms = residency.dirty_since_ms.filter(|_| !snapshot.complete);
        residency.dirty_since_ms =
            residency.has_unflushed().then(|| since_ms.unwrap_or_else(|| self.shared.now_ms()));
        Ok(newest)
    }

    /// Ranges written since the last call, clipped to the size, with the size and attributes: what
    /// a journal needs. `None` when they hold more than `limit` bytes (then nothing is taken).
    pub fn take_unjournaled(&self, limit: u64) -> Option<Unjournaled> {
        let mut residency = self.write_state();
        let size = residency.state.size;
        if residency.unjournaled.bytes(0, u64::MAX, |_| true) > limit {
            return None;
        }
        let taken = std::mem::take(&mut residency.unjournaled);
        let ranges =
            taken.iter().map(|(range, _)| range.within(0, size)).filter(|range| !range.is_empty());
        let ranges = ranges.collect();
        Some(Unjournaled { ranges, size, pending: residency.state.pending })
    }

    /// Gives back what [`Mirror::take_unjournaled`] took, after the journal failed.
    pub fn untake_unjournaled(&self, ranges: &[ByteRange]) {
        let mut residency = self.write_state();
        for &ByteRange { start, end } in ranges {
            residency.unjournaled.set(start, page_ceil(end), PageState::Dirty);
        }
    }
}
