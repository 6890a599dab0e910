//! Whatever is pushed comes out again, by reference, by index and by scan.

mod common;

use common::{CODECS, noise, pack, read};
use proptest::prelude::*;
use weir_segment::{IndexRead, Owner, Scanned, SegmentBuilder, decode_index, scan_records};
use weir_types::{CHUNK_BYTES, Codec, ErrorKind, FsError, Ino, SegmentId};

/// Contents that compress well, a little and not at all.
fn content() -> impl Strategy<Value = Vec<u8>> {
    prop_oneof![
        prop::collection::vec(any::<u8>(), 1..3000),
        prop::collection::vec(0..4_u8, 1..3000),
        (any::<u8>(), 1..70_000_usize).prop_map(|(byte, len)| vec![byte; len]),
        (any::<u64>(), 1..5000_usize).prop_map(|(seed, len)| {
            // Half noise, half zeros: near the edge of what is worth compressing.
            let mut bytes = noise(seed, len);
            bytes[len / 2..].fill(0);
            bytes
        }),
    ]
}

fn records() -> impl Strategy<Value = Vec<(Owner, Vec<u8>)>> {
    let record = (any::<u64>(), 0..u64::MAX >> 21, content());
    prop::collection::vec(record, 0..12).prop_map(|records| {
        let owner = |ino, chunk| Owner { ino: Ino(ino), offset: chunk * CHUNK_BYTES };
        records.into_iter().map(|(ino, chunk, raw)| (owner(ino, chunk), raw)).collect()
    })
}

proptest! {
    // A failing case is printed with its seed, and kept beside this file.
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn what_goes_in_comes_out(id: u128, records in records(), codec in 0..3_usize) {
        let (id, codec) = (SegmentId(id), CODECS[codec].0);
        let sealed = pack(id, codec, &records);
        prop_assert_eq!(sealed.raw_bytes, records.iter().map(|r| r.1.len() as u64).sum::<u64>());
        let object_bytes = sealed.bytes.len() as u64;
        let index = decode_index(id, &sealed.bytes, object_bytes).expect("sound");
        prop_assert_eq!(index, IndexRead::Entries(sealed.records.clone()));
        let scanned: Vec<_> = scan_records(id, &sealed.bytes).expect("sound").collect();
        prop_assert_eq!(scanned.len(), records.len());
        for ((owner, raw), (entry, step)) in
            records.iter().zip(sealed.records.iter().zip(&scanned))
        {
            prop_assert!(matches!(step, Scanned::Record(found) if found == entry), "{:?}", step);
            prop_assert_eq!(entry.owner, *owner);
            prop_assert_eq!(&read(&sealed.bytes, entry).expect("sound")[..], &raw[..]);
        }
    }
}

#[test]
fn a_full_record_of_every_kind_comes_back() {
    let noise = noise(3, CHUNK_BYTES as usize);
    let owner = Owner { ino: Ino(1), offset: 5 * CHUNK_BYTES };
    for (codec, name) in CODECS {
        for raw in [noise.clone(), vec![7; CHUNK_BYTES as usize]] {
            let sealed = pack(SegmentId(9), codec, &[(owner, raw.clone())]);
            assert!(read(&sealed.bytes, &sealed.records[0]).expect("sound") == raw, "{name}");
        }
    }
}

#[test]
fn bytes_stored_as_they_are_come_back_without_a_copy() {
    let owner = Owner { ino: Ino(1), offset: 0 };
    let sealed = pack(SegmentId(9), Codec::Lz4, &[(owner, noise(5, 4096))]);
    let raw = read(&sealed.bytes, &sealed.records[0]).expect("sound");
    assert_eq!(raw.as_ptr(), sealed.bytes[80 + 40..].as_ptr());
}

