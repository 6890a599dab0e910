//! One open disk: reading, writing, trimming, flushing.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use weir_meta::{DiskRow, ShareRange};
use weir_throughput::efs::Io;
use weir_types::{ByteRange, CHUNK_BYTES, DiskCache, ErrorKind, FsError, Ino, Result, chunk_range};

use super::parts::DiskParts;
use crate::data::resize::Fallocate;
use crate::names::files::{OpenFile, OpenFlags};
use crate::volume::boxed::{Boxed, boxed};
use crate::volume::context::Counts;
use crate::volume::locks::{OwnedReadGuard, OwnedWriteGuard, Place, RwLock, apart};

/// Locks that a disk's records share. Records so far apart are rarely in use at once, and two that
/// share a lock only wait for one another.
const LOCKS: usize = 1024;

/// A handle of a disk. Cheap to clone; the disk is in use until the last one goes.
#[derive(Clone)]
pub struct Disk {
    pub(super) shared: Arc<DiskState>,
}

/// A range of a disk, and whether it holds data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DiskExtent {
    /// Its first byte.
    pub start: u64,
    /// Its length in bytes.
    pub len: u64,
    /// It is a hole: reads as zeros, and takes no room anywhere.
    pub hole: bool,
}

/// What all handles of a disk work on.
pub(crate) struct DiskState {
    pub(super) parts: Arc<DiskParts>,
    name: String,
    row: DiskRow,
    pub(super) file: Arc<OpenFile>,
    /// DiskState by whoever uses bytes of a record as they are; held alone by whoever replaces the
    /// whole of it. Taken in ascending order.
    locks: Vec<RwLock>,
}

impl Drop for DiskState {
    fn drop(&mut self) {
        self.parts.files.end(self.file.clone());
        if self.parts.context.is_shared() {
            let _ = self.parts.closed.send(self.ino());
        }
    }
}

impl DiskState {
    pub(super) async fn new(
        parts: &Arc<DiskParts>,
        name: &str,
        row: &DiskRow,
    ) -> Result<Arc<Self>> {
        let write = !row.read_only && !parts.context.read_only;
        let flags = OpenFlags { write, ..OpenFlags::default() };
        Ok(Arc::new(Self {
            parts: parts.clone(),
            name: name.to_owned(),
            row: row.clone(),
            file: parts.files.open(row.ino, flags).await?,
            locks: (0..LOCKS as u64).map(|at| RwLock::new(Place::DiskRecord, at)).collect(),
        }))
    }

    pub(super) fn row(&self) -> &DiskRow {
        &self.row
    }

