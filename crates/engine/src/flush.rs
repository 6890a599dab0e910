//! Flushing: dirty ranges become records, records become segments, segments leave, and then the
//! metadata names them.
//!
//! A round packs the dirty ranges of its files, in order, into one segment after the other. A full
//! segment is uploaded and committed in a task of its own while the next one is packed, at most
//! `flush_parallel` at once.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard, oneshot};
use tokio::task::JoinSet;
use weir_meta::{FileFlush, FlushCommit, Piece};
use weir_object::Component;
use weir_segment::{Owner, SealedSegment, SegmentBuilder};
use weir_tier::{Mirror, ReadOutcome, Snapshot};
use weir_types::{CHUNK_BYTES, ErrorKind, FsError, Ino, Inode, Result, SegmentId};

use crate::engine::{Core, Counts};
use crate::nodes::Node;

/// Times that a flush voided by a truncation under it is begun anew.
const TRIES: usize = 10;

/// Who waits for a flush of which file.
type Request = (Ino, oneshot::Sender<Result<()>>);

/// Callers that want single files flushed, gathered so that they share segments.
#[derive(Default)]
pub(crate) struct Flusher {
    waiting: std::sync::Mutex<Vec<Request>>,
    leading: Mutex<()>,
}

/// A part of one file on its way: what one segment holds of it.
struct Part {
    node: Arc<Node>,
    mirror: Arc<Mirror>,
    snapshot: Snapshot,
    pieces: Vec<Piece>,
    /// Keeps other flushes of the file away until this part is committed.
    _flushing: Arc<OwnedMutexGuard<()>>,
}

impl Drop for Part {
    /// Whatever ended the flush before its commit, the ranges are dirty again; after it none is
    /// in flight any more, and this does nothing.
    fn drop(&mut self) {
        self.mirror.flush_failed(&self.snapshot);
    }
}

/// A segment being packed.
struct Packing {
    builder: SegmentBuilder,
    parts: Vec<Part>,
    in_flight: InFlight,
}

/// A segment on its way: its object may be there before the metadata names it, and the collector
/// must not take it for one that nothing names.
pub(crate) struct InFlight {
    core: Arc<Core>,
    pub(crate) id: SegmentId,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.core.in_flight().remove(&self.id);
    }
}

