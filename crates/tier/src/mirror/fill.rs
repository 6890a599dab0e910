//! Bytes on their way in: fetched ones, and how any are written.

use std::fs::File;
use std::io;
use std::sync::atomic::{AtomicUsize, Ordering};

use weir_types::{ByteRange, Result};

use super::{Mirror, gaps_below};
use crate::disk;
use crate::log::Entry;
use crate::ranges::{PageState, page_ceil};

/// From here on it is cheaper to have room kept for a write than to have each of its blocks look for it.
const ROOM_BYTES: usize = 512 << 10;

/// A fill under way.
struct Filling<'a>(&'a AtomicUsize);

impl<'a> Filling<'a> {
    fn begin(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::AcqRel);
        Self(count)
    }
}

impl Drop for Filling<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::AcqRel);
    }
}

impl Mirror {
    /// Stores fetched bytes in those pages of `start..start + data.len()` that are still released,
    /// unless `stamp` is out of date (then `false`). `start` is page-aligned; `data` may end in the
    /// middle of the last page of the file. With `None` for data the range holds only zeros.
    ///
    /// The bytes go into the file beside readers, who cannot see them before the note of them; a
    /// writer waits, and release leaves the file alone in between.
    pub fn fill(&self, start: u64, end: u64, data: Option<&[u8]>, stamp: u64) -> Result<bool> {
        if start >= end {
            return Ok(self.is_fresh(stamp, start, end));
        }
        let _filling = Filling::begin(&self.filling);
        if !self.read_state().leftover.is_empty() {
            self.take_out_leftover(&mut self.write_state())?;
        }
        {
            let residency = self.read_state();
            if !residency.stamp.spare(stamp, &[ByteRange::new(start, end)]) || residency.gone {
                return Ok(false);
            }
            self.unseal()?;
            for gap in gaps_below(&residency.state, start, page_ceil(end)) {
                self.fill_gap(start, gap, data)?;
            }
        }
        let mut residency = self.write_state();
        if !residency.stamp.spare(stamp, &[ByteRange::new(start, end)]) || residency.gone {
            return Ok(false);
        }
        let state = if data.is_some() { PageState::Resident } else { PageState::Hole };
        for ByteRange { start: s, end: e } in gaps_below(&residency.state, start, page_ceil(end)) {
            self.note(&mut residency, Entry::Filled { ino: self.ino, start: s, end: e, state })?;
        }
        Ok(true)
    }

    fn fill_gap(
        &self,
        start: u64,
        ByteRange { start: s, end: e }: ByteRange,
        data: Option<&[u8]>,
    ) -> Result<()> {
        let file = self.file()?;
        let filled = match data {
            Some(data) => {
                let bytes = &data[(s - start) as usize..((e - start) as usize).min(data.len())];
                self.put(&file, bytes, s).map_err(|e| self.io("fill", e))?;
                s + bytes.len() as u64
            }
            None => s,
        };
        // A crash may have left bytes here that were let go: what is no data must be zeros.
        if filled < e && file.metadata().map_err(|e| self.io("stat", e))?.len() > filled {
            disk::punch(&file, filled, e).map_err(|e| self.io("punch", e))?;
        }
        Ok(())
    }

    /// Writes bytes to the mirror file.
    pub(super) fn put(&self, file: &File, bytes: &[u8], at: u64) -> io::Result<()> {
        if bytes.len() >= ROOM_BYTES && self.shared.reserves_by_block {
            // Where there is no such room, the write tells.
            let _ = disk::keep_room(file, at, bytes.len() as u64);
        }
        disk::write_all_at(file, bytes, at)
    }
}
