//! Whole records, past the tier: a write becomes an object, a read is one GET.
//!
//! A write returns once its bytes are here in memory. A task of its own then stores them, and holds
//! the records alone until the metadata names them, so that whoever else wants them finds them as
//! they were left. Bytes that the bucket does not take go to the tier: they leave from there when it
//! does.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::{OwnedRwLockWriteGuard, OwnedSemaphorePermit, watch};
use weir_meta::{FileFlush, FlushCommit, Piece};
use weir_object::Component;
use weir_segment::{Owner, SealedSegment, SegmentBuilder};
use weir_types::{CHUNK_BYTES, ErrorKind, FsError, Ino, Result};

use super::disk::Shared;
use crate::background::blocking;
use crate::engine::{Core, Counts};
use crate::flush::{PERMIT_BYTES, segment_info};
use crate::records::{extent_bytes, get_all};
use crate::throughput::Slowed;

/// Looks at a chunk's extents before its bytes are given up: the collector may move a record
/// between the look and the GET.
const TRIES: usize = 5;
/// Rest after bytes found room neither in the bucket nor in the tier.
const REST: Duration = Duration::from_secs(1);

/// Bytes that are on their way to the bucket.
struct Leaving {
    data: Bytes,
    /// Ends when they are part of the disk.
    done: watch::Receiver<()>,
}

/// What is on its way, by its first byte. No two overlap: each holds its records alone.
#[derive(Default)]
pub(super) struct Whole {
    leaving: Mutex<BTreeMap<u64, Leaving>>,
}

impl Whole {
    fn leaving(&self) -> MutexGuard<'_, BTreeMap<u64, Leaving>> {
        self.leaving.lock().unwrap_or_else(|e| e.into_inner())
    }

    /// The bytes `start..end`, if they are on their way together.
    fn find(&self, start: u64, end: u64) -> Option<Bytes> {
        let leaving = self.leaving();
        let (first, found) = leaving.range(..=start).next_back()?;
        let at = |offset: u64| (offset - first) as usize;
        (at(end) <= found.data.len()).then(|| found.data.slice(at(start)..at(end)))
    }

    /// Waits until all that is on its way now is part of the disk.
    pub(super) async fn settled(&self) {
        let waiting: Vec<_> = self.leaving().values().map(|l| l.done.clone()).collect();
        for mut done in waiting {
            // The sender goes when the bytes are there.
            let _ = done.changed().await;
        }
    }
}

impl Shared {
    /// Takes whole records of one chunk in; they are on their way when this returns. Answers what
    /// ends when they have arrived.
    pub(super) async fn write_whole(
        self: &Arc<Self>,
        start: u64,
        data: Bytes,
    ) -> watch::Receiver<()> {
        let alone = self.hold(start..start + data.len() as u64).await;
        let permits = data.len().div_ceil(PERMIT_BYTES as usize) as u32;
        // Never closed: without a permit there is no limit.
        let memory = self.core.disks.memory.clone().acquire_many_owned(permits).await.ok();
        let (arrived, done) = watch::channel(());
        let leaving = Leaving { data: data.clone(), done: done.clone() };
        self.whole.leaving().insert(start, leaving);
        let holds = Holds { shared: self.clone(), start, _alone: alone, _memory: memory, arrived };
        tokio::spawn(async move { holds.shared.clone().send(start, data, holds).await });
        done
    }

    /// Brings bytes to the bucket, or to the tier if it does not take them.
    async fn send(self: Arc<Self>, start: u64, data: Bytes, _holds: Holds) {
        let (core, mirror) = (&self.core, &self.file.mirror);
        loop {
            let Err(error) = core.store_records(&self, start, &data).await else { return };
            match core.write_mirror(mirror, start, &data).await {
                Ok(()) => {
                    let disk = self.name();
                    tracing::warn!(disk, start, %error, "a record waits in the tier");
                    return;
                }
                Err(second) => {
                    let disk = self.name();
                    tracing::error!(disk, start, %error, %second, "a record can go nowhere: tried again");
                    tokio::time::sleep(REST).await;
                }
            }
        }
    }

    /// Reads bytes of one chunk: what is on its way, what the tier has, else the bucket.
    pub(super) async fn read_piece(&self, range: Range<u64>) -> Result<Bytes> {
        let Range { start, end } = range;
        if let Some(bytes) = self.whole.find(start, end) {
            return Ok(bytes);
        }
        let _shared = self.share(start..end).await;
        let mirror = &self.file.mirror;
        // Parts of records may be wanted again: they are fetched into the tier.
        if self.is_whole(start, end) && mirror.missing(start, end) == [(start, end)] {
            return self.core.read_records(self.ino(), start, end).await;
        }
        self.core.read_mirror(mirror, start, (end - start) as usize).await
    }
}

