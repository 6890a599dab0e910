//! Packing records into a segment.

use bytes::Bytes;
use weir_keys::{Place, SEALED_MORE_BYTES, Sealer, VolumeKeys};
use weir_types::{CHUNK_BYTES, Codec, ErrorKind, FsError, RecordRef, Result, SegmentId};

use crate::codec::{Compressor, codec_byte};
use crate::layout::{
    CIPHER_AES_256_GCM, CIPHER_NONE, FOOTER_BYTES, FOOTER_MAGIC, Footer, INDEX_ENTRY_BYTES,
    RECORD_HEADER_BYTES, RECORD_MAGIC, RecordHeader, SEGMENT_HEADER_BYTES, SegmentHeader,
    checksum_in,
};
use crate::{IndexEntry, Owner, SEGMENT_VERSION};

/// Up to this size the buffer doubles as it fills, so that a small segment stays small; past it,
/// room for the whole target is made at once, so that a large one is not copied again and again.
const SMALL_BYTES: usize = 1 << 20;
/// What a record may be.
const RECORD_SIZES: &str = "a record is 1 byte to 1 MiB of one chunk";

/// Packs records into one segment, in the order in which they are pushed.
///
/// Holds the stored bytes in memory: up to the target, one record more, and the index.
pub struct SegmentBuilder {
    id: SegmentId,
    target_bytes: u64,
    compressor: Compressor,
    sealer: Option<Sealer>,
    buf: Vec<u8>,
    records: Vec<IndexEntry>,
    raw_bytes: u64,
}

/// A finished segment, ready to be stored under `id.object_key()`.
#[derive(Clone, Debug)]
pub struct SealedSegment {
    /// Its name.
    pub id: SegmentId,
    /// The whole object.
    pub bytes: Bytes,
    /// Bytes that its records hold when decoded.
    pub raw_bytes: u64,
    /// Its records, in the order in which they were pushed.
    pub records: Vec<IndexEntry>,
}

impl SegmentBuilder {
    /// An empty segment named `id`, which is full at `target_bytes` stored bytes and compresses its
    /// records with `codec`.
    pub fn new(id: SegmentId, codec: Codec, target_bytes: u64) -> Self {
        Self::in_buffer(id, codec, target_bytes, Vec::new())
    }

    /// The same, in the memory of `buf`, whatever that held.
    pub fn in_buffer(id: SegmentId, codec: Codec, target_bytes: u64, mut buf: Vec<u8>) -> Self {
        buf.clear();
        SegmentHeader::append(id, CIPHER_NONE, &mut buf);
        let compressor = Compressor::new(codec);
        Self { id, target_bytes, compressor, sealer: None, buf, records: Vec::new(), raw_bytes: 0 }
    }

    /// The same, of a volume with these keys: what is pushed from now on is sealed, unless there are none.
    #[must_use]
    pub fn sealed_by(mut self, keys: &VolumeKeys) -> Self {
        self.sealer = keys.sealer(Place::Segment(self.id.0));
        if self.records.is_empty() {
            self.buf.clear();
            SegmentHeader::append(self.id, self.cipher(), &mut self.buf);
        }
        self
    }

    fn cipher(&self) -> u8 {
        self.sealer.as_ref().map_or(CIPHER_NONE, |_| CIPHER_AES_256_GCM)
    }

