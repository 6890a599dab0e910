//! Flushing: dirty ranges become records, records become segments, segments leave, and then the
//! metadata names them.
//!
//! A round gathers the dirty ranges of its files, in order, into one load after the other, each
//! about a segment's worth. A load is packed, uploaded and committed in a task of its own while the
//! next one is gathered, at most `flush_parallel` at once.

mod commit;
mod pack;

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::sync::{Mutex, Notify, OwnedMutexGuard, OwnedSemaphorePermit, oneshot};
use tokio::task::JoinSet;
use weir_meta::{FLUSH_CHUNKS_MAX, Piece};
use weir_object::Component;
use weir_segment::{SealedSegment, SegmentBuilder};
use weir_tier::{Mirror, Snapshot};
use weir_types::{CHUNK_BYTES, ErrorKind, FsError, Ino, Result, SegmentId, VolumeFormat};

use crate::background::blocking;
use crate::engine::{Core, Counts};
use crate::nodes::Node;
use crate::status::FlushFailed;
use commit::{Sent, Waiting};
use pack::pack_all;

/// How long files that were written anew from nothing gather: at most four segments a second.
const GATHER: Duration = Duration::from_millis(250);
/// Rest after a first failure in the background, in milliseconds.
const REST_MS: u64 = 1_000;
/// No rest is longer, in milliseconds.
const REST_MOST_MS: u64 = 30_000;

/// Times that a flush voided by a truncation under it is begun anew.
const TRIES: usize = 10;

/// Who waits for a flush of which file.
type Request = (Ino, oneshot::Sender<Result<()>>);

/// Callers that want single files flushed, gathered so that they share segments.
#[derive(Default)]
pub(crate) struct Flusher {
    waiting: parking_lot::Mutex<Vec<Request>>,
    leading: Mutex<()>,
    /// What is in the bucket and waits for a commit that failed.
    sent: Waiting,
    /// Files to be flushed soon.
    soon: parking_lot::Mutex<Vec<Ino>>,
    soon_wanted: Notify,
    /// The last try in the background, if it failed, and when that was.
    failed: parking_lot::Mutex<Option<(u64, FlushFailed)>>,
    /// Wakes who rests after a failure.
    goes_on: Notify,
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

    /// Has a file flushed in the background, with others of the same moment.
    pub(crate) fn flush_soon(&self, ino: Ino) {
        self.soon.lock().push(ino);
        self.soon_wanted.notify_one();
    }

    /// Waits for files to be flushed soon, and a little longer, so that they share segments.
    pub(crate) async fn wait_for_soon(&self) -> Vec<Ino> {
        loop {
            self.soon_wanted.notified().await;
            tokio::time::sleep(GATHER).await;
            let mut inos = std::mem::take(&mut *self.soon.lock());
            inos.sort_unstable();
            inos.dedup();
            if !inos.is_empty() {
                return inos;
            }
        }
    }

    /// How the last try in the background failed, if no later one succeeded.
    pub(crate) fn failed(&self, now_ms: u64) -> Option<FlushFailed> {
        let failed = self.failed.lock().clone();
        let (at_ms, told) = failed?;
        Some(FlushFailed { last_ms_ago: now_ms.saturating_sub(at_ms), ..told })
    }

    /// Takes note of how a try in the background went, the nth in a row to fail.
    pub(crate) fn note_failed(&self, failures: u32, error: Option<&FsError>, now_ms: u64) {
        let error = error.map(ToString::to_string);
        let told = error.map(|error| FlushFailed { error, last_ms_ago: 0, failures });
        *self.failed.lock() = told.map(|told| (now_ms, told));
    }

    /// Something left for the bucket: who rests after a failure may go on.
    fn went_on(&self) {
        *self.failed.lock() = None;
        self.goes_on.notify_waiters();
    }

