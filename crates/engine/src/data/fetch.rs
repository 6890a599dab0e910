//! The one fetch of a range, whoever wants it.
//!
//! What is under way is known by chunk. Who needs a chunk that is coming waits for it; who needs
//! one that is not starts a fetch in a task of its own, so that a caller who gives up stops
//! nobody else.

pub(crate) mod by_peers;
mod lost;
pub(crate) mod recent;
mod run;
mod stored;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore, SemaphorePermit, watch};
use weir_meta::Meta;
use weir_object::StripeSet;
use weir_tier::{Mirror, Tier};
use weir_types::{
    ByteRange, CHUNK_BYTES, ChunkIndex, ErrorKind, FsError, Ino, Result, chunk_range,
};

use super::admission::budget::{Budget, Slowed};
use super::mirrors::Mirrors;
use super::nodes::Nodes;
use super::peers::Peers;
use super::space::Space;
use super::upward::NativeObjects;
use crate::volume::context::Context;
use crate::volume::locks::{self, Place};

/// Memory that a GET takes, with the half of a fetch ahead and the quarter of a hydration that come
/// with it: a piece of the body, and a record that is not whole yet.
const BODY_BYTES: u64 = 4 << 20;
/// Turns of hydrations are counted in parts of this many: a GET of a chunk or less takes one, because
/// its body is small, and a far bucket is kept busy by many of them only.
const TURN_PARTS: usize = (BODY_BYTES / CHUNK_BYTES) as usize;
/// The share of its turns that a hydration keeps while others fetch.
const HYDRATE_SHARE: usize = 4;
/// Tries to bring what others stored nothing of, or what goes again meanwhile.
const TRIES: usize = 5;

/// Who is served first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Priority {
    /// Somebody waits for it.
    Demand,
    /// Somebody will want it.
    Ahead {
        /// Bytes of each GET at most.
        part_bytes: u64,
    },
    /// Somebody asked for the whole file, and waits for nothing of it in particular.
    Hydrate,
}

type FetchOutcome = Option<Result<(), Arc<FsError>>>;

/// A chunk that is on its way.
struct Coming {
    outcome: watch::Receiver<FetchOutcome>,
    urgency: Arc<Urgency>,
}

/// The fetches under way.
pub(crate) struct Fetcher {
    pub(super) context: Arc<Context>,
    pub(super) meta: Arc<Meta>,
    pub(super) tier: Arc<Tier>,
    pub(super) buckets: StripeSet,
    pub(super) nodes: Arc<Nodes>,
    pub(super) mirrors: Arc<Mirrors>,
    pub(super) space: Arc<Space>,
    pub(super) natives: Arc<dyn NativeObjects>,
    coming: Mutex<HashMap<(Ino, ChunkIndex), Coming>>,
    pub(crate) demand: Semaphore,
    ahead: Semaphore,
    hydrate: Semaphore,
    /// Held by the hydration whose turn is next.
    hydrate_next: locks::Mutex,
    /// What `demand` and `ahead` have when nobody fetches.
    most: (usize, usize),
    budget: Arc<Budget>,
    peers: Option<Arc<Peers>>,
}

/// What a [`Fetcher`] is made of.
pub(crate) struct FetcherParts {
    pub(crate) context: Arc<Context>,
    pub(crate) meta: Arc<Meta>,
    pub(crate) tier: Arc<Tier>,
    pub(crate) buckets: StripeSet,
    pub(crate) nodes: Arc<Nodes>,
    pub(crate) mirrors: Arc<Mirrors>,
    pub(crate) space: Arc<Space>,
    pub(crate) natives: Arc<dyn NativeObjects>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) peers: Option<Arc<Peers>>,
}

impl Fetcher {
    pub(crate) fn new(parts: FetcherParts) -> Self {
        let settings = &parts.context.settings;
        let parallel = (settings.memory().fetches / BODY_BYTES) as usize;
        let parallel = parallel.clamp(1, settings.fetch_parallel);
        Self {
            context: parts.context,
            meta: parts.meta,
            tier: parts.tier,
            buckets: parts.buckets,
            nodes: parts.nodes,
            mirrors: parts.mirrors,
            space: parts.space,
            natives: parts.natives,
            coming: Mutex::default(),
            demand: Semaphore::new(parallel),
            // Apart, so that what is fetched ahead never stands in the way of what is waited for.
            ahead: Semaphore::new(parallel.div_ceil(2)),
            hydrate: Semaphore::new(parallel * TURN_PARTS),
            hydrate_next: locks::Mutex::new(Place::HydrateTurn, 0, ()),
            most: (parallel, parallel.div_ceil(2)),
            budget: parts.budget,
            peers: parts.peers,
        }
    }

