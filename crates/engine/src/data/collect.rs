//! Collecting: segments that nothing uses go, those half dead are written anew, small ones are
//! written into large ones, and objects that a crash left without a name are found by listing.

mod keep_age;
mod merge;
mod separate;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::TryStreamExt;
use futures::stream::{self, StreamExt};
use weir_keys::VolumeKeys;
use weir_meta::sessions::sessions;
use weir_meta::{Meta, Reference, SegmentUse};
use weir_object::{Component, StripeSet};
use weir_segment::{IndexEntry, IndexRead, Owner, decode_index, decode_record};
use weir_types::{
    CHUNK_BYTES, ChunkIndex, DiskCache, ErrorKind, Extent, FsError, Ino, RecordRef, Result,
    SegmentId,
};

use self::merge::Small;
use crate::data::admission::budget::{Budget, Slowed};
use crate::data::ages::day_of;
use crate::data::fetch::Fetcher;
use crate::data::holders::{Holders, Standing};
use crate::data::nodes::Nodes;
use crate::data::records::{Decoded, get_all, record_place};
use crate::data::segments::{Segments, segment_info};
use crate::volume::context::{Context, Counts};
use crate::volume::format::read_format_in;
use crate::volume::together::Settled;

/// Segments looked at in one read of the metadata.
const PAGE: usize = 1_000;
/// Looks between two listings of the buckets.
const LOOKS_PER_LISTING: u64 = 12;
/// Dead objects deleted at once: a disk leaves one for each record that is written anew.
const DELETES_AT_ONCE: usize = 16;
/// The collector rests so many times as long as its last look took, at least: a look reads the rows
/// of all segments.
const REST_FACTOR: u32 = 20;
/// First guess at the bytes of a segment's index.
const TAIL_BYTES: u64 = 64 << 10;
/// Small segments got at once while they are merged.
const GETS_AT_ONCE: usize = 8;

/// What the collector remembers between two looks.
#[derive(Default)]
struct Looked {
    /// Since when (on the monotonic clock) a segment has been dead.
    dead_since_ms: HashMap<SegmentId, u64>,
    /// Small segments that could not be read: they are told of once, and not asked for again.
    damaged: HashSet<SegmentId>,
}

/// What a look found to do.
struct Found {
    dead: HashSet<SegmentId>,
    /// Less than half of them is live.
    sparse: Vec<SegmentUse>,
    /// The oldest small ones.
    small: Vec<SegmentUse>,
}

/// Gives back what nothing uses.
pub(crate) struct Collector {
    context: Arc<Context>,
    meta: Arc<Meta>,
    buckets: StripeSet,
    nodes: Arc<Nodes>,
    segments: Arc<Segments>,
    holders: Arc<Holders>,
    fetcher: Arc<Fetcher>,
    budget: Arc<Budget>,
}

impl Collector {
    pub(crate) fn new(
        fetcher: Arc<Fetcher>,
        (segments, holders): (Arc<Segments>, Arc<Holders>),
        budget: Arc<Budget>,
    ) -> Self {
        Self {
            context: fetcher.context.clone(),
            meta: fetcher.meta.clone(),
            buckets: fetcher.buckets.clone(),
            nodes: fetcher.nodes.clone(),
            segments,
            holders,
            fetcher,
            budget,
        }
    }
}

pub(crate) async fn collect_loop(collector: Arc<Collector>) {
    let mut looked = Looked::default();
    let interval = Duration::from_secs(collector.context.settings.collect_interval_s.max(1));
    let mut took = Duration::ZERO;
    for look in 0_u64.. {
        tokio::select! {
            () = tokio::time::sleep(interval.max(took * REST_FACTOR)) => {}
            // Somebody waits for what that gives back.
            () = collector.holders.ended.notified() => {}
        }
        if !collector.context.is_on_duty() {
            continue;
        }
        let began_ms = collector.context.now_ms();
        let collected = async {
            collector.collect(&mut looked).await?;
            if look.is_multiple_of(LOOKS_PER_LISTING) {
                collector.holders.sweep().await?;
                collector.collect_unnamed().await?;
            }
            Ok::<_, FsError>(())
        };
        match collected.await {
            Err(error) if error.kind() == ErrorKind::Fenced => return,
            Err(error) => tracing::warn!(%error, "collecting segments failed: tried again"),
            Ok(()) => {}
        }
        took = Duration::from_millis(collector.context.now_ms() - began_ms);
    }
}