    /// Rests after the nth failure in a row: twice as long each time, up to half a minute, less a
    /// part by chance; and no longer than until something leaves.
    pub(crate) async fn rest(&self, failures: u32, chance: u128) {
        let most =
            REST_MS.saturating_mul(1 << failures.saturating_sub(1).min(16)).min(REST_MOST_MS);
        let rest_ms = most / 2 + (chance % u128::from(most / 2 + 1)) as u64;
        let rest = Duration::from_millis(rest_ms);
        let _ = tokio::time::timeout(rest, self.goes_on.notified()).await;
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
            named: false,
            lock: Some(self.lock.clone()),
        }
    }
}

/// A part of one file on its way: what one segment holds of it.
struct Part {
    node: Arc<Node>,
    mirror: Arc<Mirror>,
    snapshot: Snapshot,
    pieces: Vec<Piece>,
    /// The metadata names its bytes; only the note of that here is missing.
    named: bool,
    /// Keeps other flushes of the file away until this part is committed, or waits for that.
    lock: Option<Arc<OwnedMutexGuard<()>>>,
}

impl Part {
    /// It was sent and waits for its commit: others may flush the file meanwhile.
    fn wait(&mut self) {
        if self.lock.take().is_some() {
            self.node.sent.fetch_add(1, Ordering::AcqRel);
        }
    }

    /// The part in slices that a commit can take, whatever is in it.
    fn slices(mut self) -> Vec<Part> {
        let mut slices = Vec::new();
        while let Some(full) = first_past(&self.pieces, FLUSH_CHUNKS_MAX) {
            let rest = self.pieces.split_off(full);
            let at = rest[0].offset / CHUNK_BYTES * CHUNK_BYTES;
            slices.push(Part {
                node: self.node.clone(),
                mirror: self.mirror.clone(),
                snapshot: self.snapshot.split_head(at),
                pieces: std::mem::replace(&mut self.pieces, rest),
                named: false,
                lock: self.lock.clone(),
            });
        }
        slices.push(self);
        slices
    }
}

/// The first piece behind so many chunks.
fn first_past(pieces: &[Piece], chunks: usize) -> Option<usize> {
    let starts = |i: &usize| *i == 0 || chunk_of(&pieces[*i]) != chunk_of(&pieces[*i - 1]);
    (0..pieces.len()).filter(starts).nth(chunks)
}

fn chunk_of(piece: &Piece) -> u64 {
    piece.offset / CHUNK_BYTES
}

// A commit of the metadata must be an entry of the redo log, whatever else the entry says.
const _: () = assert!(weir_meta::kv::COMMIT_BYTES_MAX * 3 / 2 < weir_tier::ENTRY_BYTES_MAX);

impl Drop for Part {
    /// Whatever ended the flush before its commit, the ranges are dirty again; after it none is
    /// in flight any more, and this does nothing.
    fn drop(&mut self) {
        if self.lock.is_none() {
            self.node.sent.fetch_sub(1, Ordering::AcqRel);
        }
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
    all: Arc<parking_lot::Mutex<HashSet<SegmentId>>>,
    pub(crate) id: SegmentId,
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.all.lock().remove(&self.id);
    }
}

