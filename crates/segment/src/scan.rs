//! Finding the records of a segment without its index, to recover what a damaged one still holds.

use bytes::Bytes;
use weir_types::{FsError, RecordRef, Result, SegmentId};

use crate::IndexEntry;
use crate::index::{check_footer, check_format, corrupt};
use crate::layout::{
    Footer, PAYLOAD_MOST_BYTES, RECORD_HEADER_BYTES, RECORD_MAGIC, RecordHeader,
    SEGMENT_HEADER_BYTES, SEGMENT_MAGIC, SegmentHeader,
};
use crate::record::{Place, open};

/// One step of a scan.
#[derive(Debug)]
pub enum Scanned {
    /// A record whose checksum holds.
    Record(IndexEntry),
    /// Bytes in which no record of this segment could be read, and why not the first of them.
    Skipped {
        /// First byte skipped.
        start: u64,
        /// Just past the last byte skipped.
        end: u64,
        /// What was wrong at `start`.
        error: FsError,
    },
}

/// The records of a segment in the order in which they stand; see [`scan_records`].
pub struct Scan {
    id: SegmentId,
    whole: Bytes,
    position: usize,
    /// Where the records end: at the index if the footer is sound, else at the end of the object.
    end: usize,
    header_error: Option<FsError>,
}

/// Walks over all records of segment `id`, given the whole object, and verifies each. Damage is
/// reported and stepped over; a sound segment gives exactly the entries of its index.
///
/// Reads every byte once; after damage, once more for each place that looks like a record.
///
/// # Errors
/// `Corrupt` when the object is soundly another segment, `Unsupported` when a newer Weir wrote it.
pub fn scan_records(id: SegmentId, whole: &Bytes) -> Result<Scan> {
    let header = SegmentHeader::read(whole).filter(|h| h.sound && h.magic == SEGMENT_MAGIC);
    let header_error = match header {
        Some(header) => {
            check_format(id, header.id, header.version, header.cipher)?;
            None
        }
        None => Some(corrupt(id, "the header is damaged or missing")),
    };
    let footer = Footer::read(whole).filter(|f| check_footer(id, f, whole.len() as u64).is_ok());
    let end = footer.map_or(whole.len(), |f| f.index_position as usize);
    Ok(Scan { id, whole: whole.clone(), position: 0, end, header_error })
}

impl Scan {
    /// The record that starts at `position`.
    fn record_at(&self, position: usize) -> Result<IndexEntry> {
        record_at(self.id, position as u64, &self.whole[position..self.end])
    }

    /// Steps over unreadable bytes from `start` on, to the next readable record or the end.
    fn skip(&mut self, start: usize, error: FsError) -> Scanned {
        let mut from = start + 1;
        self.position = loop {
            let rest = self.whole.get(from..self.end).unwrap_or_default();
            let magic = rest.windows(RECORD_MAGIC.len()).position(|w| w == RECORD_MAGIC);
            match magic {
                Some(at) if self.record_at(from + at).is_ok() => break from + at,
                Some(at) => from += at + 1,
                None => break self.end,
            }
        };
        Scanned::Skipped { start: start as u64, end: self.position as u64, error }
    }
}

impl Iterator for Scan {
    type Item = Scanned;

    fn next(&mut self) -> Option<Scanned> {
        if let Some(error) = self.header_error.take() {
            return Some(self.skip(0, error));
        }
        if self.position == 0 {
            self.position = SEGMENT_HEADER_BYTES;
        }
        if self.position >= self.end {
            return None;
        }
        match self.record_at(self.position) {
            Ok(entry) => {
                self.position += entry.record.stored_bytes as usize;
                Some(Scanned::Record(entry))
            }
            Err(error) => Some(self.skip(self.position, error)),
        }
    }
}

/// The records that stand one after the other in `bytes`, a part of segment `id` that begins with
/// a record at `position`; up to the first that is not whole, not sound or no record.
pub fn records_from(id: SegmentId, position: u64, bytes: &[u8]) -> Vec<IndexEntry> {
    let mut found = Vec::new();
    let mut at = 0;
    while let Ok(entry) = record_at(id, position + at as u64, &bytes[at..]) {
        at += entry.record.stored_bytes as usize;
        found.push(entry);
    }
    found
}

/// The record at `position` of segment `id`, with which `rest` begins.
fn record_at(id: SegmentId, position: u64, rest: &[u8]) -> Result<IndexEntry> {
    let at = Place { id, position };
    let cut = || at.corrupt("it is cut short");
    let payload = RecordHeader::read(rest).ok_or_else(cut)?.payload_bytes as usize;
    if payload > PAYLOAD_MOST_BYTES {
        return Err(at.corrupt("no record starts there"));
    }
    let stored = rest.get(..RECORD_HEADER_BYTES + payload).ok_or_else(cut)?;
    let (header, _) = open(at, stored)?;
    let too_far = |_| at.corrupt("it starts past 4 GiB");
    let record = RecordRef {
        segment: id,
        position: u32::try_from(position).map_err(too_far)?,
        stored_bytes: stored.len() as u32,
        raw_bytes: header.raw_bytes,
        checksum: header.checksum,
    };
    Ok(IndexEntry { owner: header.owner, record })
}
