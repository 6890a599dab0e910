//! Compression of one record. What flows out of [`Compressor::compress`] is either compressed and
//! clearly smaller, or the very bytes that came in.

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

enum Encoder {
    None,
    Lz4(CompressTable),
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
            Codec::Lz4 => Encoder::Lz4(CompressTable::large()),
            // Only for want of memory; records stored as they are remain right.
            Codec::Zstd => {
                zstd::bulk::Compressor::new(ZSTD_LEVEL).map_or(Encoder::None, Encoder::Zstd)
            }
        };
        Self { encoder, scratch: Vec::new() }
    }

    /// The bytes to store for `raw` and how they are stored. Compression that saves less than a
    /// sixteenth is not worth the work of every later read: `raw` itself is stored then.
    pub(crate) fn compress<'a>(&'a mut self, raw: &'a [u8]) -> (Codec, &'a [u8]) {
        let bound = match self.encoder {
            Encoder::None => 0,
            Encoder::Lz4(_) => get_maximum_output_size(raw.len()),
            Encoder::Zstd(_) => zstd::zstd_safe::compress_bound(raw.len()),
        };
        if self.scratch.len() < bound {
            self.scratch.resize(bound, 0);
        }
        let output = &mut self.scratch[..bound];
        let (codec, len) = match &mut self.encoder {
            Encoder::None => (Codec::None, None),
            Encoder::Lz4(table) => (Codec::Lz4, compress_into_with_table(raw, output, table).ok()),
            Encoder::Zstd(zstd) => (Codec::Zstd, zstd.compress_to_buffer(raw, output).ok()),
        };
        let least_saving = (raw.len() / 16).max(1);
        match len {
            Some(len) if len + least_saving <= raw.len() => (codec, &self.scratch[..len]),
            _ => (Codec::None, raw),
        }
    }
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
