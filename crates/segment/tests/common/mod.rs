//! What several tests need: a small random number generator and known contents.

#![allow(dead_code, reason = "every test takes only what it needs")]

use bytes::Bytes;
use weir_segment::{IndexEntry, Owner, SealedSegment, SegmentBuilder, decode_record};
use weir_types::{Codec, Ino, Result, SegmentId};

pub(crate) const CODECS: [(Codec, &str); 3] =
    [(Codec::None, "none"), (Codec::Lz4, "lz4"), (Codec::Zstd, "zstd")];

/// SplitMix64: small, seeded, the same everywhere.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, n: usize) -> usize {
        (self.next() % n as u64) as usize
    }

    pub(crate) fn bytes(&mut self, len: usize) -> Vec<u8> {
        (0..len).map(|_| self.next() as u8).collect()
    }
}

/// Four records: text, bytes that do not compress, zeros, and a single byte.
pub(crate) fn known_records() -> Vec<(Owner, Vec<u8>)> {
    let text = "Weir packs records of many files into one object. ".repeat(4);
    let contents = [text.into_bytes(), Rng(1).bytes(100), vec![0; 300], vec![b'!']];
    let owner = |n: usize| Owner { ino: Ino(100 + n as u64), offset: n as u64 * 4096 };
    contents.into_iter().enumerate().map(|(n, raw)| (owner(n), raw)).collect()
}

pub(crate) fn pack(id: SegmentId, codec: Codec, records: &[(Owner, Vec<u8>)]) -> SealedSegment {
    let mut builder = SegmentBuilder::new(id, codec, 16 << 20);
    for (owner, raw) in records {
        builder.push(*owner, raw).expect("packs");
    }
    builder.finish()
}

/// Reads the record of `entry` out of its whole segment, as a ranged GET would.
pub(crate) fn read(whole: &Bytes, entry: &IndexEntry) -> Result<Bytes> {
    let start = (entry.record.position as usize).min(whole.len());
    let end = (start + entry.record.stored_bytes as usize).min(whole.len());
    decode_record(&entry.record, Some(entry.owner), &whole.slice(start..end))
}
