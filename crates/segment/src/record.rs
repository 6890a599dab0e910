//! One record: verify and decode.

use bytes::Bytes;
use weir_types::{CHUNK_BYTES, Codec, ErrorKind, FsError, RecordRef, Result, SegmentId};

use crate::codec::{codec_of, decompress};
use crate::entry::Owner;
use crate::layout::{CIPHER_NONE, RECORD_HEADER_BYTES, RECORD_MAGIC, RecordHeader};

/// The raw bytes of `record`, given the bytes stored at its place, which must be exactly
/// `record.stored_bytes` long. With `owner`, also checks that the record was made for it.
///
/// Bytes stored uncompressed are a slice of `stored`, without a copy (they keep all of its memory
/// alive); others take `record.raw_bytes` of new memory.
///
/// # Errors
/// `Corrupt` when anything is not as it was written, or is another record than the one meant;
/// `Unsupported` when a newer Weir wrote it. Both name the object and the record's place.
pub fn decode_record(record: &RecordRef, owner: Option<Owner>, stored: &Bytes) -> Result<Bytes> {
    let at = Place { id: record.segment, position: u64::from(record.position) };
    if stored.len() as u64 != u64::from(record.stored_bytes) {
        let (have, want) = (stored.len(), record.stored_bytes);
        return Err(at.corrupt(&format!("{have} bytes were read, {want} were written")));
    }
    let (header, codec) = open(at, stored)?;
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
    decompress(codec, stored.slice(RECORD_HEADER_BYTES..), header.raw_bytes as usize)
        .map_err(|why| at.corrupt(&format!("its checksum holds but it does not unpack: {why}")))
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
    if header.cipher != CIPHER_NONE {
        return Err(at.unsupported(&format!("cipher {}", header.cipher)));
    }
    if header.flags != 0 {
        return Err(at.unsupported(&format!("flags {:#06x}", header.flags)));
    }
    let Some(codec) = codec_of(header.codec) else {
        return Err(at.unsupported(&format!("codec {}", header.codec)));
    };
    let (raw, payload) = (header.raw_bytes, header.payload_bytes);
    let whole = payload as usize == stored.len() - RECORD_HEADER_BYTES;
    let sized = (1..=CHUNK_BYTES as u32).contains(&raw) && (codec != Codec::None || payload == raw);
    if !whole || !sized {
        return Err(at.corrupt("its lengths make no sense"));
    }
    Ok((header, codec))
}
