//! What the fuzz targets and the bounded mutation test both run: any bytes at all go into each
//! decoder, first as they are, then with their checksums made right, so that the code behind the
//! checksums is reached as well. Nothing may panic, and what comes out must be what it claims.

use bytes::Bytes;
use weir_keys::VolumeKeys;
use weir_segment::{IndexRead, Scanned, decode_index, decode_record, scan_records};
use weir_types::{CHUNK_BYTES, RecordRef, SegmentId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

/// The segment that all inputs claim to be.
pub(crate) const ID: SegmentId = SegmentId(0x0193_5f3c_2a00_1234_5678_9abc_def0_0042);

const RECORD_HEADER: usize = 40;
const ENTRY: usize = 36;
const FOOTER: usize = 64;

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    let field = bytes.get(at..at + 4).and_then(|field| field.try_into().ok());
    field.map_or(0, u32::from_le_bytes)
}

fn seal(bytes: &[u8]) -> [u8; 8] {
    xxh3_64_with_seed(bytes, ID.0 as u64).to_le_bytes()
}

/// A record whose magic, length and checksum are right, whatever else is in it.
fn mend_record(data: &[u8]) -> Vec<u8> {
    let mut stored = data.to_vec();
    if stored.len() >= RECORD_HEADER {
        stored[..4].copy_from_slice(b"WRec");
        let payload = (stored.len() - RECORD_HEADER) as u32;
        stored[20..24].copy_from_slice(&payload.to_le_bytes());
        let checksum = seal(&stored[12..]);
        stored[4..12].copy_from_slice(&checksum);
    }
    stored
}

/// An object whose footer and index checksums are right, whatever else is in them.
fn mend_end(data: &[u8]) -> Vec<u8> {
    let mut object = data.to_vec();
    let Some(footer) = object.len().checked_sub(FOOTER) else {
        return object;
    };
    let index = (u32_at(&object, footer + 28) as usize).min(footer) / ENTRY * ENTRY;
    let start = footer - index;
    let index_checksum = seal(&object[start..footer]);
    let end = &mut object[footer..];
    end[..16].copy_from_slice(&ID.0.to_le_bytes());
    end[16..24].copy_from_slice(&index_checksum);
    end[24..28].copy_from_slice(&(start as u32).to_le_bytes());
    end[28..32].copy_from_slice(&(index as u32).to_le_bytes());
    end[32..36].copy_from_slice(&((index / ENTRY) as u32).to_le_bytes());
    let checksum = xxh3_64(&end[..48]).to_le_bytes();
    end[48..56].copy_from_slice(&checksum);
    end[56..].copy_from_slice(b"WeirEnd\n");
    object
}

/// Decodes `data`, which was a sealed record of these bytes, by the volume's keys: it is that yet, or refused.
pub(crate) fn sealed_record(keys: &VolumeKeys, data: &[u8], was: &[u8]) {
    for stored in [data.to_vec(), mend_record(data)] {
        if let Ok(raw) = decode_record(keys, &claimed(&stored), None, Bytes::from(stored)) {
            assert!(raw == was, "other bytes are taken for the volume's");
        }
    }
}

/// The record that `stored` says it is.
fn claimed(stored: &[u8]) -> RecordRef {
    let checksum = stored.get(4..12).and_then(|field| field.try_into().ok());
    RecordRef {
        segment: ID,
        position: 80,
        stored_bytes: stored.len() as u32,
        raw_bytes: u32_at(stored, 16),
        checksum: checksum.map_or(0, u64::from_le_bytes),
    }
}

/// Decodes `data` as a record.
pub(crate) fn record(data: &[u8]) {
    for stored in [data.to_vec(), mend_record(data)] {
        let record = claimed(&stored);
        if let Ok(raw) = decode_record(&VolumeKeys::none(), &record, None, Bytes::from(stored)) {
            assert_eq!(raw.len(), record.raw_bytes as usize);
            assert!((1..=CHUNK_BYTES as usize).contains(&raw.len()));
        }
    }
}

/// Decodes `data` as the end of an object of that length, and as the end of a longer one.
pub(crate) fn index(data: &[u8]) {
    for object in [data.to_vec(), mend_end(data)] {
        let len = object.len() as u64;
        for object_bytes in [len, len + 1, len + 1000, u64::MAX] {
            match decode_index(ID, &object, object_bytes) {
                Ok(IndexRead::Entries(entries)) => {
                    let last = entries.last().map(|e| e.record);
                    let end = last.map_or(80, |r| u64::from(r.position + r.stored_bytes));
                    let index = (entries.len() * ENTRY + FOOTER) as u64;
                    assert_eq!(end + index, object_bytes);
                }
                Ok(IndexRead::NeedTail(need)) => assert!(len < need && need <= object_bytes),
                Err(_) => {}
            }
        }
    }
}

/// Scans `data` as a whole object, with and without a header that is right.
pub(crate) fn scan(data: &[u8]) {
    let mut with_header = b"WeirSeg\n\x01\0\0\0\0\0\0\0".to_vec();
    with_header.extend_from_slice(&ID.0.to_le_bytes());
    with_header.resize(72, 0);
    with_header.extend_from_slice(&xxh3_64(&with_header).to_le_bytes());
    with_header.extend_from_slice(&mend_record(data));
    for whole in [data.to_vec(), mend_end(data), mend_end(&with_header), with_header] {
        let whole = Bytes::from(whole);
        let Ok(scan) = scan_records(ID, &whole) else {
            continue;
        };
        let mut position = 0;
        for step in scan {
            match step {
                Scanned::Record(entry) => {
                    let record = entry.record;
                    let start = record.position as usize;
                    assert!(start >= position, "steps back");
                    position = start + record.stored_bytes as usize;
                    let _ = decode_record(
                        &VolumeKeys::none(),
                        &record,
                        Some(entry.owner),
                        whole.slice(start..position),
                    );
                }
                Scanned::Skipped { start, end, .. } => {
                    assert!(position as u64 <= start && start <= end, "steps back");
                    position = end as usize;
                }
            }
            assert!(position <= whole.len(), "runs past the end");
        }
    }
}
