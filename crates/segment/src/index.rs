//! The index at the end of a segment.

use weir_types::{CHUNK_BYTES, ErrorKind, FsError, Result, SegmentId};

use crate::SEGMENT_VERSION;
use crate::entry::IndexEntry;
use crate::layout::{
    CIPHER_AES_256_GCM, CIPHER_NONE, FOOTER_BYTES, FOOTER_MAGIC, Footer, INDEX_ENTRY_BYTES,
    RECORD_HEADER_BYTES, SEGMENT_HEADER_BYTES, checksum_in,
};

/// What the end of a segment gave.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexRead {
    /// All records, in the order in which they stand.
    Entries(Vec<IndexEntry>),
    /// The index starts before the bytes given: call again with the last `n` bytes of the object.
    NeedTail(u64),
}

/// Reads the index of segment `id` from `tail`, the last bytes of an object of `object_bytes`.
///
/// A tail of 64 KiB holds the index of some 1,800 records, so one ranged GET mostly does.
///
/// # Errors
/// `Corrupt` when the object is no whole segment or not this one, `Unsupported` when a newer Weir
/// wrote it, `Invalid` when `tail` is longer than the object.
pub fn decode_index(id: SegmentId, tail: &[u8], object_bytes: u64) -> Result<IndexRead> {
    if tail.len() as u64 > object_bytes {
        let (have, key) = (tail.len(), id.object_key());
        let what = format!("{have} bytes given as the end of {key}, which has {object_bytes}");
        return Err(FsError::new(ErrorKind::Invalid, what));
    }
    if object_bytes < (SEGMENT_HEADER_BYTES + FOOTER_BYTES) as u64 {
        return Err(corrupt(id, "too short for a segment"));
    }
    let Some(footer) = Footer::read(tail) else {
        return Ok(IndexRead::NeedTail(FOOTER_BYTES as u64));
    };
    check_footer(id, &footer, object_bytes)?;
    let need = footer.index_bytes as usize + FOOTER_BYTES;
    let Some(start) = tail.len().checked_sub(need) else {
        return Ok(IndexRead::NeedTail(need as u64));
    };
    let index = &tail[start..tail.len() - FOOTER_BYTES];
    if checksum_in(id, index) != footer.index_checksum {
        return Err(corrupt(id, "the index is damaged: its checksum does not hold"));
    }
    let entries = index.chunks_exact(INDEX_ENTRY_BYTES).filter_map(|e| IndexEntry::read(id, e));
    let entries: Vec<_> = entries.collect();
    check_entries(id, &entries, footer.index_position)?;
    Ok(IndexRead::Entries(entries))
}

/// Whether `footer` is the sound end of segment `id`, in a format that this build reads.
pub(crate) fn check_footer(id: SegmentId, footer: &Footer, object_bytes: u64) -> Result<()> {
    if footer.magic != FOOTER_MAGIC {
        return Err(corrupt(id, "it does not end as a segment does: cut short, or none"));
    }
    if !footer.sound {
        return Err(corrupt(id, "the footer is damaged: its checksum does not hold"));
    }
    check_format(id, footer.id, footer.version, footer.cipher)?;
    let index_end = u64::from(footer.index_position) + u64::from(footer.index_bytes);
    let entries = u64::from(footer.records) * INDEX_ENTRY_BYTES as u64;
    if index_end + FOOTER_BYTES as u64 != object_bytes || entries != u64::from(footer.index_bytes) {
        return Err(corrupt(id, "its length is not what its footer says"));
    }
    Ok(())
}

/// Whether what a sound header or footer says of itself fits segment `id` and this build.
pub(crate) fn check_format(
    id: SegmentId,
    found: SegmentId,
    version: u32,
    cipher: u8,
) -> Result<()> {
    if found != id {
        return Err(corrupt(id, &format!("the object there is segment {found}")));
    }
    let what = match (version, cipher) {
        (SEGMENT_VERSION, CIPHER_NONE | CIPHER_AES_256_GCM) => return Ok(()),
        (SEGMENT_VERSION, _) => format!("cipher {cipher}"),
        _ => format!("segment format {version}"),
    };
    let key = id.object_key();
    let why =
        format!("{key}: {what} is unknown to this version: a newer Weir is needed to read it");
    Err(FsError::new(ErrorKind::Unsupported, why))
}

/// Records stand one after another, without a gap, from the header to the index.
fn check_entries(id: SegmentId, entries: &[IndexEntry], end: u32) -> Result<()> {
    let mut position = SEGMENT_HEADER_BYTES as u64;
    for IndexEntry { record, .. } in entries {
        let sized = (1..=CHUNK_BYTES as u32).contains(&record.raw_bytes)
            && record.stored_bytes as usize > RECORD_HEADER_BYTES;
        if !sized || u64::from(record.position) != position {
            return Err(corrupt(id, &format!("the index is wrong about byte {position}")));
        }
        position += u64::from(record.stored_bytes);
    }
    if position != u64::from(end) {
        return Err(corrupt(id, "the index does not cover all records"));
    }
    Ok(())
}

pub(crate) fn corrupt(id: SegmentId, why: &str) -> FsError {
    FsError::new(ErrorKind::Corrupt, format!("segment {}: {why}", id.object_key()))
}