impl Core {
    /// Flushes one file's dirty data to the bucket and commits it; not yet durable metadata.
    /// Callers at the same time share segments.
    pub(crate) async fn flush_file(self: &Arc<Self>, ino: Ino) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.flusher.waiting.lock().push((ino, sender));
        {
            // Whoever leads takes along all who came while the last leader was packing.
            let _leading = self.flusher.leading.lock().await;
            let requests = std::mem::take(&mut *self.flusher.waiting.lock());
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
        // While the metadata takes nothing, nothing more is sent for it.
        self.commit_waiting().await?;
        let mut left = Vec::new();
        let mut uploads: JoinSet<Result<Vec<Ino>>> = JoinSet::new();
        let mut load = None;
        let mut result = Ok(());
        for &ino in inos {
            let Some(mirror) = self.tier.find(ino).filter(|m| m.has_news()) else {
                continue;
            };
            if let Err(error) = mirror.check_sound() {
                result = result.and(Err(error));
                continue;
            }
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
        match load {
            // A small fsync: every hop to another task would be a part of its latency.
            Some(load) if uploads.is_empty() => match self.upload(load).await {
                Ok(void) => left.extend(void),
                Err(error) => result = result.and(Err(error)),
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
    pub(crate) fn new_segment(&self) -> (InFlight, SegmentBuilder) {
        let id = SegmentId::new(self.unix_ms(), (self.clock.random)());
        self.in_flight().insert(id);
        let builder = SegmentBuilder::new(id, self.format.codec, self.format.segment_bytes);
        (InFlight { all: self.segments_in_flight.clone(), id }, builder)
    }

    /// Hands a load to a task that packs, uploads and commits it.
    fn send(self: &Arc<Self>, load: Load, uploads: &mut JoinSet<Result<Vec<Ino>>>) {
        let core = self.clone();
        uploads.spawn(async move { core.upload(load).await });
    }

    /// Data first, then the metadata that names it. Answers the files whose part was void.
    async fn upload(self: &Arc<Self>, mut load: Load) -> Result<Vec<Ino>> {
        let (in_flight, builder) = self.new_segment();
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
        let segment = sealed.as_ref().map(|s| (s.id, segment_info(s)));
        let parts = parts.into_iter().flat_map(Part::slices).collect();
        let void = self.commit_sent(Sent { segment, parts, in_flight }).await?;
        packed.map(|()| void)
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

    /// Flushes all dirty data there is and makes the metadata durable.
    pub(crate) async fn flush_all(self: &Arc<Self>) -> Result<()> {
        let looked = self.look_for_stores().await;
        self.flush_data().await?;
        self.seen(self.meta.sync().await)?;
        self.settle_journal().await?;
        self.check_doubt()?;
        looked
    }

    /// Says which files have bytes that the tier's disk lost: they never leave for the bucket.
    fn check_doubt(&self) -> Result<()> {
        let inos: Vec<_> = self.tier.in_doubt().iter().map(|m| m.ino().to_string()).collect();
        if inos.is_empty() {
            return Ok(());
        }
        let text = format!(
            "the tier's disk lost bytes of {} files that are not in the bucket (inodes {}; `find \
             -inum` names them): write them anew from nothing, or remove them; else the next mount \
             sets aside what is left of them",
            inos.len(),
            inos[..inos.len().min(20)].join(", "),
        );
        Err(FsError::new(ErrorKind::Corrupt, text))
    }

    /// Flushes all dirty data there is, and commits it.
    pub(crate) async fn flush_data(self: &Arc<Self>) -> Result<()> {
        let inos: Vec<_> = self.tier.news().iter().map(|m| m.ino()).collect();
        self.flush_files(&inos).await
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

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn each_failure_in_a_row_rests_twice_as_long_up_to_half_a_minute() {
        let flusher = Flusher::default();
        for (failures, most) in [(1, 1), (2, 2), (3, 4), (5, 16), (6, 30), (40, 30), (u32::MAX, 30)]
        {
            for chance in [0, 1 << 80, u128::MAX] {
                let began = tokio::time::Instant::now();
                flusher.rest(failures, chance).await;
                let rest = began.elapsed().as_secs_f64();
                let least = f64::from(most) / 2.0;
                assert!((least..=f64::from(most) + 0.01).contains(&rest), "{failures}: {rest} s");
            }
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_rest_ends_when_something_leaves() {
        let flusher = Flusher::default();
        let began = tokio::time::Instant::now();
        let rest = flusher.rest(9, 0);
        let leaves = async {
            tokio::time::sleep(Duration::from_millis(100)).await;
            flusher.went_on();
        };
        tokio::join!(rest, leaves);
        assert!(began.elapsed().as_millis() < 200);
    }
}