/// A sixteenth must be saved: 1,024 bytes are compressed when that takes at most 960.
#[test]
fn compression_must_be_worth_it() {
    for (codec, name) in CODECS.into_iter().skip(1) {
        let (mut kept, mut compressed) = (0, 0);
        for zeros in 0..=128 {
            let mut raw = noise(zeros as u64, 1024);
            raw[..zeros].fill(0);
            let owner = Owner { ino: Ino(1), offset: 0 };
            let sealed = pack(SegmentId(9), codec, &[(owner, raw.clone())]);
            let payload = sealed.records[0].record.stored_bytes - 40;
            if sealed.bytes[80 + 12] == 0 {
                assert_eq!(payload, 1024);
                kept += 1;
            } else {
                assert!(payload <= 960, "{name}: {payload} for {zeros} zeros");
                compressed += 1;
            }
        }
        assert!(kept > 40 && compressed > 20, "{name}: {kept} kept, {compressed} compressed");
    }
}

#[test]
fn a_builder_tells_its_size_before_it_is_finished() {
    let mut builder = SegmentBuilder::new(SegmentId(1), Codec::None, 10_000);
    assert!(builder.is_empty());
    assert_eq!(builder.stored_bytes(), 80 + 64);
    let mut pushed = 0;
    while !builder.is_full() {
        builder.push(Owner { ino: Ino(1), offset: pushed * 1000 }, &[1; 1000]).expect("packs");
        pushed += 1;
    }
    // 80 + 64 + n x (40 + 1000 + 36) >= 10,000 from n = 10 on.
    assert_eq!((pushed, builder.raw_bytes(), builder.is_empty()), (10, 10_000, false));
    let stored = builder.stored_bytes();
    assert_eq!(builder.finish().bytes.len() as u64, stored);
}

#[test]
fn records_that_fit_no_chunk_are_refused_and_leave_no_trace() {
    let mut builder = SegmentBuilder::new(SegmentId(1), Codec::Lz4, 1 << 20);
    let mebibyte = vec![0; CHUNK_BYTES as usize];
    let too_long = vec![0; CHUNK_BYTES as usize + 1];
    for (offset, raw) in [(0, &[][..]), (0, &too_long), (1, &mebibyte), (CHUNK_BYTES - 1, &[0; 2])]
    {
        let error = builder.push(Owner { ino: Ino(3), offset }, raw).expect_err("refused");
        assert_eq!(error.kind(), ErrorKind::Invalid, "{error}");
    }
    assert!(builder.is_empty());
    builder.push(Owner { ino: Ino(3), offset: CHUNK_BYTES - 1 }, &[0]).expect("fits");
}

#[test]
fn records_may_be_read_into_their_place_in_used_memory() {
    let id = SegmentId(9);
    let owner = |n: u64| Owner { ino: Ino(n), offset: 0 };
    for (codec, name) in CODECS {
        let known =
            [(owner(1), noise(1, 70_000)), (owner(2), vec![7; 100_000]), (owner(4), noise(4, 1))];
        let mut builder = SegmentBuilder::in_buffer(id, codec, 1 << 20, vec![9; 300_000]);
        let mut push = |n: u64, most: usize, bytes: &[u8]| {
            builder.push_with(owner(n), most, |buffer| {
                buffer.extend_from_slice(bytes);
                Ok(())
            })
        };
        push(1, 70_000, &known[0].1).expect("fits").expect("a record");
        push(2, CHUNK_BYTES as usize, &known[1].1).expect("shorter than it may be").expect("one");
        assert!(push(3, 100, b"").expect("nothing is fine").is_none());
        assert_eq!(push(3, 100, &[1; 101]).expect_err("too long").kind(), ErrorKind::Invalid);
        push(4, 1, &known[2].1).expect("fits").expect("a record");
        let failed = builder.push_with(owner(5), 10, |buffer| {
            buffer.extend_from_slice(b"half");
            Err(FsError::new(ErrorKind::Retry, "half-way"))
        });
        assert_eq!(failed.expect_err("told").kind(), ErrorKind::Retry);
        assert!(builder.finish().bytes == pack(id, codec, &known).bytes, "{name}");
    }
}