    /// Bytes of a record beside its raw bytes, at most.
    fn more_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.sealer.as_ref().map_or(0, |_| SEALED_MORE_BYTES)
    }

    /// Adds `raw`, which `owner` holds, and says where it went. Bytes that do not compress by at
    /// least a sixteenth are stored as they are. A full segment still takes records.
    ///
    /// # Errors
    /// `Invalid` when `raw` is empty or crosses a chunk's edge, or when the segment would grow past
    /// 4 GiB. The segment is then as it was before.
    pub fn push(&mut self, owner: Owner, raw: &[u8]) -> Result<RecordRef> {
        let pushed = self.push_with(owner, raw.len(), |buf| {
            buf.extend_from_slice(raw);
            Ok(())
        })?;
        pushed.ok_or_else(|| self.refuse(owner, 0, RECORD_SIZES))
    }

    /// Like [`Self::push`], of up to `most` bytes that `fill` appends to a buffer, which is where they
    /// stay if they are stored as they are. `None` when it appends nothing.
    ///
    /// # Errors
    /// Those of [`Self::push`], and those of `fill`.
    pub fn push_with(
        &mut self,
        owner: Owner,
        most: usize,
        fill: impl FnOnce(&mut Vec<u8>) -> Result<()>,
    ) -> Result<Option<RecordRef>> {
        let room = CHUNK_BYTES - owner.offset % CHUNK_BYTES;
        if most == 0 || most as u64 > room {
            return Err(self.refuse(owner, most, RECORD_SIZES));
        }
        let worst = self.stored_bytes() + (self.more_bytes() + most + INDEX_ENTRY_BYTES) as u64;
        let (Ok(_), Ok(position)) = (u32::try_from(worst), u32::try_from(self.buf.len())) else {
            let why = "a segment holds less than 4 GiB: start another";
            return Err(self.refuse(owner, most, why));
        };
        let more_bytes = self.more_bytes();
        reserve(&mut self.buf, more_bytes + most, self.target_bytes);
        let (start, payload) = (self.buf.len(), self.buf.len() + self.room_bytes());
        self.buf.resize(payload, 0);
        let filled = fill(&mut self.buf).map(|()| self.buf.len().saturating_sub(payload));
        let raw_bytes = match filled {
            Ok(raw_bytes) if (1..=most).contains(&raw_bytes) => raw_bytes,
            other => {
                self.buf.truncate(start);
                return match other? {
                    0 => Ok(None),
                    longer => Err(self.refuse(owner, longer, RECORD_SIZES)),
                };
            }
        };
        match self.complete(owner, position, raw_bytes) {
            Ok(record) => Ok(Some(record)),
            Err(error) => {
                self.buf.truncate(start);
                Err(error)
            }
        }
    }

    /// Room to leave before a record's bytes.
    fn room_bytes(&self) -> usize {
        RECORD_HEADER_BYTES + self.sealer.as_ref().map_or(0, |_| Sealer::ROOM_BYTES)
    }

    /// Makes a record of the last bytes of the buffer, which has room for what comes before them.
    fn complete(&mut self, owner: Owner, position: u32, raw_bytes: usize) -> Result<RecordRef> {
        let payload = position as usize + self.room_bytes();
        let codec = match self.compressor.compress(&self.buf[payload..]) {
            Some((codec, compressed)) => {
                self.buf.truncate(payload);
                self.buf.extend_from_slice(compressed);
                codec
            }
            None => Codec::None,
        };
        let sealed_more = self.sealer.as_ref().map_or(0, |_| SEALED_MORE_BYTES);
        let header = RecordHeader {
            magic: RECORD_MAGIC,
            checksum: 0,
            codec: codec_byte(codec),
            cipher: self.cipher(),
            flags: self.sealer.as_ref().map_or(0, Sealer::number),
            raw_bytes: raw_bytes as u32,
            payload_bytes: (self.buf.len() - payload + sealed_more) as u32,
            owner,
        };
        header.write(&mut self.buf[position as usize..]);
        if let Some(sealer) = &self.sealer {
            let with = RecordHeader::sealed_with(&self.buf[position as usize..]);
            sealer.seal(&with, &mut self.buf, position as usize + RECORD_HEADER_BYTES)?;
        }
        let stored = &mut self.buf[position as usize..];
        let checksum = RecordHeader::complete(self.id, stored);
        let record = RecordRef {
            segment: self.id,
            position,
            stored_bytes: stored.len() as u32,
            raw_bytes: raw_bytes as u32,
            checksum,
        };
        self.records.push(IndexEntry { owner, record });
        self.raw_bytes += raw_bytes as u64;
        Ok(record)
    }

    /// Bytes of the object if it were finished now.
    pub fn stored_bytes(&self) -> u64 {
        (self.buf.len() + self.records.len() * INDEX_ENTRY_BYTES + FOOTER_BYTES) as u64
    }

    /// Bytes that the records so far hold when decoded.
    pub fn raw_bytes(&self) -> u64 {
        self.raw_bytes
    }

    /// Whether the segment has reached its target and should leave.
    pub fn is_full(&self) -> bool {
        self.stored_bytes() >= self.target_bytes
    }

    /// Whether nothing was pushed yet.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// Writes the index and footer. The object is exactly [`Self::stored_bytes`] long.
    pub fn finish(mut self) -> SealedSegment {
        let index_position = self.buf.len();
        let index_bytes = self.records.len() * INDEX_ENTRY_BYTES;
        self.buf.reserve_exact(index_bytes + FOOTER_BYTES);
        for entry in &self.records {
            entry.append(&mut self.buf);
        }
        // `push` keeps the whole object below 4 GiB, so these fit.
        let footer = Footer {
            id: self.id,
            index_checksum: checksum_in(self.id, &self.buf[index_position..]),
            index_position: index_position as u32,
            index_bytes: index_bytes as u32,
            records: self.records.len() as u32,
            version: SEGMENT_VERSION,
            cipher: self.cipher(),
            magic: FOOTER_MAGIC,
            sound: true,
        };
        footer.append(&mut self.buf);
        let (id, raw_bytes, records) = (self.id, self.raw_bytes, self.records);
        SealedSegment { id, bytes: Bytes::from(self.buf), raw_bytes, records }
    }

    fn refuse(&self, owner: Owner, len: usize, why: &str) -> FsError {
        let (ino, offset) = (owner.ino, owner.offset);
        let key = self.id.object_key();
        let what = format!("cannot pack {len} bytes at {offset} of inode {ino} into {key}: {why}");
        FsError::new(ErrorKind::Invalid, what)
    }
}

/// Makes room for `more` bytes.
fn reserve(buf: &mut Vec<u8>, more: usize, target_bytes: u64) {
    let need = buf.len() + more;
    if need <= SMALL_BYTES {
        buf.reserve(more);
    }
    if need <= buf.capacity() {
        return;
    }
    let target = usize::try_from(target_bytes).unwrap_or(0).min(256 << 20);
    let headers = RECORD_HEADER_BYTES + SEALED_MORE_BYTES + SEGMENT_HEADER_BYTES;
    let whole = target + CHUNK_BYTES as usize + headers;
    match need <= whole {
        true => buf.reserve_exact(whole - buf.len()),
        false => buf.reserve(more),
    }
}