    /// GETs of hydrations at once, at most.
    pub(crate) fn hydrate_most(&self) -> usize {
        self.most.0
    }

    /// Waits for a turn to get `bytes`. Who fetches what nobody waits for passes others of that kind
    /// once somebody waits for one of its chunks. The semaphores are never closed: without a permit
    /// there is no limit.
    pub(crate) async fn turn(
        &self,
        priority: Priority,
        bytes: u64,
        urgency: &Urgency,
        chunks: &[ChunkIndex],
    ) -> Option<SemaphorePermit<'_>> {
        let permit = match priority {
            Priority::Demand => None,
            Priority::Ahead { .. } => {
                urgency.unless(chunks, async { self.ahead.acquire().await.ok() }).await
            }
            Priority::Hydrate => urgency.unless(chunks, self.turn_to_hydrate(bytes)).await,
        };
        match permit {
            Some(permit) => Some(permit),
            None => {
                self.budget.wait(Slowed::Demand).await;
                self.demand.acquire().await.ok()
            }
        }
    }

    /// A turn of those who hydrate: as many as those who wait may have, a share of them while others
    /// fetch, and none before those who wait for a turn of their own by now.
    async fn turn_to_hydrate(&self, bytes: u64) -> Option<SemaphorePermit<'_>> {
        self.budget.wait(Slowed::Hydration).await;
        let _next = self.hydrate_next.lock().await;
        let idle = self.demand.available_permits() == self.most.0
            && self.ahead.available_permits() == self.most.1;
        let parts = if bytes <= CHUNK_BYTES { 1 } else { TURN_PARTS };
        let weight = parts * if idle { 1 } else { (self.most.0 / HYDRATE_SHARE).max(1) };
        let permit = self.hydrate.acquire_many(weight as u32).await.ok()?;
        drop(self.demand.acquire().await);
        Some(permit)
    }

    fn coming(&self) -> MutexGuard<'_, HashMap<(Ino, ChunkIndex), Coming>> {
        self.coming.lock()
    }
}

/// The chunks of a fetch ahead that somebody waits for by now.
#[derive(Default)]
pub(crate) struct Urgency {
    chunks: Mutex<HashSet<ChunkIndex>>,
    changed: Notify,
}

impl Urgency {
    fn hurry(&self, chunk: ChunkIndex) {
        self.chunks.lock().insert(chunk);
        self.changed.notify_waiters();
    }

    /// Waits for a turn; `None` as soon as somebody waits for one of the chunks.
    async fn unless<'a>(
        &self,
        chunks: &[ChunkIndex],
        turn: impl Future<Output = Option<SemaphorePermit<'a>>>,
    ) -> Option<SemaphorePermit<'a>> {
        tokio::pin!(turn);
        loop {
            let changed = self.changed.notified();
            tokio::pin!(changed);
            changed.as_mut().enable();
            if self.is_for(chunks) {
                return None;
            }
            tokio::select! {
                permit = &mut turn => return permit,
                () = changed => {}
            }
        }
    }

    fn is_for(&self, chunks: &[ChunkIndex]) -> bool {
        let urgent = self.chunks.lock();
        chunks.iter().any(|chunk| urgent.contains(chunk))
    }
}

/// The chunks one task fetches, and who waits for each. Ends them all when it goes, so that no
/// waiter outlives a fetch that failed or panicked.
pub(crate) struct Claim {
    fetcher: Arc<Fetcher>,
    pub(crate) ino: Ino,
    urgency: Arc<Urgency>,
    senders: HashMap<ChunkIndex, watch::Sender<FetchOutcome>>,
    /// Room in the tier that each of its chunks may take.
    room_bytes: u64,
}

