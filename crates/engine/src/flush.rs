//! Flushing: dirty ranges become records, records become segments, segments leave, and then the
//! metadata names them.
//!
//! A round gathers the dirty ranges of its files, in order, into one load after the other, each
//! about a segment's worth. A load is packed, uploaded and committed in a task of its own while the
//! next one is gathered, at most `flush_parallel` at once.

mod pack;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::{Mutex, OwnedMutexGuard, OwnedSemaphorePermit, oneshot};
use tokio::task::JoinSet;
use weir_meta::{FileFlush, FlushCommit, Piece};
use weir_object::Component;
use weir_segment::{SealedSegment, SegmentBuilder};
use weir_tier::{Mirror, Snapshot};
use weir_types::{CHUNK_BYTES, ErrorKind, FsError, Ino, Inode, Result, SegmentId, VolumeFormat};

use crate::background::blocking;
use crate::engine::{Core, Counts};
use crate::nodes::Node;
use pack::pack_all;

/// Times that a flush voided by a truncation under it is begun anew.
const TRIES: usize = 10;

/// Who waits for a flush of which file.
type Request = (Ino, oneshot::Sender<Result<()>>);

/// Callers that want single files flushed, gathered so that they share segments.
#[derive(Default)]
pub(crate) struct Flusher {
    waiting: std::sync::Mutex<Vec<Request>>,
    leading: Mutex<()>,
    /// Bytes of late segments before and after compression.
    raw_bytes: AtomicU64,
    stored_bytes: AtomicU64,
}

impl Flusher {
    /// Bytes of files that fill a segment, if they compress as those of late.
    fn load_bytes(&self, format: &VolumeFormat) -> u64 {
        let raw = self.raw_bytes.load(Ordering::Relaxed);
        let stored = self.stored_bytes.load(Ordering::Relaxed).max(1);
        let tenths = (raw * 10 / stored).clamp(10, 40);
        format.segment_bytes * tenths / 10
    }

    /// Takes note of a segment. Older ones count half as much with each.
    fn packed(&self, sealed: &SealedSegment) {
        let fade = |sum: &AtomicU64, new: u64| {
            sum.store(sum.load(Ordering::Relaxed) / 2 + new, Ordering::Relaxed);
        };
        fade(&self.raw_bytes, sealed.raw_bytes);
        fade(&self.stored_bytes, sealed.bytes.len() as u64);
    }
}

/// A file that a round flushes; nobody else does meanwhile.
struct Flushing {
    node: Arc<Node>,
    mirror: Arc<Mirror>,
    lock: Arc<OwnedMutexGuard<()>>,
}

impl Flushing {
    /// From here on the part gives its ranges back, whatever ends the flush.
    fn part(&self, snapshot: Snapshot) -> Part {
        Part {
            node: self.node.clone(),
            mirror: self.mirror.clone(),
            snapshot,
            pieces: Vec::new(),
            _flushing: self.lock.clone(),
        }
    }
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

/// What goes into one segment.
struct Load {
    parts: Vec<Part>,
    raw_bytes: u64,
    /// A MiB each of memory; `None` only when the engine is gone.
    permits: Option<OwnedSemaphorePermit>,
}

impl Load {
    /// Gives back what compression saved.
    fn shrink(&mut self, bytes: usize) {
        let needed = bytes.div_ceil(PERMIT_BYTES as usize);
        if let Some(permits) = &mut self.permits
            && let Some(more) = permits.num_permits().checked_sub(needed)
        {
            drop(permits.split(more));
        }
    }
}

/// Memory of one permit to upload.
pub(crate) const PERMIT_BYTES: u64 = 1 << 20;

/// How a round goes about its files.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Round {
    /// Files that somebody else flushes are left to the caller.
    Once,
    /// They are waited for.
    Wait,
    /// They are left, and a file that grows while it is flushed is followed: whoever writes a large
    /// file shall find the bucket busy all the time.
    Follow,
}

/// Packing so little takes less time than to have it done elsewhere.
const PACK_HERE_BYTES: u64 = 256 << 10;