#[cfg(feature = "testing")]
impl Collector {
    /// A look that remembers nothing of those before it, with a listing of the buckets.
    pub(crate) async fn look_once(&self) -> Result<()> {
        self.collect(&mut Looked::default()).await?;
        self.holders.sweep().await?;
        self.collect_unnamed().await
    }
}

impl Collector {
    /// One look at all segments: deletes those that have been dead for the grace period, moves the
    /// live records of those below half, and merges small ones.
    async fn collect(&self, looked: &mut Looked) -> Result<()> {
        let now_ms = self.context.now_ms();
        let grace_ms = self.context.settings.collect_grace_s * 1_000;
        let Found { dead, sparse, small } = self.look(&looked.damaged).await?;
        looked.dead_since_ms.retain(|id, _| dead.contains(id));
        let mut due = Vec::new();
        for id in dead {
            let since = *looked.dead_since_ms.entry(id).or_insert(now_ms);
            due.extend((now_ms - since >= grace_ms).then_some(id));
        }
        self.delete_dead(&due).await?;
        self.compact(&self.holders.sparse(sparse).await?).await?;
        self.merge(small, &mut looked.damaged).await
    }

    /// Deletes dead segments that no snapshot holds.
    async fn delete_dead(&self, dead: &[SegmentId]) -> Result<()> {
        if !dead.is_empty() {
            self.prove_volume().await?;
        }
        let standing = self.holders.settle().await?;
        for ids in dead.chunks(PAGE) {
            self.delete_segments(&standing, &standing.free(ids).await?).await?;
        }
        Ok(())
    }

    /// Before anything is deleted: the place is still of this volume, and not of one whose metadata was restored in its
    /// place. One GET.
    async fn prove_volume(&self) -> Result<()> {
        let now = read_format_in(self.buckets.first()).await?;
        match now.id == self.context.format.id {
            true => Ok(()),
            false => {
                let text = "the metadata of the volume was restored while this mount had another one: unmount it";
                Err(FsError::new(ErrorKind::Fenced, text))
            }
        }
    }

    async fn look(&self, damaged: &HashSet<SegmentId>) -> Result<Found> {
        let rule = self.rule_of_small().await?;
        let some_held = !self.meta.held_segments(None, 1).await?.is_empty();
        // Before the counts: what is settled comes to be used by no commit of whoever made it.
        let settled = self.settled().await?;
        let mut found = Found { dead: HashSet::new(), sparse: Vec::new(), small: Vec::new() };
        let mut after = None;
        loop {
            let mut page = self.meta.segments(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(found) };
            after = Some(last.id);
            // Some of its parts may wait for their commit.
            page.retain(|segment| !self.segments.in_flight().contains(&segment.id));
            page.retain(|segment| settled.has(segment.id));
            if some_held {
                let held = self.held_of(&page).await?;
                page.retain(|segment| !held.contains(&segment.id));
            }
            for segment in page {
                match segment.live_bytes {
                    0 => _ = found.dead.insert(segment.id),
                    // To write what is shared anew gives nothing back.
                    _ if !self.buckets.is_own(segment.id) => {}
                    live if live < segment.info.raw_bytes / 2 => found.sparse.push(segment),
                    _ if found.small.len() < merge::AT_ONCE
                        && rule.takes(&segment)
                        && !damaged.contains(&segment.id) =>
                    {
                        found.small.push(segment);
                    }
                    _ => {}
                }
            }
        }
    }

    /// The dead ones of these that a snapshot is noted to hold.
    async fn held_of(&self, page: &[SegmentUse]) -> Result<HashSet<SegmentId>> {
        let dead = page.iter().filter(|segment| segment.live_bytes == 0);
        let dead: Vec<_> = dead.map(|segment| segment.id).collect();
        let held = dead.iter().zip(self.meta.held(&dead).await?);
        Ok(held.filter(|(_, by)| by.is_some()).map(|(id, _)| *id).collect())
    }