impl Claim {
    /// Claims one chunk if nobody else fetches it. It will take `room_bytes` of the tier, and goes
    /// with others that share its urgency.
    pub(crate) fn one(
        fetcher: &Arc<Fetcher>,
        ino: Ino,
        chunk: ChunkIndex,
        room_bytes: u64,
        urgency: Arc<Urgency>,
    ) -> Option<Self> {
        let mut claim = Self::none(fetcher, ino);
        (claim.urgency, claim.room_bytes) = (urgency, room_bytes);
        let taken = claim.add(&mut fetcher.coming(), chunk);
        taken.then_some(claim)
    }

    fn none(fetcher: &Arc<Fetcher>, ino: Ino) -> Self {
        let (fetcher, urgency) = (fetcher.clone(), Arc::default());
        Self { fetcher, ino, urgency, senders: HashMap::new(), room_bytes: CHUNK_BYTES }
    }

    /// Takes a chunk in, unless it is on its way already.
    fn add(&mut self, coming: &mut HashMap<(Ino, ChunkIndex), Coming>, chunk: ChunkIndex) -> bool {
        let Entry::Vacant(place) = coming.entry((self.ino, chunk)) else {
            return false;
        };
        let (sender, outcome) = watch::channel(None);
        place.insert(Coming { outcome, urgency: self.urgency.clone() });
        self.senders.insert(chunk, sender);
        self.fetcher.space.expect(self.room_bytes);
        true
    }

    /// Ends the claim; whoever waits looks again whether the bytes are there.
    pub(crate) fn end(mut self) {
        for chunk in self.senders.keys().copied().collect::<Vec<_>>() {
            self.done(chunk, Ok(()));
        }
    }

    pub(crate) fn done(&mut self, chunk: ChunkIndex, result: Result<(), Arc<FsError>>) {
        if let Some(sender) = self.senders.remove(&chunk) {
            self.fetcher.coming().remove(&(self.ino, chunk));
            self.fetcher.space.arrived(self.room_bytes);
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

impl Fetcher {
    /// Brings page ranges of a file into its mirror; returns when all are there.
    pub(crate) async fn fetch(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        ranges: &[ByteRange],
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
                Some(Err(error)) => return Err(error.share()),
                None => return Err(FsError::new(ErrorKind::Retry, "the fetch was stopped")),
            }
        }
        Ok(())
    }

    /// The same for who reads nothing of it, and so would not see that it is not there: a fetch by
    /// another may end without having stored its bytes.
    pub(crate) async fn fetch_whole(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        ranges: &[ByteRange],
        priority: Priority,
    ) -> Result<()> {
        let missing = || ranges.iter().flat_map(|range| mirror.missing(range.start, range.end));
        for _ in 0..TRIES {
            let missing: Vec<_> = missing().collect();
            if missing.is_empty() {
                return Ok(());
            }
            self.fetch(mirror, &missing, priority).await?;
        }
        match missing().next() {
            None => Ok(()),
            Some(ByteRange { start, .. }) => {
                let ino = mirror.ino();
                let text = format!("the bytes of inode {ino} at {start} went as fast as they came");
                Err(FsError::new(ErrorKind::Retry, text))
            }
        }
    }

    /// Starts what is not coming yet, and answers what to wait for.
    pub(crate) fn start_fetch(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        ranges: &[ByteRange],
        priority: Priority,
    ) -> Vec<watch::Receiver<FetchOutcome>> {
        let ino = mirror.ino();
        let mut claim = Claim::none(self, ino);
        let mut waiting = Vec::new();
        {
            let mut coming = self.coming();
            for chunk in ranges.iter().flat_map(|range| chunk_range(range.start, range.end)) {
                let new = claim.add(&mut coming, chunk);
                let Some(entry) = coming.get(&(ino, chunk)) else { continue };
                if !new && priority == Priority::Demand {
                    entry.urgency.hurry(chunk);
                }
                waiting.push(entry.outcome.clone());
            }
        }
        // Another fetch may have ended since the caller looked.
        for chunk in claim.senders.keys().copied().collect::<Vec<_>>() {
            if mirror.missing(chunk * CHUNK_BYTES, (chunk + 1) * CHUNK_BYTES).is_empty() {
                claim.done(chunk, Ok(()));
            }
        }
        if !claim.senders.is_empty() {
            let (fetcher, mirror) = (self.clone(), mirror.clone());
            tokio::spawn(async move { fetcher.run_fetch(mirror, claim, priority).await });
        }
        waiting
    }
}
