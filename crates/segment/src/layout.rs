//! The fixed pieces of a segment, byte by byte: header, record header, index entry and footer.
//! All numbers are little endian. Reading answers `None` only when bytes are missing; judging
//! what was read is the callers' work.

use weir_keys::SEALED_MORE_BYTES;
use weir_types::{CHUNK_BYTES, Ino, RecordRef, SegmentId};
use xxhash_rust::xxh3::{xxh3_64, xxh3_64_with_seed};

use crate::SEGMENT_VERSION;
use crate::entry::{IndexEntry, Owner};

pub(crate) const SEGMENT_MAGIC: [u8; 8] = *b"WeirSeg\n";
pub(crate) const RECORD_MAGIC: [u8; 4] = *b"WRec";
pub(crate) const FOOTER_MAGIC: [u8; 8] = *b"WeirEnd\n";

pub(crate) const SEGMENT_HEADER_BYTES: usize = 80;
pub(crate) const RECORD_HEADER_BYTES: usize = 40;
pub(crate) const INDEX_ENTRY_BYTES: usize = 36;
pub(crate) const FOOTER_BYTES: usize = 64;

/// Payloads are as they were compressed.
pub(crate) const CIPHER_NONE: u8 = 0;
/// Payloads are sealed by AES-256-GCM; the number of the volume's key stands where the flags are.
pub(crate) const CIPHER_AES_256_GCM: u8 = 1;
/// Longest payload: a chunk, sealed.
pub(crate) const PAYLOAD_MOST_BYTES: usize = CHUNK_BYTES as usize + SEALED_MORE_BYTES;

/// Where in a record its checksum stands, and from where on it counts.
const RECORD_CHECKSUM_AT: usize = 4;
const RECORD_SUMMED_FROM: usize = 12;
/// Where in the segment header and in the footer their own checksums stand; they count all before.
const HEADER_CHECKSUM_AT: usize = SEGMENT_HEADER_BYTES - 8;
const FOOTER_CHECKSUM_AT: usize = FOOTER_BYTES - 16;

/// Checksum of `bytes` as part of segment `id`: the random end of the id is the seed, so that the
/// same bytes in another segment have another checksum.
pub(crate) fn checksum_in(id: SegmentId, bytes: &[u8]) -> u64 {
    xxh3_64_with_seed(bytes, id.0 as u64)
}

/// Takes fixed-size fields off the front of a slice.
struct Fields<'a>(&'a [u8]);

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (field, rest) = self.0.split_first_chunk()?;
        self.0 = rest;
        Some(*field)
    }

    fn u8(&mut self) -> Option<u8> {
        self.take().map(u8::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn id(&mut self) -> Option<SegmentId> {
        self.take().map(u128::from_le_bytes).map(SegmentId)
    }
}

/// What stands at the front of every segment.
pub(crate) struct SegmentHeader {
    pub(crate) magic: [u8; 8],
    pub(crate) version: u32,
    pub(crate) cipher: u8,
    pub(crate) id: SegmentId,
    /// Whether the header's own checksum holds.
    pub(crate) sound: bool,
}

impl SegmentHeader {
    pub(crate) fn append(id: SegmentId, cipher: u8, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&SEGMENT_MAGIC);
        out.extend_from_slice(&SEGMENT_VERSION.to_le_bytes());
        out.extend_from_slice(&[cipher, 0, 0, 0]);
        out.extend_from_slice(&id.0.to_le_bytes());
        out.resize(start + HEADER_CHECKSUM_AT, 0);
        let checksum = xxh3_64(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let summed = bytes.get(..HEADER_CHECKSUM_AT)?;
        let stored = Fields(bytes.get(HEADER_CHECKSUM_AT..)?).u64()?;
        let mut fields = Fields(summed);
        let (magic, version, cipher) = (fields.take()?, fields.u32()?, fields.u8()?);
        fields.take::<3>()?;
        let id = fields.id()?;
        Some(Self { magic, version, cipher, id, sound: stored == xxh3_64(summed) })
    }
}

/// What stands before every record's payload.
pub(crate) struct RecordHeader {
    pub(crate) magic: [u8; 4],
    pub(crate) checksum: u64,
    pub(crate) codec: u8,
    pub(crate) cipher: u8,
    pub(crate) flags: u16,
    pub(crate) raw_bytes: u32,
    pub(crate) payload_bytes: u32,
    pub(crate) owner: Owner,
}

impl RecordHeader {
    /// Writes this to the front of a record but for its checksum, which is not looked at.
    pub(crate) fn write(&self, record: &mut [u8]) {
        let mut head = Vec::with_capacity(RECORD_HEADER_BYTES);
        head.extend_from_slice(&self.magic);
        head.extend_from_slice(&[0; 8]);
        head.extend_from_slice(&[self.codec, self.cipher]);
        head.extend_from_slice(&self.flags.to_le_bytes());
        head.extend_from_slice(&self.raw_bytes.to_le_bytes());
        head.extend_from_slice(&self.payload_bytes.to_le_bytes());
        head.extend_from_slice(&self.owner.ino.0.to_le_bytes());
        head.extend_from_slice(&self.owner.offset.to_le_bytes());
        record[..RECORD_HEADER_BYTES].copy_from_slice(&head);
    }

    /// Completes a record in segment `id`, whose header and payload are in their places, and returns its checksum.
    pub(crate) fn complete(id: SegmentId, record: &mut [u8]) -> u64 {
        let checksum = checksum_in(id, &record[RECORD_SUMMED_FROM..]);
        record[RECORD_CHECKSUM_AT..RECORD_SUMMED_FROM].copy_from_slice(&checksum.to_le_bytes());
        checksum
    }

    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        Some(Self {
            magic: fields.take()?,
            checksum: fields.u64()?,
            codec: fields.u8()?,
            cipher: fields.u8()?,
            flags: fields.u16()?,
            raw_bytes: fields.u32()?,
            payload_bytes: fields.u32()?,
            owner: Owner { ino: Ino(fields.u64()?), offset: fields.u64()? },
        })
    }

    /// What the tag of a sealed payload covers beside it: all of the header behind the checksum.
    pub(crate) fn sealed_with(record: &[u8]) -> [u8; RECORD_HEADER_BYTES - RECORD_SUMMED_FROM] {
        let mut with = [0; RECORD_HEADER_BYTES - RECORD_SUMMED_FROM];
        with.copy_from_slice(&record[RECORD_SUMMED_FROM..RECORD_HEADER_BYTES]);
        with
    }

    /// Whether the record that `stored` holds, whole, is what was written to segment `id`.
    pub(crate) fn checks(&self, id: SegmentId, stored: &[u8]) -> bool {
        let summed = stored.get(RECORD_SUMMED_FROM..);
        summed.is_some_and(|summed| checksum_in(id, summed) == self.checksum)
    }
}