    async fn rule_of_small(&self) -> Result<Small> {
        let disks = self.meta.disks().await?;
        let past_tier = disks.iter().filter(|(_, disk)| disk.cache == DiskCache::None);
        let interval_s = self.context.settings.collect_interval_s.max(1);
        Ok(Small {
            full_bytes: self.context.format.segment_bytes,
            disk_record_bytes: past_tier.map(|(_, disk)| disk.record_bytes).collect(),
            unix_ms: self.context.unix_ms(),
            settle_ms: interval_s * 1_000 * merge::SETTLE_LOOKS,
        })
    }

    /// Forgets dead segments, makes that durable once for all of them, and then deletes their
    /// objects: the other way round a crash could leave a name without its bytes.
    async fn delete_segments(&self, standing: &Standing<'_>, ids: &[SegmentId]) -> Result<()> {
        let (today, ages) = (day_of(self.context.unix_ms()), self.meta.ages(ids).await?);
        let mut forgotten = Vec::with_capacity(ids.len());
        for (id, noted) in ids.iter().zip(ages) {
            if !standing.forget(*id).await? {
                continue;
            }
            forgotten.push(*id);
            // What is shared is another volume's to pay for.
            if let Some(age) = noted.filter(|_| self.buckets.is_own(*id)) {
                self.context.counts.left_class(&age, age.object_bytes, today);
            }
        }
        if forgotten.is_empty() {
            return Ok(());
        }
        self.meta.sync().await?;
        // What is shared is another volume's to delete.
        let own = forgotten.into_iter().filter(|id| self.buckets.is_own(*id));
        let deletes = own.map(|id| async move {
            self.buckets.bucket_for(id).delete(Component::Collect, &id.object_key()).await?;
            Counts::add(&self.context.counts.segments_collected, 1);
            Ok::<_, FsError>(())
        });
        stream::iter(deletes).buffer_unordered(DELETES_AT_ONCE).try_collect().await
    }

    /// Deletes objects older than the grace period that the metadata does not know: a crash came
    /// between their PUT and the commit. One LIST for each 1,000 objects.
    pub(crate) async fn collect_unnamed(&self) -> Result<()> {
        let limit_ms =
            self.context.unix_ms().saturating_sub(self.context.settings.collect_grace_s * 1_000);
        for bucket in self.buckets.iter() {
            let listed = bucket.list(Component::Collect, "seg/").try_chunks(PAGE);
            let mut listed = std::pin::pin!(listed);
            while let Some(page) = listed.try_next().await.map_err(|e| e.1)? {
                let ids = page.iter().filter_map(|o| SegmentId::from_object_key(&o.key));
                let in_flight = self.segments.in_flight().clone();
                let old = ids.filter(|id| id.unix_ms() < limit_ms && !in_flight.contains(id));
                let mut old: Vec<_> = old.collect();
                // Before it is looked which are known: the others stay unknown.
                let settled = self.settled().await?;
                old.retain(|id| settled.has(*id));
                let known = self.meta.segment_known(&old).await?;
                let unnamed: Vec<_> =
                    old.iter().zip(known).filter(|(_, known)| !known).map(|(id, _)| id).collect();
                if !unnamed.is_empty() {
                    // A writer that slept through a takeover knows nothing of its successor's.
                    self.meta.prove_writer().await?;
                    self.prove_volume().await?;
                }
                for id in unnamed {
                    tracing::info!(segment = %id, "deleting a segment that nothing names");
                    bucket.delete(Component::Collect, &id.object_key()).await?;
                    Counts::add(&self.context.counts.segments_collected, 1);
                }
            }
        }
        Ok(())
    }

    /// Which segments of other nodes have come to be named, or never will.
    async fn settled(&self) -> Result<Settled> {
        match self.context.is_shared() {
            false => Ok(Settled::of(&[])),
            true => Ok(Settled::of(&sessions(&**self.meta.kv()).await?)),
        }
    }