    /// Lets the file `to`, which nobody knows yet, use all bytes that were written before.
    pub(super) async fn copy_to(&self, to: Ino) -> Result<()> {
        let parts = &self.parts;
        if !parts.context.read_only {
            // So that what is left to do while everybody waits is little.
            parts.flusher.flush_files(&[self.ino()]).await?;
        }
        let still = self.hold_all().await;
        if !parts.context.read_only {
            parts.flusher.flush_files(&[self.ino()]).await?;
        }
        // From here on nothing reaches the extents; what is written meanwhile waits in the tier.
        let _change = self.file.node.change.lock().await;
        drop(still);
        let len = self.file.mirror.size();
        let range = ShareRange {
            src: self.ino(),
            src_offset: 0,
            dst: to,
            dst_offset: 0,
            len,
            dst_size: len,
        };
        parts.meta.share(range, parts.context.now()).await.map(drop)
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn ino(&self) -> Ino {
        self.row.ino
    }

    pub(super) fn check_writable(&self) -> Result<()> {
        self.parts.context.check_writable()?;
        match self.row.read_only {
            false => Ok(()),
            true => {
                let text = format!(
                    "disk `{}` is a snapshot and read-only: `weir disk clone` makes a disk of it",
                    self.name
                );
                Err(FsError::new(ErrorKind::ReadOnly, text))
            }
        }
    }

    /// Keeps everybody off the disk; what was under way is done.
    pub(super) async fn hold_all(&self) -> Vec<OwnedWriteGuard> {
        let mut held = Vec::with_capacity(LOCKS);
        for lock in &self.locks {
            held.push(lock.write_owned().await);
        }
        held
    }

    /// Shares the records of a range with others that do not replace them.
    async fn share(&self, range: Range<u64>) -> Vec<OwnedReadGuard> {
        let mut held = Vec::new();
        for lock in self.locks_of(range) {
            held.push(lock.read_owned().await);
        }
        held
    }

    /// The same for a range of the disk as it is now: it may have been cut since somebody looked.
    pub(super) async fn share_existing(&self, range: Range<u64>) -> Result<Vec<OwnedReadGuard>> {
        let held = self.share(range.clone()).await;
        self.check_range(range.start, range.end - range.start)?;
        Ok(held)
    }

    /// Keeps everybody else off the records of a range.
    pub(super) async fn hold(&self, range: Range<u64>) -> Vec<OwnedWriteGuard> {
        let mut held = Vec::new();
        for lock in self.locks_of(range) {
            held.push(lock.write_owned().await);
        }
        held
    }

    /// Whether a range holds whole records only; the last one of a disk may be short.
    pub(super) fn is_whole(&self, start: u64, end: u64) -> bool {
        let record = self.row.record_bytes;
        let ends = end.is_multiple_of(record) || end == self.file.mirror.size();
        start < end && start.is_multiple_of(record) && ends
    }

    /// Cuts a range at chunks' edges, and there into whole records, told by `true`, and parts of
    /// records.
    fn pieces(&self, start: u64, end: u64) -> Vec<(Range<u64>, bool)> {
        let (record, size) = (self.row.record_bytes, self.file.mirror.size());
        let mut pieces = Vec::new();
        for chunk in chunk_range(start, end) {
            let from = start.max(chunk * CHUNK_BYTES);
            let to = end.min((chunk + 1) * CHUNK_BYTES);
            let first = from.next_multiple_of(record).min(to);
            let last = if to == size { to } else { to - to % record };
            let last = last.max(first);
            let cut = [(from..first, false), (first..last, true), (last..to, false)];
            pieces.extend(cut.into_iter().filter(|(range, _)| !range.is_empty()));
        }
        pieces
    }

    /// The locks of the records of a range, each once, in the order in which they are taken.
    fn locks_of(&self, range: Range<u64>) -> impl Iterator<Item = &RwLock> {
        let record = self.row.record_bytes;
        let records = range.start / record..range.end.div_ceil(record);
        let mut wanted: Vec<_> =
            records.take(LOCKS).map(|record| (record % LOCKS as u64) as usize).collect();
        wanted.sort_unstable();
        wanted.into_iter().map(|at| &self.locks[at])
    }

    async fn write_piece(
        self: &Arc<Self>,
        range: Range<u64>,
        bytes: Bytes,
        whole: bool,
    ) -> Result<()> {
        if whole {
            return self.write_whole(range.start, bytes).await;
        }
        let _shared = self.share_existing(range.clone()).await?;
        self.parts.writer.write_mirror(&self.file.mirror, range.start, &bytes).await
    }

    pub(super) fn check_range(&self, offset: u64, len: u64) -> Result<()> {
        let size = self.file.mirror.size();
        if offset.checked_add(len).is_none_or(|end| end > size) {
            let text = format!(
                "disk `{}`: {len} bytes at {offset} reach past its end at {size}",
                self.name
            );
            return Err(FsError::new(ErrorKind::Range, text));
        }
        Ok(())
    }
}

impl Disk {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.shared.name
    }

    /// Its size by now.
    pub fn size_bytes(&self) -> u64 {
        self.shared.file.mirror.size()
    }

    /// Writes of whole records of this many bytes cost least.
    pub fn record_bytes(&self) -> u64 {
        self.shared.row.record_bytes
    }

    /// What of it is kept on the local disk.
    pub fn cache(&self) -> DiskCache {
        self.shared.row.cache
    }

    /// Nobody may write it: it is a snapshot, or the volume is mounted read-only.
    pub fn read_only(&self) -> bool {
        self.shared.row.read_only || self.shared.parts.context.read_only
    }

