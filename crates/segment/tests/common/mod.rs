//! What several tests need: known contents, and what is done with them.

#![allow(dead_code, reason = "every test takes only what it needs")]

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use weir_keys::VolumeKeys;
use weir_segment::{IndexEntry, Owner, SealedSegment, SegmentBuilder, decode_record};
use weir_types::{Codec, Ino, Result, SegmentId};

pub(crate) const CODECS: [(Codec, &str); 3] =
    [(Codec::None, "none"), (Codec::Lz4, "lz4"), (Codec::Zstd, "zstd")];

pub(crate) fn noise(seed: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    StdRng::seed_from_u64(seed).fill_bytes(&mut bytes);
    bytes
}

/// Bytes that do not compress, as they are in the golden files (SplitMix64): `rand` promises no
/// numbers over its versions.
fn golden_noise(len: usize) -> Vec<u8> {
    let mut state = 1_u64;
    let next = || {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) as u8
    };
    std::iter::repeat_with(next).take(len).collect()
}

/// Four records: text, bytes that do not compress, zeros, and a single byte.
pub(crate) fn known_records() -> Vec<(Owner, Vec<u8>)> {
    let text = "Weir packs records of many files into one object. ".repeat(4);
    let contents = [text.into_bytes(), golden_noise(100), vec![0; 300], vec![b'!']];
    let owner = |n: usize| Owner { ino: Ino(100 + n as u64), offset: n as u64 * 4096 };
    contents.into_iter().enumerate().map(|(n, raw)| (owner(n), raw)).collect()
}

pub(crate) fn pack(id: SegmentId, codec: Codec, records: &[(Owner, Vec<u8>)]) -> SealedSegment {
    pack_sealed(&VolumeKeys::none(), id, codec, records)
}

pub(crate) fn pack_sealed(
    keys: &VolumeKeys,
    id: SegmentId,
    codec: Codec,
    records: &[(Owner, Vec<u8>)],
) -> SealedSegment {
    let mut builder = SegmentBuilder::new(id, codec, 16 << 20).sealed_by(keys);
    for (owner, raw) in records {
        builder.push(*owner, raw).expect("packs");
    }
    let promised = builder.stored_bytes();
    let sealed = builder.finish();
    assert_eq!(sealed.bytes.len() as u64, promised);
    sealed
}

/// Reads the record of `entry` out of its whole segment, as a ranged GET would.
pub(crate) fn read(whole: &Bytes, entry: &IndexEntry) -> Result<Bytes> {
    let start = (entry.record.position as usize).min(whole.len());
    let end = (start + entry.record.stored_bytes as usize).min(whole.len());
    decode_record(&VolumeKeys::none(), &entry.record, Some(entry.owner), whole.slice(start..end))
}