    /// Writes the live records of sparse segments into new ones. The old segments are dead then,
    /// and go after their grace.
    async fn compact(&self, sparse: &[SegmentUse]) -> Result<()> {
        let mut moving = Moving::default();
        for segment in sparse {
            // A damaged segment stays as it is, for fsck to name; the others need not wait for it.
            match self.take_live(segment).await {
                Ok(taken) => moving.add(taken),
                Err(error) if error.kind() == ErrorKind::Fenced => return Err(error),
                Err(error) => {
                    tracing::warn!(segment = %segment.id, %error, "a segment cannot be packed anew");
                }
            }
            if moving.raw_bytes >= self.context.format.segment_bytes {
                self.finish_move(std::mem::take(&mut moving)).await?;
            }
        }
        self.finish_move(moving).await
    }

    /// Writes small segments into large ones, as far as that is worth it. One GET for each and one
    /// PUT for each batch of them; nothing while the budget slows anything. What a bucket that is
    /// away keeps from it waits for another look.
    async fn merge(&self, small: Vec<SegmentUse>, damaged: &mut HashSet<SegmentId>) -> Result<()> {
        for batch in merge::batches(small, self.context.format.segment_bytes) {
            if self.budget.slows(Slowed::Hydration) {
                return Ok(());
            }
            let parts = batch.into_iter();
            let taking = parts.map(|part| async move { (part.id, self.take_live(&part).await) });
            let mut taking = stream::iter(taking).buffered(GETS_AT_ONCE);
            let (mut moving, mut merged, mut failed) = (Moving::default(), 0, Vec::new());
            while let Some((id, taken)) = taking.next().await {
                match taken {
                    Ok(taken) => {
                        moving.add(taken);
                        merged += 1;
                    }
                    Err(error) if is_damage(&error) => failed.push((id, error)),
                    Err(error) => return Err(error),
                }
            }
            if merged == 0 && failed.iter().all(|(_, error)| error.kind() == ErrorKind::NotFound) {
                // It is the bucket that is not there: all wait for another look.
                return Ok(());
            }
            for (id, error) in failed {
                tracing::warn!(segment = %id, %error, "a small segment cannot be merged");
                damaged.insert(id);
            }
            if merged == 0 {
                return Ok(());
            }
            // Reading a file on then costs as few requests as if it had been written at once.
            moving.records.sort_by_key(|(_, owner, _)| (owner.ino, owner.offset));
            self.finish_move(moving).await?;
            Counts::add(&self.context.counts.segments_merged, merged);
        }
        Ok(())
    }

    /// The live records of a segment. One GET for one whose index comes with all the rest.
    async fn take_live(&self, segment: &SegmentUse) -> Result<Moving> {
        let (owners, tail) = self.owners(segment).await?;
        let keys: Vec<(Ino, ChunkIndex)> = owners.values().map(|o| chunk_of(*o)).collect();
        let used = self.meta.references(segment.id, &keys).await?;
        let decoded = match tail.len() as u64 == segment.info.object_bytes {
            true => cut_records(self.buckets.keys(), &tail, &used)?,
            false => {
                let extents = used.iter().flat_map(|r| r.extents.iter().copied());
                let most = self.context.settings.fetch_bytes.0;
                let (buckets, permits) = (&self.buckets, &self.fetcher.demand);
                get_all(buckets, Component::Collect, extents, most, permits).await?
            }
        };
        Moving::of(used, &owners, &decoded)
    }

    /// Who owns each record of a segment, by the record's position: what its index says. With the
    /// end of the object that this was read from: all of it, if it is small.
    async fn owners(&self, segment: &SegmentUse) -> Result<(BTreeMap<u32, Owner>, Bytes)> {
        let bytes = segment.info.object_bytes;
        let small = merge::is_small(&segment.info, self.context.format.segment_bytes);
        let mut tail = if small { bytes } else { TAIL_BYTES.min(bytes) };
        loop {
            let key = segment.id.object_key();
            let bucket = self.buckets.bucket_for(segment.id);
            let got = {
                // Never closed: without a permit there is no limit.
                let _permit = self.fetcher.demand.acquire().await.ok();
                bucket.get_range(Component::Collect, &key, bytes - tail..bytes).await?
            };
            match decode_index(segment.id, &got, bytes)? {
                IndexRead::Entries(index) => {
                    let by_position = |e: IndexEntry| (e.record.position, e.owner);
                    return Ok((index.into_iter().map(by_position).collect(), got));
                }
                IndexRead::NeedTail(needed) => tail = needed.min(bytes),
            }
        }
    }