    /// Reads all of a range, in pieces that follow one another. `Range` past the end.
    pub fn read(&self, offset: u64, len: u64) -> Boxed<'_, Result<Vec<Bytes>>> {
        boxed(async move {
            let shared = &self.shared;
            shared.check_range(offset, len)?;
            let parts = &shared.parts;
            if shared.row.cache == DiskCache::Tier {
                let _shared = shared.share_existing(offset..offset + len).await?;
                return Ok(vec![parts.files.read(&shared.file, offset, len as usize).await?]);
            }
            let tenant = shared.file.tenant(&parts.files).await;
            parts.admission.admit(&tenant, Io::Read, len).await;
            let chunks = chunk_range(offset, offset + len).map(|chunk| {
                let start = offset.max(chunk * CHUNK_BYTES);
                apart(shared.read_piece(start..(offset + len).min((chunk + 1) * CHUNK_BYTES)))
            });
            let pieces = futures::future::try_join_all(chunks).await?;
            parts.admission.meter(&tenant, Io::Read, len);
            Counts::add(&parts.context.counts.bytes_read, len);
            Ok(pieces)
        })
    }

    /// Writes all of `data`; with `fua` it is durable when this returns. `Range` past the end.
    pub fn write(&self, offset: u64, data: Bytes, fua: bool) -> Boxed<'_, Result<()>> {
        boxed(async move {
            let shared = &self.shared;
            shared.check_writable()?;
            shared.check_range(offset, data.len() as u64)?;
            let end = offset + data.len() as u64;
            match shared.row.cache {
                DiskCache::Tier => {
                    let _shared = shared.share_existing(offset..end).await?;
                    shared.parts.files.write(&shared.file, offset, &data).await?;
                }
                DiskCache::None => self.write_pieces(offset, &data).await?,
            }
            self.flush_if(fua).await
        })
    }

    async fn write_pieces(&self, offset: u64, data: &Bytes) -> Result<()> {
        let (shared, parts) = (&self.shared, &self.shared.parts);
        let len = data.len() as u64;
        let tenant = shared.file.tenant(&parts.files).await;
        parts.admission.admit(&tenant, Io::Write, len).await;
        let at = |byte: u64| (byte - offset) as usize;
        let writes = shared.pieces(offset, offset + len).into_iter().map(|(range, whole)| {
            let bytes = data.slice(at(range.start)..at(range.end));
            apart(shared.write_piece(range, bytes, whole))
        });
        // All of them: a write that had its answer must not go on.
        futures::future::join_all(writes).await.into_iter().collect::<Result<()>>()?;
        parts.admission.meter(&tenant, Io::Write, len);
        Counts::add(&parts.context.counts.bytes_written, len);
        Ok(())
    }

    /// Makes a range zeros that take no room; with `fua` that is durable when this returns.
    pub fn write_zeroes(&self, offset: u64, len: u64, fua: bool) -> Boxed<'_, Result<()>> {
        boxed(async move {
            let shared = &self.shared;
            shared.check_writable()?;
            shared.check_range(offset, len)?;
            // In a task of its own: the metadata and the tier must learn of it together, whatever
            // becomes of the caller.
            let disk = shared.clone();
            let zeroed = tokio::spawn(async move {
                let _shared = disk.share_existing(offset..offset + len).await?;
                disk.parts.writer.fallocate(disk.ino(), Fallocate::PunchHole, offset, len).await
            });
            zeroed.await.map_err(|e| FsError::new(ErrorKind::Bug, format!("zeroes: {e}")))??;
            self.flush_if(fua).await
        })
    }

    /// Says that nobody needs a range any more: its whole pages become holes.
    pub fn trim(&self, offset: u64, len: u64, fua: bool) -> Boxed<'_, Result<()>> {
        boxed(async move {
            let shared = &self.shared;
            shared.check_writable()?;
            shared.check_range(offset, len)?;
            let start = weir_tier::page_ceil(offset);
            let end = weir_tier::page_floor(offset + len);
            match start < end {
                true => self.write_zeroes(start, end - start, fua).await,
                false => self.flush_if(fua).await,
            }
        })
    }

    /// Returns when all writes, trims and zeroes that had returned before are durable.
    pub fn flush(&self) -> Boxed<'_, Result<()>> {
        boxed(async move { self.shared.parts.durability.fsync(self.shared.ino()).await })
    }

    /// What is data and what are holes from `offset` on, at most `limit` ranges, adjacent ones of a
    /// kind as one. They cover `len` bytes, or less where there are more ranges than that.
    pub fn extents(
        &self,
        offset: u64,
        len: u64,
        limit: usize,
    ) -> Boxed<'_, Result<Vec<DiskExtent>>> {
        boxed(async move {
            let shared = &self.shared;
            shared.check_range(offset, len)?;
            let (mut at, end) = (offset, offset + len);
            let mut found = Found { list: Vec::new(), limit };
            while at < end {
                let (ranges, known_to) =
                    shared.parts.mirrors.data_ranges(shared.ino(), at, end).await?;
                for ByteRange { start, end: to } in ranges {
                    let (start, to) = (start.clamp(at, end), to.min(end));
                    if !found.push(at, start, true) || !found.push(start, to, false) {
                        return Ok(found.list);
                    }
                    at = at.max(to);
                }
                let known_to = known_to.min(end);
                if !found.push(at, known_to, true) {
                    return Ok(found.list);
                }
                at = at.max(known_to);
            }
            Ok(found.list)
        })
    }

    async fn flush_if(&self, fua: bool) -> Result<()> {
        match fua {
            true => self.flush().await,
            false => Ok(()),
        }
    }
}

/// Ranges that follow one another, as far as they may be told.
struct Found {
    list: Vec<DiskExtent>,
    limit: usize,
}

impl Found {
    /// Adds a range, if it has bytes; `false` if there may be no more.
    fn push(&mut self, start: u64, end: u64, hole: bool) -> bool {
        if start >= end {
            return true;
        }
        let full = self.list.len() == self.limit;
        match self.list.last_mut() {
            Some(last) if last.hole == hole => last.len += end - start,
            _ if full => return false,
            _ => self.list.push(DiskExtent { start, len: end - start, hole }),
        }
        true
    }
}
