//! The one fetch of a range, whoever wants it.
//!
//! What is under way is known by chunk. Who needs a chunk that is coming waits for it; who needs
//! one that is not starts a fetch in a task of its own, so that a caller who gives up stops
//! nobody else.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::stream::{FuturesUnordered, StreamExt};
use tokio::sync::{Semaphore, watch};
use weir_object::Component;
use weir_tier::Mirror;
use weir_types::{
    CHUNK_BYTES, ChunkIndex, ErrorKind, Extent, FsError, Ino, Result, Settings, chunk_range,
};

use crate::engine::{Core, Counts};
use crate::records::{Decoded, assemble, get_run, plan};

/// Tries to read a chunk whose extents change while it is fetched.
const TRIES: usize = 5;

/// Who is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Somebody waits for it.
    Demand,
    /// Somebody will want it.
    Ahead,
}

type Outcome = Option<Result<(), Arc<FsError>>>;

/// The fetches under way.
pub(crate) struct Fetcher {
    coming: Mutex<HashMap<(Ino, ChunkIndex), watch::Receiver<Outcome>>>,
    pub(crate) demand: Semaphore,
    ahead: Semaphore,
}

impl Fetcher {
    pub(crate) fn new(settings: &Settings) -> Self {
        Self {
            coming: Mutex::default(),
            demand: Semaphore::new(settings.fetch_parallel),
            // Apart, so that what is fetched ahead never stands in the way of what is waited for.
            ahead: Semaphore::new(settings.fetch_parallel.div_ceil(2)),
        }
    }

    fn permits(&self, priority: Priority) -> &Semaphore {
        match priority {
            Priority::Demand => &self.demand,
            Priority::Ahead => &self.ahead,
        }
    }

    /// Bytes that fetches under way will bring at most.
    pub(crate) fn coming_bytes(&self) -> u64 {
        self.coming().len() as u64 * CHUNK_BYTES
    }

    fn coming(&self) -> MutexGuard<'_, HashMap<(Ino, ChunkIndex), watch::Receiver<Outcome>>> {
        self.coming.lock().unwrap_or_else(|e| e.into_inner())
    }
}

/// The chunks one task fetches, and who waits for each. Ends them all when it goes, so that no
/// waiter outlives a fetch that failed or panicked.
pub(crate) struct Claim {
    core: Arc<Core>,
    pub(crate) ino: Ino,
    senders: HashMap<ChunkIndex, watch::Sender<Outcome>>,
}

impl Claim {
    /// Claims one chunk, if nobody else fetches it.
    pub(crate) fn of(core: &Arc<Core>, ino: Ino, chunk: ChunkIndex) -> Option<Self> {
        let (sender, receiver) = watch::channel(None);
        match core.fetcher.coming().entry((ino, chunk)) {
            Entry::Occupied(_) => return None,
            Entry::Vacant(place) => place.insert(receiver),
        };
        Some(Self { core: core.clone(), ino, senders: HashMap::from([(chunk, sender)]) })
    }

    /// Ends the claim; whoever waits looks again whether the bytes are there.
    pub(crate) fn end(mut self) {
        for chunk in self.senders.keys().copied().collect::<Vec<_>>() {
            self.done(chunk, Ok(()));
        }
    }

    fn done(&mut self, chunk: ChunkIndex, result: Result<(), Arc<FsError>>) {
        if let Some(sender) = self.senders.remove(&chunk) {
            self.core.fetcher.coming().remove(&(self.ino, chunk));
            let _ = sender.send(Some(result));
        }
    }

    fn fail(&mut self, error: FsError) {
        let error = Arc::new(error);
        for chunk in self.senders.keys().copied().collect::<Vec<_>>() {
            self.done(chunk, Err(error.clone()));
        }
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if !self.senders.is_empty() {
            self.fail(FsError::new(ErrorKind::Retry, "the fetch was stopped"));
        }
    }
}

impl Core {
    /// Brings page ranges of a file into its mirror; returns when all are there.
    pub(crate) async fn fetch(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        ranges: &[(u64, u64)],
        priority: Priority,
    ) -> Result<()> {
        let waiting = self.start_fetch(mirror, ranges, priority);
        for mut receiver in waiting {
            let outcome = match receiver.wait_for(Option::is_some).await {
                Ok(outcome) => outcome.clone(),
                Err(_) => None,
            };
            match outcome {
                Some(Ok(())) => {}
                Some(Err(error)) => return self.seen(Err(error.share())),
                None => return Err(FsError::new(ErrorKind::Retry, "the fetch was stopped")),
            }
        }
        Ok(())
    }

    /// Starts what is not coming yet, and answers what to wait for.
    pub(crate) fn start_fetch(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        ranges: &[(u64, u64)],
        priority: Priority,
    ) -> Vec<watch::Receiver<Outcome>> {
        let ino = mirror.ino();
        let mut claim = Claim { core: self.clone(), ino, senders: HashMap::new() };
        let mut waiting = Vec::new();
        {
            let mut coming = self.fetcher.coming();
            for chunk in ranges.iter().flat_map(|&(start, end)| chunk_range(start, end)) {
                if let Some(receiver) = coming.get(&(ino, chunk)) {
                    waiting.push(receiver.clone());
                } else {
                    let (sender, receiver) = watch::channel(None);
                    coming.insert((ino, chunk), receiver.clone());
                    claim.senders.insert(chunk, sender);
                    waiting.push(receiver);
                }
            }
        }
        if !claim.senders.is_empty() {
            let (core, mirror) = (self.clone(), mirror.clone());
            tokio::spawn(async move { core.run_fetch(&mirror, claim, priority).await });
        }
        waiting
    }