    async fn finish_move(&self, moving: Moving) -> Result<()> {
        let mut rest = moving.records.as_slice();
        let mut moves = HashMap::new();
        let mut segments = Vec::new();
        let mut in_flight = Vec::new();
        while !rest.is_empty() {
            let (flight, mut builder) = self.segments.new_segment();
            in_flight.push(flight);
            while let Some(((old, owner, bytes), after)) = rest.split_first() {
                moves.insert(*old, builder.push(*owner, bytes)?);
                rest = after;
                if builder.is_full() {
                    break;
                }
            }
            let sealed = builder.finish();
            self.segments.put_segment(&sealed, Component::Collect).await?;
            segments.push((sealed.id, segment_info(&sealed)));
        }
        fail::fail_point!("engine::records-moved");
        let used_day = self.used_day(&moving).await?;
        for ((ino, chunk), extents) in by_chunk(moving.used) {
            let node = self.nodes.get(ino);
            let _change = node.change.lock().await;
            let moved: Vec<_> =
                extents.iter().filter_map(|e| Some((e.record, *moves.get(&e.record)?))).collect();
            self.meta.relocate(ino, chunk, &moved, &segments).await?;
        }
        self.keep_age(used_day, &segments).await
    }
}

/// Live records on their way to new segments.
#[derive(Default)]
struct Moving {
    records: Vec<(RecordRef, Owner, Bytes)>,
    used: Vec<Reference>,
    raw_bytes: u64,
}

impl Moving {
    /// The records that `used` names, of one segment.
    fn of(used: Vec<Reference>, owners: &BTreeMap<u32, Owner>, decoded: &Decoded) -> Result<Self> {
        let mut moving = Self::default();
        for record in records_of(&used) {
            let found = (decoded.get(&record_place(&record)), owners.get(&record.position));
            let (Some(bytes), Some(owner)) = found else {
                let text = format!("segment {}: a used record is not in its index", record.segment);
                return Err(FsError::new(ErrorKind::Corrupt, text));
            };
            moving.raw_bytes += bytes.len() as u64;
            moving.records.push((record, *owner, bytes.clone()));
        }
        moving.used = used;
        Ok(moving)
    }

    fn add(&mut self, more: Self) {
        self.raw_bytes += more.raw_bytes;
        self.records.extend(more.records);
        self.used.extend(more.used);
    }
}

/// The records that chunks use of one segment, each once.
fn records_of(used: &[Reference]) -> Vec<RecordRef> {
    let mut records: Vec<RecordRef> =
        used.iter().flat_map(|r| r.extents.iter().map(|e| e.record)).collect();
    records.sort_unstable_by_key(|r| r.position);
    records.dedup();
    records
}

/// The records that chunks use, out of the whole object that they are in.
fn cut_records(keys: &VolumeKeys, object: &Bytes, used: &[Reference]) -> Result<Decoded> {
    let cut = |record: RecordRef| {
        let (start, bytes) = (record.position as usize, record.stored_bytes as usize);
        let Some(end) = start.checked_add(bytes).filter(|end| *end <= object.len()) else {
            let text = format!("segment {}: a used record is behind its end", record.segment);
            return Err(FsError::new(ErrorKind::Corrupt, text));
        };
        Ok((record_place(&record), decode_record(keys, &record, None, object.slice(start..end))?))
    };
    records_of(used).into_iter().map(cut).collect()
}

/// What each chunk uses of all the segments: one commit for it, however many these are.
fn by_chunk(used: Vec<Reference>) -> BTreeMap<(Ino, ChunkIndex), Vec<Extent>> {
    let mut chunks: BTreeMap<_, Vec<Extent>> = BTreeMap::new();
    for reference in used {
        chunks.entry((reference.ino, reference.chunk)).or_default().extend(reference.extents);
    }
    chunks
}

/// Whether an error is that of one object, and no other is any better for waiting.
fn is_damage(error: &FsError) -> bool {
    matches!(error.kind(), ErrorKind::Corrupt | ErrorKind::NotFound | ErrorKind::Unsupported)
}

fn chunk_of(owner: Owner) -> (Ino, ChunkIndex) {
    (owner.ino, owner.offset / CHUNK_BYTES)
}