/// Bytes of one file after which a round that follows it ends, so that others have their turn.
const FOLLOW_BYTES: u64 = 1 << 30;

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
        let caught = self.catch_stores(inos).await;
        for _ in 0..TRIES {
            let busy = self.flush_round(inos, Round::Once).await?;
            let mut void = Vec::new();
            for ino in busy {
                // Somebody else flushes it: what was dirty before may be among that or not.
                void.extend(self.flush_round(&[ino], Round::Wait).await?);
            }
            if void.is_empty() {
                return caught;
            }
        }
        let text = "a file is truncated faster than it can be flushed";
        Err(FsError::new(ErrorKind::Retry, text))
    }

    /// Flushes these files as far as nobody else does, and what is written to them meanwhile.
    pub(crate) async fn flush_along(self: &Arc<Self>, inos: &[Ino]) -> Result<()> {
        self.check_writable()?;
        let caught = self.catch_stores(inos).await;
        self.flush_round(inos, Round::Follow).await?;
        caught
    }

    /// One pass over these files. Answers those that it left: busy ones (unless told to wait for
    /// them) and those whose flush a truncation voided.
    async fn flush_round(self: &Arc<Self>, inos: &[Ino], round: Round) -> Result<Vec<Ino>> {
        let mut left = Vec::new();
        let mut uploads: JoinSet<Result<Vec<Ino>>> = JoinSet::new();
        let mut load = None;
        for &ino in inos {
            let Some(mirror) = self.tier.find(ino).filter(|m| m.has_news()) else {
                continue;
            };
            let node = self.nodes.get(ino);
            let flushing = match node.flush.clone().try_lock_owned() {
                Ok(guard) => guard,
                Err(_) if round == Round::Wait => node.flush.clone().lock_owned().await,
                Err(_) => {
                    left.push(ino);
                    continue;
                }
            };
            let file = Flushing { node, mirror, lock: Arc::new(flushing) };
            self.gather(&file, round, &mut load, &mut uploads).await;
        }
        let mut result = Ok(());
        match load {
            // A small fsync: every hop to another task would be a part of its latency.
            Some(load) if uploads.is_empty() => match self.upload(load).await {
                Ok(void) => left.extend(void),
                Err(error) => result = Err(error),
            },
            Some(load) => self.send(load, &mut uploads),
            None => {}
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

    /// Gathers all that is dirty in one file, sending each load that is full.
    async fn gather(
        self: &Arc<Self>,
        file: &Flushing,
        round: Round,
        load: &mut Option<Load>,
        uploads: &mut JoinSet<Result<Vec<Ino>>>,
    ) {
        let full = self.flusher.load_bytes(&self.format);
        let (mut after, mut taken, mut follows) = (0, 0, false);
        // What is written behind it meanwhile is not what was asked for.
        let until = weir_tier::page_ceil(file.mirror.size());
        loop {
            let mut current = match load.take() {
                Some(load) => load,
                // First, so that what is written while others are on their way goes along.
                None => self.new_load(full).await,
            };
            let room = full.saturating_sub(current.raw_bytes).max(CHUNK_BYTES);
            let mut snapshot = file.mirror.snapshot(after, room);
            after = snapshot.ranges.last().map_or(after, |r| weir_tier::page_ceil(r.1));
            let bytes: u64 = snapshot.ranges.iter().map(|(s, e)| e - s).sum();
            // Only what lies behind: a range must not be on its way twice.
            let goes_on = match round {
                Round::Follow if taken + bytes >= FOLLOW_BYTES => false,
                Round::Follow => !snapshot.complete || file.mirror.dirty_after(after) >= full,
                _ => !snapshot.complete && after < until,
            };
            // Parts are committed in any order: one that is followed by others must not state the
            // size, and neither must one that leaves pages before it that were written again.
            let complete = snapshot.complete;
            snapshot.complete &= !follows && !goes_on;
            follows |= complete;
            current.parts.push(file.part(snapshot));
            current.raw_bytes += bytes;
            taken += bytes;
            match current.raw_bytes >= full {
                true => self.send(current, uploads),
                false => *load = Some(current),
            }
            if !goes_on {
                return;
            }
        }
    }

    async fn new_load(&self, bytes: u64) -> Load {
        let wanted = (bytes.div_ceil(PERMIT_BYTES) as usize).min(self.upload_permits_most);
        let permits = self.upload_permits.clone().acquire_many_owned(wanted as u32).await.ok();
        Load { parts: Vec::new(), raw_bytes: 0, permits }
    }

    /// A new segment, in flight until the guard goes.
    pub(crate) fn new_segment(self: &Arc<Self>) -> (InFlight, SegmentBuilder) {
        let id = SegmentId::new(self.unix_ms(), (self.clock.random)());
        self.in_flight().insert(id);
        let builder = SegmentBuilder::new(id, self.format.codec, self.format.segment_bytes);
        (InFlight { core: self.clone(), id }, builder)
    }

    /// Hands a load to a task that packs, uploads and commits it.
    fn send(self: &Arc<Self>, load: Load, uploads: &mut JoinSet<Result<Vec<Ino>>>) {
        let core = self.clone();
        uploads.spawn(async move { core.upload(load).await });
    }

    /// Data first, then the metadata that names it. Answers the files whose part was void.
    async fn upload(self: &Arc<Self>, mut load: Load) -> Result<Vec<Ino>> {
        let (_in_flight, builder) = self.new_segment();
        let record_bytes = self.format.record_bytes;
        let parts = std::mem::take(&mut load.parts);
        let (sealed, parts, packed) = match load.raw_bytes > PACK_HERE_BYTES {
            true => blocking(move || Ok(pack_all(builder, parts, record_bytes))).await?,
            false => pack_all(builder, parts, record_bytes),
        };
        load.shrink(sealed.as_ref().map_or(0, |s| s.bytes.len()));
        if let Some(sealed) = &sealed {
            self.put_segment(sealed, Component::Data).await?;
            self.flusher.packed(sealed);
        }
        fail::fail_point!("engine::segment-put");
        let void = self.commit_parts(sealed.as_ref(), parts).await?;
        self.room_made.notify_waiters();
        packed.map(|()| void)
    }

    /// Commits the parts that nothing voided meanwhile; answers the files of the others.
    async fn commit_parts(
        &self,
        sealed: Option<&SealedSegment>,
        mut parts: Vec<Part>,
    ) -> Result<Vec<Ino>> {
        // Two parts of one file share its lock; one order for all keeps segments from deadlock.
        parts.sort_by_key(|p| p.node.ino);
        let mut held = Vec::new();
        for part in parts.chunk_by(|a, b| a.node.ino == b.node.ino) {
            held.push(part[0].node.change.clone().lock_owned().await);
        }
        let (valid, void): (Vec<_>, Vec<_>) =
            parts.into_iter().partition(|p| p.mirror.still_valid(&p.snapshot));
        let void = void.iter().map(|p| p.node.ino).collect();
        self.commit(sealed, &valid).await?;
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
        let looked = self.look_for_stores().await;
        let inos: Vec<_> = self.tier.news().iter().map(|m| m.ino()).collect();
        self.flush_files(&inos).await?;
        self.seen(self.meta.sync().await)?;
        self.sync_journal().await?;
        looked
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
        replaced: None,
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
