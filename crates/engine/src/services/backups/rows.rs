//! Rows of metadata as objects: segments whose records are pieces of one stream of rows.

use std::sync::atomic::Ordering;

use bytes::Bytes;
use weir_keys::VolumeKeys;
use weir_meta::{Adding, Meta, Sum, dump};
use weir_object::{Bucket, Component};
use weir_segment::{Owner, Scanned, SegmentBuilder, decode_record, scan_records};
use weir_types::{CHUNK_BYTES, Codec, ErrorKind, FsError, Ino, Result, SegmentId};

use super::manifest::{BackupView, rows_key};
use super::progress::BackupProgress;

/// Bytes of an object.
const OBJECT_BYTES: u64 = 16 << 20;
/// Before each row, the lengths of its key and of its value.
const LENGTHS_BYTES: usize = 8;

/// Writes rows, in the order of their keys.
struct RowsWriter<'a> {
    bucket: &'a Bucket,
    /// The volume's: what is in its metadata is hidden in its backups, too.
    keys: &'a VolumeKeys,
    /// Where they are written.
    at: &'a str,
    /// Names the first object.
    first: SegmentId,
    objects: u32,
    builder: SegmentBuilder,
    /// Rows of a record that is not full.
    piece: Vec<u8>,
    pieces: u64,
    sum: Adding,
}

/// What was written.
pub(super) struct Written {
    pub(super) objects: u32,
    pub(super) sum: Sum,
}

fn named(first: SegmentId, number: u32) -> SegmentId {
    SegmentId(first.0.wrapping_add(u128::from(number)))
}

impl<'a> RowsWriter<'a> {
    fn new(bucket: &'a Bucket, keys: &'a VolumeKeys, at: &'a str, first: SegmentId) -> Self {
        let builder = SegmentBuilder::new(first, Codec::Zstd, OBJECT_BYTES).sealed_by(keys);
        let (piece, sum) = (Vec::new(), Adding::default());
        Self { bucket, keys, at, first, objects: 0, builder, piece, pieces: 0, sum }
    }

    async fn add(&mut self, key: &[u8], value: &[u8]) -> Result<()> {
        let bytes = LENGTHS_BYTES + key.len() + value.len();
        if bytes as u64 > CHUNK_BYTES {
            let text = format!("row {} of the metadata has {bytes} bytes", key.escape_ascii());
            return Err(FsError::new(ErrorKind::TooLarge, text));
        }
        if (self.piece.len() + bytes) as u64 > CHUNK_BYTES {
            self.end_piece()?;
            if self.builder.is_full() {
                self.put().await?;
            }
        }
        for part in [key, value] {
            self.piece.extend_from_slice(&(part.len() as u32).to_le_bytes());
        }
        self.piece.extend_from_slice(key);
        self.piece.extend_from_slice(value);
        self.sum.add(key, value);
        Ok(())
    }

    fn end_piece(&mut self) -> Result<()> {
        if !self.piece.is_empty() {
            let owner = Owner { ino: Ino(0), offset: self.pieces * CHUNK_BYTES };
            self.builder.push(owner, &self.piece)?;
            self.piece.clear();
            self.pieces += 1;
        }
        Ok(())
    }

    async fn put(&mut self) -> Result<()> {
        let next = named(self.first, self.objects + 1);
        let builder = SegmentBuilder::new(next, Codec::Zstd, OBJECT_BYTES).sealed_by(self.keys);
        let sealed = std::mem::replace(&mut self.builder, builder).finish();
        let key = rows_key(self.at, self.objects);
        self.bucket.put(Component::Meta, &key, sealed.bytes).await?;
        self.objects += 1;
        Ok(())
    }

    async fn end(mut self) -> Result<Written> {
        self.end_piece()?;
        self.put().await?;
        Ok(Written { objects: self.objects, sum: self.sum.end() })
    }
}

/// Writes all rows of a state of metadata that a volume can begin with.
pub(super) async fn write_rows(
    bucket: &Bucket,
    (at, first): (&str, SegmentId),
    (keys, view): (&VolumeKeys, &Meta),
    progress: &BackupProgress,
) -> Result<Written> {
    let mut writer = RowsWriter::new(bucket, keys, at, first);
    let mut after = None;
    loop {
        let page = dump(&**view.kv(), after.as_deref()).await?;
        for (key, value) in &page.rows {
            writer.add(key, value).await?;
        }
        progress.rows.fetch_add(page.rows.len() as u64, Ordering::Relaxed);
        after = page.next;
        if after.is_none() {
            return writer.end().await;
        }
    }
}

/// The rows of one object of what is `at` a place. One GET.
pub(super) async fn read_rows(
    bucket: &Bucket,
    keys: &VolumeKeys,
    (at, view): (&str, &BackupView),
    number: u32,
) -> Result<Vec<(Vec<u8>, Bytes)>> {
    let key = rows_key(at, number);
    let bad = |why: &str| {
        let text = format!("{}/{key}: {why}; restore another backup", bucket.url());
        FsError::new(ErrorKind::Corrupt, text)
    };
    let first = u128::from_str_radix(&view.rows_id, 16);
    let first = SegmentId(first.map_err(|_| bad("backup.json names it by no number"))?);
    let whole = match bucket.get(Component::Meta, &key).await {
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(bad("it is missing")),
        whole => whole?,
    };
    let mut rows = Vec::new();
    for scanned in scan_records(named(first, number), &whole)? {
        let Scanned::Record(entry) = scanned else { return Err(bad("it is damaged")) };
        let (from, bytes) = (entry.record.position as usize, entry.record.stored_bytes as usize);
        let stored = whole.slice(from..from + bytes);
        let mut piece = decode_record(keys, &entry.record, Some(entry.owner), stored)?;
        while !piece.is_empty() {
            rows.push(take_row(&mut piece).ok_or_else(|| bad("a row in it is cut off"))?);
        }
    }
    Ok(rows)
}

fn take_row(piece: &mut Bytes) -> Option<(Vec<u8>, Bytes)> {
    let length = |at: usize| {
        let bytes = piece.get(at..at + 4)?.try_into().ok()?;
        Some(u32::from_le_bytes(bytes) as usize)
    };
    let (key, value) = (length(0)?, length(4)?);
    if piece.len() < LENGTHS_BYTES + key + value {
        return None;
    }
    drop(piece.split_to(LENGTHS_BYTES));
    let key = piece.split_to(key).to_vec();
    Some((key, piece.split_to(value)))
}
