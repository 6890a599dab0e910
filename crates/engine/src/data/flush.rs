//! Flushing: dirty ranges become records, records become segments, segments leave, and then the
//! metadata names them.
//!
//! A round gathers the dirty ranges of its files, in order, into one load after the other, each
//! about a segment's worth. A load is packed, uploaded and committed in a task of its own while the
//! next one is gathered, at most `flush_parallel` at once.

pub(crate) mod background;
pub(crate) mod bring;
mod commit;
mod load;
mod pack;
pub(crate) mod pending;
mod waiting;

use std::sync::Arc;

use pack::pack_all;
use tokio::sync::oneshot;
use tokio::task::JoinSet;
use waiting::{Sent, Waiting};
use weir_meta::Meta;
use weir_object::Component;
use weir_tier::Tier;
use weir_types::{CHUNK_BYTES, ErrorKind, FsError, Ino, Result};

use crate::data::flush::load::{Compression, Flushing, Load, Part};
use crate::data::flush::pending::Background;
use crate::data::journal::Journal;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;
use crate::data::segments::{Segments, segment_info};
use crate::data::space::Space;
use crate::volume::context::{Context, blocking};
use crate::volume::locks::{self, Place};

/// Times that a flush voided by a truncation under it is begun anew.
const TRIES: usize = 10;

/// Who waits for a flush of which file.
type Request = (Ino, oneshot::Sender<Result<()>>);

/// Callers that want single files flushed, gathered so that they share segments.
struct Requests {
    waiting: parking_lot::Mutex<Vec<Request>>,
    leading: locks::Mutex,
}

/// Brings dirty data to the bucket, and has the metadata name it.
pub(crate) struct Flusher {
    context: Arc<Context>,
    meta: Arc<Meta>,
    tier: Arc<Tier>,
    nodes: Arc<Nodes>,
    journal: Option<Arc<Journal>>,
    mirrors: Arc<Mirrors>,
    space: Arc<Space>,
    segments: Arc<Segments>,
    requests: Requests,
    compression: Compression,
    /// What is in the bucket and waits for a commit that failed.
    sent: Waiting,
    pub(crate) background: Background,
}

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

impl Flusher {
    pub(crate) fn new(
        context: Arc<Context>,
        nodes: Arc<Nodes>,
        journal: Option<Arc<Journal>>,
        mirrors: Arc<Mirrors>,
        space: Arc<Space>,
        segments: Arc<Segments>,
    ) -> Self {
        Self {
            context,
            meta: mirrors.meta.clone(),
            tier: mirrors.tier.clone(),
            nodes,
            journal,
            mirrors,
            space,
            segments,
            requests: Requests {
                waiting: parking_lot::Mutex::default(),
                leading: locks::Mutex::new(Place::FlushLead, 0, ()),
            },
            compression: Compression::default(),
            sent: Waiting::new(),
            background: Background::default(),
        }
    }

    /// Flushes one file's dirty data to the bucket and commits it; not yet durable metadata.
    /// Callers at the same time share segments.
    pub(crate) async fn flush_file(self: &Arc<Self>, ino: Ino) -> Result<()> {
        let (sender, receiver) = oneshot::channel();
        self.requests.waiting.lock().push((ino, sender));
        {
            // Whoever leads takes along all who came while the last leader was packing.
            let _leading = self.requests.leading.lock().await;
            let requests = std::mem::take(&mut *self.requests.waiting.lock());
            if !requests.is_empty() {
                let flusher = self.clone();
                tokio::spawn(async move { flusher.serve(requests).await });
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
        self.context.check_writable()?;
        let caught = self.mirrors.scan_mapped_writes(inos).await;
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
        self.context.check_writable()?;
        let caught = self.mirrors.scan_mapped_writes(inos).await;
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
            let Some(mirror) = self.tier.find(ino).filter(|m| m.has_unflushed()) else {
                continue;
            };
            if let Err(error) = mirror.check_sound() {
                result = result.and(Err(error));
                continue;
            }
            let node = self.nodes.get(ino);
            let flushing = match node.flush.try_lock_owned() {
                Ok(flushing) => flushing,
                Err(_) if round == Round::Wait => node.flush.lock_owned().await,
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
        result?;
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
        let full = self.compression.load_bytes(&self.context.format);
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
            after = snapshot.ranges.last().map_or(after, |range| weir_tier::page_ceil(range.end));
            let bytes: u64 = snapshot.ranges.iter().map(|range| range.len()).sum();
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
        let permits = self.segments.memory(bytes).await;
        Load { parts: Vec::new(), raw_bytes: 0, permits }
    }

    /// Hands a load to a task that packs, uploads and commits it.
    fn send(self: &Arc<Self>, load: Load, uploads: &mut JoinSet<Result<Vec<Ino>>>) {
        let flusher = self.clone();
        uploads.spawn(async move { flusher.upload(load).await });
    }

    /// Data first, then the metadata that names it. Answers the files whose part was void.
    async fn upload(self: &Arc<Self>, mut load: Load) -> Result<Vec<Ino>> {
        let (in_flight, builder) = self.segments.new_segment_of(load.raw_bytes);
        let record_bytes = self.context.format.record_bytes;
        let parts = std::mem::take(&mut load.parts);
        let (sealed, parts, packed) = match load.raw_bytes > PACK_HERE_BYTES {
            true => blocking(move || Ok(pack_all(builder, parts, record_bytes))).await?,
            false => pack_all(builder, parts, record_bytes),
        };
        load.shrink(sealed.as_ref().map_or(0, |s| s.bytes.len()));
        if let Some(sealed) = &sealed {
            self.segments.put_segment(sealed, Component::Data).await?;
            self.compression.packed(sealed);
        }
        fail::fail_point!("engine::segment-put");
        let segment = sealed.as_ref().map(|s| (s.id, segment_info(s)));
        sealed.into_iter().for_each(|sealed| self.segments.keep_memory(sealed));
        let parts = parts.into_iter().flat_map(Part::slices).collect();
        let void = self.commit_sent(Sent { segment, parts, in_flight }).await?;
        packed.map(|()| void)
    }

    /// Flushes all dirty data there is, and commits it.
    pub(crate) async fn flush_data(self: &Arc<Self>) -> Result<()> {
        let inos: Vec<_> = self.tier.unflushed().iter().map(|m| m.ino()).collect();
        self.flush_files(&inos).await
    }
}
