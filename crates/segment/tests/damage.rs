//! Damage of every kind is caught: each truncation, each flipped bit, the wrong object, the wrong
//! record, and what a newer Weir may write one day.

mod common;

use bytes::Bytes;
use common::{CODECS, known_records, pack, read};
use weir_segment::{IndexEntry, IndexRead, Owner, Scanned, decode_index, scan_records};
use weir_types::{Codec, ErrorKind, Ino, SegmentId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

const ID: SegmentId = SegmentId(0x0193_5f3c_2a00_1234_5678_9abc_def0_0042);

fn entries(id: SegmentId, whole: &Bytes) -> weir_types::Result<Vec<IndexEntry>> {
    match decode_index(id, whole, whole.len() as u64)? {
        IndexRead::Entries(entries) => Ok(entries),
        IndexRead::NeedTail(n) => panic!("the whole object is not enough, it wants {n}"),
    }
}

/// What a scan finds: the records, and the byte ranges that it could not read.
fn scan(whole: &Bytes) -> (Vec<IndexEntry>, Vec<(u64, u64)>) {
    let (mut found, mut skipped) = (Vec::new(), Vec::new());
    for step in scan_records(ID, whole).expect("not soundly another's") {
        match step {
            Scanned::Record(entry) => found.push(entry),
            Scanned::Skipped { start, end, error } => {
                assert_eq!(error.kind(), ErrorKind::Corrupt, "{error}");
                skipped.push((start, end));
            }
        }
    }
    (found, skipped)
}

#[test]
fn every_flipped_bit_is_caught() {
    for (codec, name) in CODECS {
        let sealed = pack(ID, codec, &known_records());
        for bit in 0..sealed.bytes.len() * 8 {
            let (at, mut damaged) = (bit / 8, sealed.bytes.to_vec());
            damaged[at] ^= 1 << (bit % 8);
            let damaged = Bytes::from(damaged);

            let mut hit = false;
            for (entry, (_, raw)) in sealed.records.iter().zip(&known_records()) {
                let start = entry.record.position as usize;
                let inside = (start..start + entry.record.stored_bytes as usize).contains(&at);
                hit |= inside;
                match read(&damaged, entry) {
                    Ok(bytes) => assert!(!inside && bytes == raw, "{name}: bit {bit} slipped by"),
                    Err(error) => {
                        assert!(inside && error.kind() == ErrorKind::Corrupt, "{bit}: {error}");
                    }
                }
            }

            let last = sealed.records[3].record;
            let in_end = at >= (last.position + last.stored_bytes) as usize;
            match entries(ID, &damaged) {
                Ok(entries) => assert!(!in_end && entries == sealed.records, "{name}: bit {bit}"),
                Err(error) => assert!(in_end && error.kind() == ErrorKind::Corrupt, "{error}"),
            }

            // The scan loses the record that was hit and no other; it needs no index.
            let (found, skipped) = scan(&damaged);
            let in_footer = at >= damaged.len() - 64;
            assert_eq!(found.len(), sealed.records.len() - usize::from(hit), "bit {bit}");
            assert!(found.iter().all(|entry| sealed.records.contains(entry)));
            assert_eq!(skipped.is_empty(), in_end && !in_footer, "bit {bit}: {skipped:?}");
        }
    }
}

#[test]
fn every_truncation_is_caught() {
    let sealed = pack(ID, Codec::Lz4, &known_records());
    for len in 0..sealed.bytes.len() {
        let cut = sealed.bytes.slice(..len);
        let error = entries(ID, &cut).expect_err("cut short");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        for (entry, (_, raw)) in sealed.records.iter().zip(&known_records()) {
            let end = (entry.record.position + entry.record.stored_bytes) as usize;
            match read(&cut, entry) {
                Ok(bytes) => assert!(end <= len && bytes == raw),
                Err(error) => assert!(end > len && error.kind() == ErrorKind::Corrupt),
            }
        }
        let (found, skipped) = scan(&cut);
        let whole = sealed.records.iter().filter(|entry| {
            entry.record.position as usize + entry.record.stored_bytes as usize <= len
        });
        assert!(found.iter().eq(whole), "the records before the cut are found");
        let ends = sealed.records.iter().map(|e| e.record.position + e.record.stored_bytes);
        let between = len == 80 || ends.into_iter().any(|end| end as usize == len);
        assert_eq!(skipped.is_empty(), between, "cut at {len}: {skipped:?}");
    }
}

/// What looks like a record is one only if it verifies: neither the magic by chance nor a whole
/// segment kept as a file takes a scan in, and neither hides the records that follow.
#[test]
fn a_scan_is_not_taken_in_by_what_a_file_holds() {
    let inner = pack(SegmentId(77), Codec::None, &known_records()).bytes;
    let files = [b"WRec, WRec and WRec again".to_vec(), inner.to_vec(), b"the last".to_vec()];
    let owner = |n: usize| Owner { ino: Ino(n as u64), offset: 0 };
    let records: Vec<_> = files.into_iter().enumerate().map(|(n, f)| (owner(n), f)).collect();
    let sealed = pack(ID, Codec::None, &records);
    let mut damaged = sealed.bytes.to_vec();
    for entry in &sealed.records[..2] {
        damaged[entry.record.position as usize + 12] ^= 1;
    }
    let (found, skipped) = scan(&Bytes::from(damaged));
    assert_eq!(found, sealed.records[2..]);
    assert_eq!(skipped, [(80, u64::from(sealed.records[2].record.position))]);
}

#[test]
fn a_tail_too_short_says_how_much_it_needs() {
    let sealed = pack(ID, Codec::None, &known_records());
    let object_bytes = sealed.bytes.len() as u64;
    let tail = |n: usize| sealed.bytes.slice(sealed.bytes.len() - n..);
    let decode = |n: usize| decode_index(ID, &tail(n), object_bytes).expect("sound");
    assert_eq!(decode(0), IndexRead::NeedTail(64));
    assert_eq!(decode(63), IndexRead::NeedTail(64));
    let need = 64 + 4 * 36;
    assert_eq!(decode(64), IndexRead::NeedTail(need as u64));
    assert_eq!(decode(need - 1), IndexRead::NeedTail(need as u64));
    assert_eq!(decode(need), IndexRead::Entries(sealed.records.clone()));
    let error = decode_index(ID, &sealed.bytes, object_bytes - 1).expect_err("longer than itself");
    assert_eq!(error.kind(), ErrorKind::Invalid);
}

#[test]
fn the_wrong_object_is_told_by_name() {
    let other = SegmentId(ID.0 + 1);
    let mine = pack(ID, Codec::None, &known_records());
    let others = pack(other, Codec::None, &known_records());
    let error = entries(ID, &others.bytes).expect_err("another segment");
    assert!(error.to_string().contains(&other.to_string()), "{error}");
    assert!(error.to_string().contains(&ID.object_key()), "{error}");
    assert_eq!(scan_records(ID, &others.bytes).err().map(|e| e.kind()), Some(ErrorKind::Corrupt));
    // The same files, contents and places: only the seed of the checksum tells them apart.
    for entry in &mine.records {
        let error = read(&others.bytes, entry).expect_err("another segment's record");
        assert_eq!(error.kind(), ErrorKind::Corrupt);
        let place = format!("record at byte {} of {}", entry.record.position, ID.object_key());
        assert!(error.to_string().contains(&place), "{error}");
    }
}

#[test]
fn the_wrong_record_is_told_by_its_owner() {
    let sealed = pack(ID, Codec::Lz4, &known_records());
    let mut entry = sealed.records[0];
    assert!(read(&sealed.bytes, &entry).is_ok());
    entry.owner = Owner { ino: Ino(7), offset: 8192 };
    let error = read(&sealed.bytes, &entry).expect_err("not its owner").to_string();
    assert!(error.contains("offset 0 of inode 100, not offset 8192 of inode 7"), "{error}");
    let mut entry = sealed.records[0];
    entry.record.checksum ^= 1;
    let error = read(&sealed.bytes, &entry).expect_err("not the one meant");
    assert!(error.to_string().contains("not the one that the metadata means"), "{error}");
}

/// Damage must not look like a newer format, and a newer format must not look like damage.
#[test]
fn what_a_newer_weir_wrote_is_refused_as_such() {
    let sealed = pack(ID, Codec::None, &known_records());
    let len = sealed.bytes.len();
    let unsupported = |error: weir_types::FsError, what: &str| {
        assert_eq!(error.kind(), ErrorKind::Unsupported, "{error}");
        let text = error.to_string();
        assert!(text.contains(what) && text.contains("newer Weir"), "{text}");
    };
    for (header_at, footer_at, what) in [(8, 36, "segment format 2"), (12, 40, "cipher 2")] {
        let mut newer = sealed.bytes.to_vec();
        newer[header_at] = 2;
        let sum = xxh3_64(&newer[..72]).to_le_bytes();
        newer[72..80].copy_from_slice(&sum);
        newer[len - 64 + footer_at] = 2;
        let sum = xxh3_64(&newer[len - 64..len - 16]).to_le_bytes();
        newer[len - 16..len - 8].copy_from_slice(&sum);
        let newer = Bytes::from(newer);
        unsupported(entries(ID, &newer).expect_err("newer"), what);
        unsupported(scan_records(ID, &newer).err().expect("newer"), what);
    }
    for (at, what) in [(12, "codec 9"), (13, "cipher 9"), (14, "flags 0x0009")] {
        let mut newer = sealed.bytes.to_vec();
        let mut entry = sealed.records[0];
        let start = entry.record.position as usize;
        let stored = &mut newer[start..start + entry.record.stored_bytes as usize];
        stored[at] = 9;
        entry.record.checksum = xxh3_64_with_seed(&stored[12..], ID.0 as u64);
        stored[4..12].copy_from_slice(&entry.record.checksum.to_le_bytes());
        unsupported(read(&Bytes::from(newer), &entry).expect_err("newer"), what);
    }
}