impl IndexEntry {
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.owner.ino.0.to_le_bytes());
        out.extend_from_slice(&self.owner.offset.to_le_bytes());
        out.extend_from_slice(&self.record.checksum.to_le_bytes());
        out.extend_from_slice(&self.record.position.to_le_bytes());
        out.extend_from_slice(&self.record.stored_bytes.to_le_bytes());
        out.extend_from_slice(&self.record.raw_bytes.to_le_bytes());
    }

    pub(crate) fn read(segment: SegmentId, bytes: &[u8]) -> Option<Self> {
        let mut fields = Fields(bytes);
        let owner = Owner { ino: Ino(fields.u64()?), offset: fields.u64()? };
        let checksum = fields.u64()?;
        let (position, stored_bytes, raw_bytes) = (fields.u32()?, fields.u32()?, fields.u32()?);
        let record = RecordRef { segment, position, stored_bytes, raw_bytes, checksum };
        Some(Self { owner, record })
    }
}

/// What stands at the end of every segment.
pub(crate) struct Footer {
    pub(crate) id: SegmentId,
    pub(crate) index_checksum: u64,
    pub(crate) index_position: u32,
    pub(crate) index_bytes: u32,
    pub(crate) records: u32,
    pub(crate) version: u32,
    pub(crate) cipher: u8,
    pub(crate) magic: [u8; 8],
    /// Whether the footer's own checksum holds; not looked at when writing.
    pub(crate) sound: bool,
}

impl Footer {
    pub(crate) fn append(&self, out: &mut Vec<u8>) {
        let start = out.len();
        out.extend_from_slice(&self.id.0.to_le_bytes());
        out.extend_from_slice(&self.index_checksum.to_le_bytes());
        out.extend_from_slice(&self.index_position.to_le_bytes());
        out.extend_from_slice(&self.index_bytes.to_le_bytes());
        out.extend_from_slice(&self.records.to_le_bytes());
        out.extend_from_slice(&self.version.to_le_bytes());
        out.push(self.cipher);
        out.resize(start + FOOTER_CHECKSUM_AT, 0);
        let checksum = xxh3_64(&out[start..]);
        out.extend_from_slice(&checksum.to_le_bytes());
        out.extend_from_slice(&self.magic);
    }

    /// The footer that ends `tail`.
    pub(crate) fn read(tail: &[u8]) -> Option<Self> {
        let bytes = tail.last_chunk::<FOOTER_BYTES>()?;
        let summed = &bytes[..FOOTER_CHECKSUM_AT];
        let mut end = Fields(&bytes[FOOTER_CHECKSUM_AT..]);
        let (stored, magic) = (end.u64()?, end.take()?);
        let mut fields = Fields(summed);
        Some(Self {
            id: fields.id()?,
            index_checksum: fields.u64()?,
            index_position: fields.u32()?,
            index_bytes: fields.u32()?,
            records: fields.u32()?,
            version: fields.u32()?,
            cipher: fields.u8()?,
            magic,
            sound: stored == xxh3_64(summed),
        })
    }
}
