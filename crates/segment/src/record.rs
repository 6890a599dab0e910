//! One record: verify and decode.

use std::ops::Range;

use bytes::Bytes;
use weir_keys::{SEALED_MORE_BYTES, VolumeKeys};
use weir_types::{CHUNK_BYTES, Codec, ErrorKind, FsError, RecordRef, Result, SegmentId};

use crate::codec::{codec_of, decompress};
use crate::entry::Owner;
use crate::layout::{
    CIPHER_AES_256_GCM, CIPHER_NONE, RECORD_HEADER_BYTES, RECORD_MAGIC, RecordHeader,
};

/// The raw bytes of `record`, given the bytes stored at its place, which must be exactly
/// `record.stored_bytes` long. With `owner`, also checks that the record was made for it. `keys` are the
/// volume's: where there are some, what is not sealed by one of them is not the volume's.
///
/// Bytes stored uncompressed are a slice of `stored`, without a copy (they keep all of its memory
/// alive); others take `record.raw_bytes` of new memory. What is sealed is opened in its place where nobody else has
/// `stored`, else in new memory.
///
/// # Errors
/// `Corrupt` when anything is not as it was written, or is another record than the one meant;
/// `Unsupported` when a newer Weir wrote it. Both name the object and the record's place.
pub fn decode_record(
    keys: &VolumeKeys,
    record: &RecordRef,
    owner: Option<Owner>,
    stored: Bytes,
) -> Result<Bytes> {
    let at = Place { id: record.segment, position: u64::from(record.position) };
    if stored.len() as u64 != u64::from(record.stored_bytes) {
        let (have, want) = (stored.len(), record.stored_bytes);
        return Err(at.corrupt(&format!("{have} bytes were read, {want} were written")));
    }
    let (header, codec) = open(at, &stored)?;
    if header.checksum != record.checksum || header.raw_bytes != record.raw_bytes {
        return Err(at.corrupt("a sound record, but not the one that the metadata means"));
    }
    if let Some(owner) = owner.filter(|owner| *owner != header.owner) {
        let (is, want) = (header.owner, owner);
        return Err(at.corrupt(&format!(
            "it holds offset {} of inode {}, not offset {} of inode {}",
            is.offset, is.ino, want.offset, want.ino
        )));
    }
    let payload = unseal(at, keys, &header, stored)?;
    decompress(codec, payload, header.raw_bytes as usize)
        .map_err(|why| at.corrupt(&format!("its checksum holds but it does not unpack: {why}")))
}

/// The payload of a record as it was compressed.
fn unseal(at: Place, keys: &VolumeKeys, header: &RecordHeader, stored: Bytes) -> Result<Bytes> {
    match (header.cipher, keys.is_empty()) {
        (CIPHER_NONE, true) => return Ok(stored.slice(RECORD_HEADER_BYTES..)),
        (CIPHER_NONE, false) => {
            return Err(
                at.corrupt("it is not encrypted, and the volume is: no Weir wrote it there")
            );
        }
        (_, true) => return Err(at.corrupt("it is encrypted, and the volume is not")),
        (_, false) => {}
    }
    let number = header.flags;
    let place = weir_keys::Place::Segment(at.id.0);
    let Some(opener) = keys.opener(number, place) else {
        let why =
            format!("it is sealed by key number {number}, which came since: mount the volume anew");
        return Err(at.corrupt(&why));
    };
    let with = RecordHeader::sealed_with(&stored);
    let opened = match stored.try_into_mut() {
        Ok(mut own) => opener.open_in_place(&with, &mut own[RECORD_HEADER_BYTES..]).map(
            |Range { start, end }| {
                own.freeze().slice(RECORD_HEADER_BYTES + start..RECORD_HEADER_BYTES + end)
            },
        ),
        Err(shared) => opener.open(&with, &shared[RECORD_HEADER_BYTES..]).map(Bytes::from),
    };
    opened.ok_or_else(|| {
        at.corrupt("its checksum holds, but the volume's key does not open it: somebody changed it")
    })
}

/// Where a record stands, for messages.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    pub(crate) id: SegmentId,
    pub(crate) position: u64,
}

impl Place {
    pub(crate) fn corrupt(self, why: &str) -> FsError {
        self.error(ErrorKind::Corrupt, why)
    }

    pub(crate) fn unsupported(self, what: &str) -> FsError {
        let why = format!("{what} is unknown to this version: a newer Weir is needed to read it");
        self.error(ErrorKind::Unsupported, &why)
    }

    fn error(self, kind: ErrorKind, why: &str) -> FsError {
        let key = self.id.object_key();
        FsError::new(kind, format!("record at byte {} of {key}: {why}", self.position))
    }
}

/// Verifies `stored`, which is one whole record, up to but not including its compressed bytes.
pub(crate) fn open(at: Place, stored: &[u8]) -> Result<(RecordHeader, Codec)> {
    let header = RecordHeader::read(stored).ok_or_else(|| at.corrupt("it is cut short"))?;
    if header.magic != RECORD_MAGIC {
        return Err(at.corrupt("no record starts there"));
    }
    if !header.checks(at.id, stored) {
        return Err(at.corrupt("its checksum does not hold: the stored bytes are damaged"));
    }
    // From here on the bytes are those that some Weir wrote.
    let sealed_more = match header.cipher {
        CIPHER_NONE => 0,
        CIPHER_AES_256_GCM => SEALED_MORE_BYTES as u32,
        other => return Err(at.unsupported(&format!("cipher {other}"))),
    };
    if header.cipher == CIPHER_NONE && header.flags != 0 {
        return Err(at.unsupported(&format!("flags {:#06x}", header.flags)));
    }
    let Some(codec) = codec_of(header.codec) else {
        return Err(at.unsupported(&format!("codec {}", header.codec)));
    };
    let (raw, payload) = (header.raw_bytes, header.payload_bytes);
    let whole = payload as usize == stored.len() - RECORD_HEADER_BYTES;
    let packed = payload.checked_sub(sealed_more);
    let sized = (1..=CHUNK_BYTES as u32).contains(&raw)
        && packed.is_some_and(|packed| codec != Codec::None || packed == raw);
    if !whole || !sized {
        return Err(at.corrupt("its lengths make no sense"));
    }
    Ok((header, codec))
}
