//! Changes of residency: in the log first, then here and in the tier's account.

use std::sync::atomic::Ordering;

use weir_types::{ByteRange, Result};

use super::residency::memory_of;
use super::{Mirror, Residency};
use crate::log::{Entry, MirrorState};
use crate::ranges::PageState;

impl Mirror {
    /// Logs a change and takes it up, with the tier's account.
    pub(crate) fn note(&self, residency: &mut Residency, entry: Entry) -> Result<()> {
        if residency.gone {
            return Ok(());
        }
        if !matches!(entry, Entry::Released { .. }) {
            self.unseal()?;
        }
        let moved = residency.is_later_of_all();
        let mut entries = entry.encode_all()?;
        if (!residency.logged || moved) && !matches!(entry, Entry::Whole(_)) {
            let mut whole = Entry::Whole(residency.state.clone()).encode_all()?;
            whole.append(&mut entries);
            entries = whole;
        }
        self.shared.log.append_all(&entries)?;
        residency.logged = true;
        self.take_up(residency, &entry);
        if let Entry::Flushed { .. } | Entry::Dropped { .. } = entry {
            // The volume took it from this node, which so was not shut out.
            residency.later = None;
        }
        self.settle_doubt(residency);
        Ok(())
    }

    /// Changes the state as an entry says, with the tier's account.
    pub(super) fn take_up(&self, residency: &mut Residency, entry: &Entry) {
        residency.changes += 1;
        let state = &mut residency.state;
        if let Entry::Pending { .. } | Entry::Lent { .. } = entry {
            state.apply(entry);
            self.list(residency);
            return;
        }
        // Only the touched range is counted: a large file has many.
        let ByteRange { start, end } = touched(entry);
        let count = |state: &MirrorState| {
            let ranges = &state.ranges;
            (
                ranges.bytes(start, end, PageState::is_local),
                ranges.bytes(start, end, PageState::is_dirty),
            )
        };
        let before = count(state);
        state.apply(entry);
        let after = count(state);
        self.shared.account(after.0, before.0, after.1, before.1);
        residency.local_bytes = residency.local_bytes + after.0 - before.0;
        residency.dirty_bytes = residency.dirty_bytes + after.1 - before.1;
        if residency.passthrough.active {
            self.shared.account_passthrough(after.0, before.0);
        }
        let memory = memory_of(&residency.state.ranges);
        let before = std::mem::replace(&mut residency.memory_bytes, memory);
        self.shared.memory_bytes.fetch_add(memory.wrapping_sub(before), Ordering::Relaxed);
        self.list(residency);
    }

    /// Puts a mirror with something unflushed on the tier's list.
    pub(super) fn list(&self, residency: &mut Residency) {
        if residency.has_unflushed() && !residency.listed {
            residency.listed = true;
            self.shared.listed().insert(self.ino);
        }
    }

    /// Takes one with nothing unflushed, or one that goes, from the list.
    pub(crate) fn unlist(&self, residency: &mut Residency) {
        if std::mem::take(&mut residency.listed) {
            self.shared.listed().remove(&self.ino);
        }
    }

    /// Before a sealed mirror changes, the disk must know that it is no longer to be believed.
    pub(crate) fn unseal(&self) -> Result<()> {
        if self.sealed.load(Ordering::Acquire) {
            self.shared.log.append(&Entry::Unsealed { ino: self.ino }.encode()?)?;
            self.shared.log.sync()?;
            self.sealed.store(false, Ordering::Release);
        }
        Ok(())
    }
}

/// The range of pages that an entry may change.
fn touched(entry: &Entry) -> ByteRange {
    match *entry {
        Entry::Filled { start, end, .. }
        | Entry::Dirtied { start, end, .. }
        | Entry::Dropped { start, end, .. }
        | Entry::Released { start, end, .. } => ByteRange { start, end },
        Entry::Flushed { ref ranges, .. } => {
            let start = ranges.first().map_or(0, |range| range.start);
            ByteRange::new(start, ranges.last().map_or(start, |range| range.end))
        }
        _ => ByteRange::new(0, u64::MAX),
    }
}