    async fn run_fetch(self: &Arc<Self>, mirror: &Mirror, mut claim: Claim, priority: Priority) {
        let mut kind = ErrorKind::Retry;
        let mut why = "its extents changed each time they were read".to_owned();
        for _ in 0..TRIES {
            match self.try_fetch(mirror, &mut claim, priority).await {
                // A segment may be collected between the look at the extents and the GET.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    tracing::debug!(ino = %mirror.ino(), %error, "extents moved: looking again");
                    (kind, why) = (ErrorKind::Corrupt, error.to_string());
                }
                Err(error) => return claim.fail(error),
                Ok(()) if claim.senders.is_empty() => return,
                Ok(()) => {}
            }
        }
        let ino = mirror.ino();
        let text = format!("the bytes of inode {ino} cannot be had; run `weir fsck`: {why}");
        claim.fail(FsError::new(kind, text));
    }

    /// Fetches what the claim still wants. Chunks whose pages were released or dropped meanwhile
    /// stay in the claim, for another try.
    async fn try_fetch(
        self: &Arc<Self>,
        mirror: &Mirror,
        claim: &mut Claim,
        priority: Priority,
    ) -> Result<()> {
        let stamp = mirror.stamp();
        let wanted = self.extents_of(claim).await?;
        let mut left: HashMap<ChunkIndex, (usize, Vec<Extent>)> = HashMap::new();
        let mut users: HashMap<_, Vec<ChunkIndex>> = HashMap::new();
        for (chunk, extents) in wanted {
            let mut records: Vec<_> = extents.iter().map(|e| e.record).collect();
            records.dedup_by_key(|r| (r.segment, r.position));
            for record in &records {
                let list = users.entry((record.segment, record.position)).or_default();
                if list.last() != Some(&chunk) {
                    list.push(chunk);
                }
            }
            left.insert(chunk, (0, extents));
        }
        for list in users.values() {
            for chunk in list {
                if let Some((count, _)) = left.get_mut(chunk) {
                    *count += 1;
                }
            }
        }
        let mut decoded = Decoded::new();
        let holes: Vec<_> = left.iter().filter(|(_, l)| l.0 == 0).map(|(c, _)| *c).collect();
        for chunk in holes {
            self.store_chunk(mirror, claim, chunk, &[], &decoded, stamp)?;
        }
        let records = left.values().flat_map(|(_, extents)| extents.iter().map(|e| e.record));
        let runs = plan(records.collect::<Vec<_>>().into_iter(), self.settings.fetch_bytes.0);
        let permits = self.fetcher.permits(priority);
        let alone = runs.len() == 1;
        let mut getting: FuturesUnordered<_> = runs
            .into_iter()
            .map(|run| async move {
                let _permit = permits.acquire().await;
                match alone {
                    true => self.get_with_neighbours(run).await,
                    false => get_run(&self.buckets, Component::Data, run).await,
                }
            })
            .collect();
        while let Some(records) = getting.next().await {
            for (record, bytes) in records? {
                Counts::add(&self.counts.bytes_fetched, u64::from(record.stored_bytes));
                let key = (record.segment, record.position);
                decoded.insert(key, bytes);
                for chunk in users.remove(&key).unwrap_or_default() {
                    let Some((count, extents)) = left.get_mut(&chunk) else {
                        continue;
                    };
                    *count -= 1;
                    if *count == 0 {
                        let extents = std::mem::take(extents);
                        self.store_chunk(mirror, claim, chunk, &extents, &decoded, stamp)?;
                    }
                }
                if !left.values().any(|(count, extents)| *count > 0 && uses(extents, key)) {
                    decoded.remove(&key);
                }
            }
        }
        Ok(())
    }

    /// The extents of each chunk that the claim wants; holes have none.
    async fn extents_of(&self, claim: &Claim) -> Result<Vec<(ChunkIndex, Vec<Extent>)>> {
        let mut chunks: Vec<_> = claim.senders.keys().copied().collect();
        chunks.sort_unstable();
        let mut found = Vec::new();
        for row in chunks.chunk_by(|a, b| a + 1 == *b) {
            let range: Range<ChunkIndex> = row[0]..row[row.len() - 1] + 1;
            let stored = self.seen(self.meta.chunks(claim.ino, range.clone()).await)?;
            let mut stored: HashMap<_, _> = stored.into_iter().collect();
            found.extend(range.map(|chunk| (chunk, stored.remove(&chunk).unwrap_or_default())));
        }
        Ok(found)
    }

    /// Puts a chunk into the mirror and tells who waits; a stale one stays in the claim.
    pub(crate) fn store_chunk(
        &self,
        mirror: &Mirror,
        claim: &mut Claim,
        chunk: ChunkIndex,
        extents: &[Extent],
        decoded: &Decoded,
        stamp: u64,
    ) -> Result<()> {
        let base = chunk * CHUNK_BYTES;
        let bug = || FsError::new(ErrorKind::Bug, "an extent reaches past its record");
        let mut at = base;
        for (start, bytes) in assemble(extents, decoded).ok_or_else(bug)? {
            let (start, end) = (base + start, base + start + bytes.len() as u64);
            let fresh = mirror.fill(at, start, None, stamp)?
                && mirror.fill(start, end, Some(&bytes), stamp)?;
            if !fresh {
                return Ok(());
            }
            at = weir_tier::page_ceil(end);
        }
        if mirror.fill(at, base + CHUNK_BYTES, None, stamp)? {
            claim.done(chunk, Ok(()));
        }
        Ok(())
    }
}

fn uses(extents: &[Extent], key: (weir_types::SegmentId, u32)) -> bool {
    extents.iter().any(|e| (e.record.segment, e.record.position) == key)
}