impl Core {
    /// Flushes one file's dirty data to the bucket and commits it; not yet durable metadata.
    /// Callers at the same time share segments.
    pub(crate) async fn flush_file(self: &Arc<Self>, ino: Ino) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.flusher.waiting.lock().unwrap_or_else(|e| e.into_inner()).push((ino, sender));
        {
            // Whoever leads takes along all who came while the last leader was packing.
            let _leading = self.flusher.leading.lock().await;
            let requests = std::mem::take(
                &mut *self.flusher.waiting.lock().unwrap_or_else(|e| e.into_inner()),
            );
            if !requests.is_empty() {
                let core = self.clone();
                tokio::spawn(async move { core.serve(requests).await });
            }
        }
        let gone = |_| FsError::new(ErrorKind::Retry, "the flush was stopped");
        receiver.await.map_err(gone)?
    }

    async fn serve(self: Arc<Self>, requests: Vec<Request>) {
        let mut inos: Vec<_> = requests.iter().map(|(ino, _)| *ino).collect();
        inos.sort_unstable();
        inos.dedup();
        let result = self.flush_files(&inos).await;
        for (_, sender) in requests {
            let _ = sender.send(match &result {
                Ok(()) => Ok(()),
                Err(error) => Err(error.share()),
            });
        }
    }

    /// Flushes these files; returns when all that was dirty before is committed.
    pub(crate) async fn flush_files(self: &Arc<Self>, inos: &[Ino]) -> Result<()> {
        self.check_writable()?;
        self.catch_stores(inos).await?;
        for _ in 0..TRIES {
            let busy = self.flush_round(inos, false).await?;
            let mut void = Vec::new();
            for ino in busy {
                // Somebody else flushes it: what was dirty before may be among that or not.
                void.extend(self.flush_round(&[ino], true).await?);
            }
            if void.is_empty() {
                return Ok(());
            }
        }
        let text = "a file is truncated faster than it can be flushed";
        Err(FsError::new(ErrorKind::Retry, text))
    }

    /// One pass over these files. Answers those that it left: busy ones (unless told to wait for
    /// them) and those whose flush a truncation voided.
    async fn flush_round(self: &Arc<Self>, inos: &[Ino], wait: bool) -> Result<Vec<Ino>> {
        let mut left = Vec::new();
        let mut uploads: JoinSet<Result<Vec<Ino>>> = JoinSet::new();
        let mut packing = None;
        let mut result = Ok(());
        for &ino in inos {
            let Some(mirror) = self.tier.find(ino).filter(|m| m.has_news()) else {
                continue;
            };
            let node = self.nodes.get(ino);
            let flushing = match node.flush.clone().try_lock_owned() {
                Ok(guard) => guard,
                Err(_) if wait => node.flush.clone().lock_owned().await,
                Err(_) => {
                    left.push(ino);
                    continue;
                }
            };
            let flushing = Arc::new(flushing);
            let packed = self.pack_file(&node, &mirror, &flushing, &mut packing, &mut uploads);
            // One file that cannot be read must not keep the others here.
            result = result.and(packed.await);
        }
        if let Some(packing) = packing {
            self.send(packing, &mut uploads).await;
        }
        while let Some(done) = uploads.join_next().await {
            match done.map_err(|e| FsError::new(ErrorKind::Bug, format!("flush: {e}"))) {
                Ok(Ok(void)) => left.extend(void),
                Ok(Err(error)) | Err(error) => result = result.and(Err(error)),
            }
        }
        self.seen(result)?;
        Ok(left)
    }

    /// Packs all that is dirty in one file, sending each segment that fills up.
    async fn pack_file(
        self: &Arc<Self>,
        node: &Arc<Node>,
        mirror: &Arc<Mirror>,
        flushing: &Arc<OwnedMutexGuard<()>>,
        packing: &mut Option<Packing>,
        uploads: &mut JoinSet<Result<Vec<Ino>>>,
    ) -> Result<()> {
        let mut after = 0;
        loop {
            let mut current = packing.take().unwrap_or_else(|| self.new_packing());
            let room = self.format.segment_bytes.saturating_sub(current.builder.stored_bytes());
            let snapshot = mirror.snapshot(after, room.max(CHUNK_BYTES));
            let complete = snapshot.complete;
            after = snapshot.ranges.last().map_or(after, |r| r.1);
            // Before anything can end this task: from here on the part gives its ranges back.
            let mut part = Part {
                node: node.clone(),
                mirror: mirror.clone(),
                snapshot,
                pieces: Vec::new(),
                _flushing: flushing.clone(),
            };
            let record_bytes = self.format.record_bytes;
            let packed = tokio::task::spawn_blocking(move || {
                let pieces = pack(&mut current.builder, &part.mirror, &part.snapshot, record_bytes);
                let packed = pieces.map(|pieces| {
                    part.pieces = pieces;
                    current.parts.push(part);
                });
                (current, packed)
            });
            let (current, packed) =
                packed.await.map_err(|e| FsError::new(ErrorKind::Bug, format!("pack: {e}")))?;
            if let Err(error) = packed {
                *packing = Some(current);
                return Err(error);
            }
            if current.builder.is_full() {
                self.send(current, uploads).await;
            } else {
                *packing = Some(current);
            }
            if complete {
                return Ok(());
            }
        }
    }

    fn new_packing(self: &Arc<Self>) -> Packing {
        let (in_flight, builder) = self.new_segment();
        Packing { builder, parts: Vec::new(), in_flight }
    }

    /// A new segment, in flight until the guard goes.
    pub(crate) fn new_segment(self: &Arc<Self>) -> (InFlight, SegmentBuilder) {
        let id = SegmentId::new(self.unix_ms(), (self.clock.random)());
        self.in_flight().insert(id);
        let builder = SegmentBuilder::new(id, self.format.codec, self.format.segment_bytes);
        (InFlight { core: self.clone(), id }, builder)
    }

    /// Hands a packed segment to a task that uploads and commits it.
    async fn send(self: &Arc<Self>, packing: Packing, uploads: &mut JoinSet<Result<Vec<Ino>>>) {
        let permit = self.upload_permits.clone().acquire_owned().await;
        let core = self.clone();
        uploads.spawn(async move {
            let _permit = permit;
            core.upload(packing).await
        });
    }

    /// Data first, then the metadata that names it. Answers the files whose part was void.
    async fn upload(&self, packing: Packing) -> Result<Vec<Ino>> {
        let Packing { builder, mut parts, in_flight: _in_flight } = packing;
        let sealed = (!builder.is_empty()).then(|| builder.finish());
        if let Some(sealed) = &sealed {
            self.put_segment(sealed, Component::Data).await?;
        }
        fail::fail_point!("engine::segment-put");
        // Two parts of one file share its lock; one order for all keeps segments from deadlock.
        parts.sort_by_key(|p| p.node.ino);
        let mut held = Vec::new();
        for part in parts.chunk_by(|a, b| a.node.ino == b.node.ino) {
            held.push(part[0].node.change.clone().lock_owned().await);
        }
        let (valid, void): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|p| p.mirror.still_valid(&p.snapshot));
        let void = void.iter().map(|p| p.node.ino).collect();
        self.commit(sealed.as_ref(), &valid).await?;
        self.room_made.notify_waiters();
        Ok(void)
    }

    pub(crate) async fn put_segment(
        &self,
        sealed: &SealedSegment,
        component: Component,
    ) -> Result<()> {
        let bucket = self.buckets.bucket_for(sealed.id);
        bucket.put(component, &sealed.id.object_key(), sealed.bytes.clone()).await?;
        Counts::add(&self.counts.segments_written, 1);
        Counts::add(&self.counts.bytes_flushed, sealed.bytes.len() as u64);
        Ok(())
    }

    async fn commit(&self, sealed: Option<&SealedSegment>, parts: &[Part]) -> Result<()> {
        let same_file = |a: &Part, b: &Part| a.node.ino == b.node.ino;
        let files = parts.chunk_by(same_file).map(file_flush).collect();
        let segments = sealed.map(|s| (s.id, segment_info(s))).into_iter().collect();
        let done = self.seen(self.meta.commit_flush(FlushCommit { segments, files }).await)?;
        fail::fail_point!("engine::flush-committed");
        for (part, (ino, inode)) in parts.chunk_by(same_file).zip(done) {
            // A file that was purged meanwhile has no mirror any more.
            let Some(inode) = inode else { continue };
            for part in part {
                self.committed(part, ino, &inode)?;
            }
        }
        Ok(())
    }

    fn committed(&self, part: &Part, ino: Ino, inode: &Inode) -> Result<()> {
        part.mirror.flushed(&part.snapshot, inode.data.generation, inode.size)?;
        if let Some(journal) = &self.journal {
            for &(start, end) in &part.snapshot.ranges {
                journal.forget(ino, start, end);
            }
        }
        if !self.nodes.is_open(ino) {
            part.mirror.idle();
        }
        Ok(())
    }

    /// Flushes all dirty data there is and makes the metadata durable.
    pub(crate) async fn flush_all(self: &Arc<Self>) -> Result<()> {
        self.look_for_stores().await;
        let inos: Vec<_> = self.tier.news().iter().map(|m| m.ino()).collect();
        self.flush_files(&inos).await?;
        self.seen(self.meta.sync().await)?;
        self.sync_journal().await
    }

    /// What the journal says must not be older than what the bucket has: a replay would put it
    /// over newer bytes.
    pub(crate) async fn sync_journal(&self) -> Result<()> {
        match self.journal.as_ref().filter(|j| j.durable) {
            Some(journal) => journal.sync().await,
            None => Ok(()),
        }
    }
}

