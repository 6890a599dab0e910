//! Compression of one record. What flows out of [`Compressor::compress`] is clearly smaller than what came in.

use std::cell::RefCell;

use bytes::Bytes;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};
use weir_types::Codec;

/// Zstandard's own default: about a third of LZ4's speed for a clearly better ratio.
const ZSTD_LEVEL: i32 = 3;

/// The byte that names `codec` in a record header.
pub(crate) fn codec_byte(codec: Codec) -> u8 {
    match codec {
        Codec::None => 0,
        Codec::Lz4 => 1,
        Codec::Zstd => 2,
    }
}

/// The codec that `byte` names, if this build knows it.
pub(crate) fn codec_of(byte: u8) -> Option<Codec> {
    match byte {
        0 => Some(Codec::None),
        1 => Some(Codec::Lz4),
        2 => Some(Codec::Zstd),
        _ => None,
    }
}

/// The least part of a record that compression must save.
const LEAST_SAVING: usize = 16;
/// Records of this length on are looked at before they are compressed.
const GUESS_BYTES: usize = 64 << 10;
/// Where four bytes were seen last, by a hash of them.
type Seen = [u32; 1 << SEEN_BITS];
const SEEN_BITS: u32 = 12;

enum Encoder {
    None,
    Lz4(CompressTable, Box<Seen>),
    Zstd(zstd::bulk::Compressor<'static>),
}

/// Compresses records one after another into a scratch buffer that it keeps.
pub(crate) struct Compressor {
    encoder: Encoder,
    scratch: Vec<u8>,
}

impl Compressor {
    pub(crate) fn new(codec: Codec) -> Self {
        let encoder = match codec {
            Codec::None => Encoder::None,
            // The large table from the start: a record's bytes then do not depend on the sizes of
            // those before it.
            Codec::Lz4 => Encoder::Lz4(CompressTable::large(), Box::new([0; 1 << SEEN_BITS])),
            // Only for want of memory; records stored as they are remain right.
            Codec::Zstd => {
                zstd::bulk::Compressor::new(ZSTD_LEVEL).map_or(Encoder::None, Encoder::Zstd)
            }
        };
        Self { encoder, scratch: Vec::new() }
    }