/// What a write of whole records holds until its bytes have arrived.
struct Holds {
    shared: Arc<Shared>,
    start: u64,
    _alone: Vec<OwnedRwLockWriteGuard<()>>,
    _memory: Option<OwnedSemaphorePermit>,
    #[expect(dead_code, reason = "whoever waits sees it go")]
    arrived: watch::Sender<()>,
}

impl Drop for Holds {
    fn drop(&mut self) {
        self.shared.whole.leaving().remove(&self.start);
    }
}

impl Core {
    /// Stores whole records of a disk as one object, then names them. The caller holds them
    /// alone. One PUT and one metadata commit.
    async fn store_records(
        self: &Arc<Self>,
        disk: &Shared,
        start: u64,
        data: &Bytes,
    ) -> Result<()> {
        self.check_writable()?;
        let (_in_flight, builder) = self.new_segment();
        let (ino, record_bytes, packed) = (disk.ino(), disk.row().record_bytes, data.clone());
        let (sealed, pieces) =
            blocking(move || pack(builder, ino, start, record_bytes, &packed)).await?;
        self.put_segment(&sealed, Component::Data).await?;
        fail::fail_point!("engine::record-put");
        let end = start + data.len() as u64;
        let _change = disk.file.node.change.lock().await;
        let file = FileFlush { ino, pieces, replaced: Some((start, end)), ..FileFlush::default() };
        let segments = vec![(sealed.id, segment_info(&sealed))];
        let commit = FlushCommit { segments, files: vec![file] };
        let inode = match self.seen(self.meta.commit_flush(commit).await) {
            Ok(done) => done.into_iter().find_map(|(_, inode)| inode),
            Err(error) => return Err(self.extents_unsure(ino, error).await),
        };
        fail::fail_point!("engine::record-committed");
        // A disk that is open is not purged.
        let gone = || FsError::new(ErrorKind::Bug, format!("inode {ino} of an open disk is gone"));
        let generation = inode.ok_or_else(gone)?.data.generation;
        disk.file.mirror.dropped((start, end), None, generation, true)?;
        if let Some(journal) = &self.journal {
            journal.forget(ino, start, end);
        }
        Ok(())
    }

    /// Reads stored bytes of one chunk past the tier. The caller shares them. One GET for each
    /// object that they are in.
    async fn read_records(&self, ino: Ino, start: u64, end: u64) -> Result<Bytes> {
        self.throughput.purse.wait(Slowed::Demand).await;
        let mut tries = 1;
        loop {
            match self.try_read_records(ino, start, end).await {
                Err(error) if error.kind() == ErrorKind::NotFound && tries < TRIES => tries += 1,
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    let text = format!("its bytes at {start} cannot be had; run `weir fsck`");
                    return Err(FsError::new(ErrorKind::Corrupt, text).with_source(error));
                }
                result => return result,
            }
        }
    }

    async fn try_read_records(&self, ino: Ino, start: u64, end: u64) -> Result<Bytes> {
        let chunk = start / CHUNK_BYTES;
        let stored = self.seen(self.meta.chunks(ino, chunk..chunk + 1).await)?;
        let base = chunk * CHUNK_BYTES;
        let (low, high) = ((start - base) as u32, (end - base) as u32);
        let extents = stored.list.iter().flat_map(|(_, extents)| extents);
        let wanted: Vec<_> = extents.filter_map(|e| e.slice(low, high)).collect();
        let most = self.settings.fetch_bytes.0;
        let demand = &self.fetcher.demand;
        let decoded =
            get_all(&self.buckets, Component::Data, wanted.iter().copied(), most, demand).await?;
        let fetched = wanted.iter().map(|e| u64::from(e.record.stored_bytes)).sum();
        Counts::add(&self.counts.bytes_fetched, fetched);
        let bug = || FsError::new(ErrorKind::Bug, "an extent reaches past its record");
        if let [extent] = wanted[..]
            && (extent.start, extent.end()) == (low, high)
        {
            return extent_bytes(chunk, &extent, &decoded).ok_or_else(bug);
        }
        let mut whole = vec![0; (end - start) as usize];
        for extent in wanted {
            let bytes = extent_bytes(chunk, &extent, &decoded).ok_or_else(bug)?;
            let at = (extent.start - low) as usize;
            whole[at..at + bytes.len()].copy_from_slice(&bytes);
        }
        Ok(whole.into())
    }
}

/// Packs records that follow one another into a segment of their own.
fn pack(
    mut builder: SegmentBuilder,
    ino: Ino,
    start: u64,
    record_bytes: u64,
    data: &[u8],
) -> Result<(SealedSegment, Vec<Piece>)> {
    let mut pieces = Vec::new();
    let mut offset = start;
    for bytes in data.chunks(record_bytes as usize) {
        let record = builder.push(Owner { ino, offset }, bytes)?;
        pieces.push(Piece { offset, record, len: bytes.len() as u32 });
        offset += bytes.len() as u64;
    }
    Ok((builder.finish(), pieces))
}