/// What the metadata takes of one file's parts in a segment. Only the part that leaves nothing
/// dirty out says the size; the others let the file grow as far as they reach. Times that somebody
/// set since the snapshot stay as they were set.
fn file_flush(parts: &[Part]) -> FileFlush {
    let last = &parts[parts.len() - 1].snapshot;
    let (_, now) = parts[0].mirror.pending();
    FileFlush {
        ino: parts[0].node.ino,
        pieces: parts.iter().flat_map(|p| p.pieces.iter().copied()).collect(),
        size: last.complete.then_some(last.size),
        mtime: last.pending.mtime.filter(|_| now.mtime.is_some()),
        ctime: last.pending.ctime.filter(|_| now.ctime.is_some()),
    }
}

pub(crate) fn segment_info(sealed: &SealedSegment) -> weir_meta::SegmentInfo {
    weir_meta::SegmentInfo {
        raw_bytes: sealed.raw_bytes,
        object_bytes: sealed.bytes.len() as u64,
        records: sealed.records.len() as u32,
        created_ms: sealed.id.unix_ms(),
    }
}

/// Cuts the snapshot's ranges at record edges, reads each piece and adds it to the segment.
fn pack(
    builder: &mut SegmentBuilder,
    mirror: &Mirror,
    snapshot: &Snapshot,
    record_bytes: u64,
) -> Result<Vec<Piece>> {
    let mut pieces = Vec::new();
    let mut buffer = Vec::new();
    for &(start, end) in &snapshot.ranges {
        let mut at = start;
        while at < end {
            let next = ((at / record_bytes + 1) * record_bytes).min(end);
            buffer.resize((next - at) as usize, 0);
            let got = mirror.read_at(at, &mut buffer)?;
            // Cut off meanwhile: the commit will find the snapshot void.
            let len = match got {
                ReadOutcome::Done(len) => len,
                ReadOutcome::Missing(_) => 0,
            };
            if len > 0 {
                let owner = Owner { ino: mirror.ino(), offset: at };
                let record = builder.push(owner, &buffer[..len])?;
                pieces.push(Piece { offset: at, record, len: len as u32 });
            }
            at = next;
        }
    }
    Ok(pieces)
}
