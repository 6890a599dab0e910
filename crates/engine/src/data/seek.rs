//! Finding data and holes.

use weir_types::{ByteRange, ErrorKind, FsError, Ino, Result};

use crate::data::mirrors::Mirrors;
use crate::volume::context::blocking;

/// Stored ranges looked at in one round.
const ROUND: usize = 256;

/// What `lseek` looks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Seek {
    /// The next byte that is stored or written.
    Data,
    /// The next byte that is not; the end of the file is one.
    Hole,
}

impl Mirrors {
    /// The first offset at or after `offset` that is data or a hole. `NotFound` past the end, and
    /// where no data follows.
    pub(crate) async fn seek(&self, ino: Ino, offset: u64, what: Seek) -> Result<u64> {
        // What programs store past the daemon is no hole any more.
        if self.may_be_stored(ino)
            && let Some(mirror) = self.tier.find(ino)
        {
            blocking(move || mirror.look_for_mapped_writes()).await?;
        }
        let size = self.known(ino).await?.size;
        let none = || FsError::new(ErrorKind::NotFound, format!("no data at or after {offset}"));
        if offset >= size {
            return Err(none());
        }
        let mut at = offset;
        while at < size {
            let (ranges, known_to) = self.data_ranges(ino, at, size).await?;
            for ByteRange { start, end } in ranges {
                if what == Seek::Data && end > at {
                    return if start.max(at) < size { Ok(start.max(at)) } else { Err(none()) };
                }
                if what == Seek::Hole && start > at {
                    return Ok(at);
                }
                at = at.max(end);
            }
            if at < known_to && what == Seek::Hole {
                return Ok(at.min(size));
            }
            at = at.max(known_to);
        }
        match what {
            Seek::Data => Err(none()),
            Seek::Hole => Ok(size),
        }
    }
}

impl Mirrors {
    /// Ranges of data from `start` on, sorted, maybe overlapping; all there are below the offset
    /// that comes with them.
    pub(crate) async fn data_ranges(
        &self,
        ino: Ino,
        start: u64,
        end: u64,
    ) -> Result<(Vec<ByteRange>, u64)> {
        // First, because what is flushed between the two looks must be seen by one of them.
        let dirty = self.tier.find(ino).map(|mirror| mirror.dirty_ranges(start, end));
        let mut ranges = self.meta.stored_ranges(ino, start..end, ROUND).await?;
        let known_to = match ranges.last() {
            Some(last) if ranges.len() == ROUND => last.end.min(end),
            _ => end,
        };
        ranges.extend(dirty.into_iter().flatten());
        ranges.retain(|range| range.start < known_to);
        ranges.sort_unstable();
        Ok((ranges, known_to))
    }
}