    /// What to store in the place of `raw`, and how that is stored. Compression that saves less than a
    /// sixteenth is not worth the work of every later read: `None` then.
    pub(crate) fn compress(&mut self, raw: &[u8]) -> Option<(Codec, &[u8])> {
        if let Encoder::Lz4(_, seen) = &mut self.encoder
            && raw.len() >= GUESS_BYTES
            && !repeats(raw, seen)
        {
            return None;
        }
        let bound = match self.encoder {
            Encoder::None => return None,
            Encoder::Lz4(..) => get_maximum_output_size(raw.len()),
            Encoder::Zstd(_) => zstd::zstd_safe::compress_bound(raw.len()),
        };
        if self.scratch.len() < bound {
            self.scratch.resize(bound, 0);
        }
        let output = &mut self.scratch[..bound];
        let (codec, len) = match &mut self.encoder {
            Encoder::None => return None,
            Encoder::Lz4(table, _) => {
                (Codec::Lz4, compress_into_with_table(raw, output, table).ok()?)
            }
            Encoder::Zstd(zstd) => (Codec::Zstd, zstd.compress_to_buffer(raw, output).ok()?),
        };
        let least_saving = (raw.len() / LEAST_SAVING).max(1);
        (len + least_saving <= raw.len()).then(|| (codec, &self.scratch[..len]))
    }
}

/// Whether LZ4 may save a sixteenth of `raw`: looks for what repeats as LZ4 itself does, with longer
/// and longer steps where nothing does, and writes nothing. LZ4 ends such a search with a copy of all
/// that did not repeat. A half of that is enough here: what is near is for LZ4 to say.
fn repeats(raw: &[u8], seen: &mut Seen) -> bool {
    const LONGEST_WAY: usize = u16::MAX as usize;
    let enough = raw.len() / LEAST_SAVING / 2;
    let word = |at: usize| raw[at..].first_chunk::<4>().copied().map(u32::from_le_bytes);
    seen.fill(0);
    let (mut at, mut misses, mut saved) = (1, 0, 0);
    while let Some(here) = raw.get(at..).and_then(|rest| rest.first_chunk::<4>()) {
        let here = u32::from_le_bytes(*here);
        let place = &mut seen[(here.wrapping_mul(2_654_435_761) >> (32 - SEEN_BITS)) as usize];
        let before = std::mem::replace(place, at as u32) as usize;
        if at - before > LONGEST_WAY || word(before) != Some(here) {
            at += 1 + misses / 32;
            misses += 1;
            continue;
        }
        let same = raw[before..].iter().zip(&raw[at..]).take_while(|(a, b)| a == b).count();
        // What stands for the repeated bytes takes three, or a few more.
        saved += same - 3;
        if saved >= enough {
            return true;
        }
        (at, misses) = (at + same, 0);
    }
    false
}

thread_local! {
    /// Kept because making one takes longer than decoding a small record.
    static ZSTD_DECODER: RefCell<Option<zstd::bulk::Decompressor<'static>>> =
        const { RefCell::new(None) };
}

/// The `raw_bytes` bytes that `payload` was made from with `codec`; says what is wrong with it
/// otherwise. Takes no more memory than `raw_bytes`, and none for bytes stored as they are.
pub(crate) fn decompress(codec: Codec, payload: Bytes, raw_bytes: usize) -> Result<Bytes, String> {
    let raw = match codec {
        Codec::None => payload,
        Codec::Lz4 => {
            let mut raw = vec![0; raw_bytes];
            let len = decompress_into(&payload, &mut raw).map_err(|e| e.to_string())?;
            raw.truncate(len);
            Bytes::from(raw)
        }
        Codec::Zstd => {
            let raw = ZSTD_DECODER.with_borrow_mut(|decoder| {
                let decoder = match decoder {
                    Some(decoder) => decoder,
                    None => decoder.insert(zstd::bulk::Decompressor::new()?),
                };
                decoder.decompress(&payload, raw_bytes)
            });
            Bytes::from(raw.map_err(|e| e.to_string())?)
        }
    };
    if raw.len() != raw_bytes {
        return Err(format!("it holds {} bytes, not {raw_bytes}", raw.len()));
    }
    Ok(raw)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Bytes that do not repeat.
    fn noise(len: usize) -> Vec<u8> {
        let mut state = 1_u64;
        let next = || {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 56) as u8
        };
        std::iter::repeat_with(next).take(len).collect()
    }

    #[test]
    fn large_records_are_compressed_as_far_as_lz4_can_and_no_others_are() {
        let len = 1 << 20;
        let with = |change: &dyn Fn(&mut [u8])| {
            let mut bytes = noise(len);
            change(&mut bytes);
            bytes
        };
        let rows = [
            ("noise", false, noise(len)),
            ("zeros", true, vec![0; len]),
            ("zeros at the end", true, with(&|b| b[len - (96 << 10)..].fill(0))),
            ("zeros in the middle", true, with(&|b| b[len / 2..len / 2 + (96 << 10)].fill(0))),
            ("too few zeros", false, with(&|b| b[..len / 20].fill(0))),
            (
                "what repeats far away",
                true,
                with(&|b| (0..4).for_each(|n| b.copy_within(..60_000, n * 60_000))),
            ),
            ("one too far", false, with(&|b| b.copy_within(..100_000, 500_000))),
            ("text", true, b"a line of a log, number 17\n".repeat(len / 27)),
            ("16-bit samples", false, with(&|b| b.iter_mut().step_by(2).for_each(|b| *b = 7))),
        ];
        for (what, shrinks, raw) in rows {
            let mut compressor = Compressor::new(Codec::Lz4);
            let packed = compressor.compress(&raw).map(|(codec, bytes)| (codec, bytes.to_vec()));
            assert_eq!(packed.is_some(), shrinks, "{what}");
            let lz4 = lz4_flex::block::compress(&raw).len();
            assert_eq!(lz4 + raw.len() / LEAST_SAVING <= raw.len(), shrinks, "{what}: LZ4 itself");
            if let Some((codec, bytes)) = packed {
                let back = decompress(codec, bytes.into(), raw.len()).expect("unpacks");
                assert!(back == raw, "{what}");
            }
        }
    }
}
