//! One fetch, from the chunks that somebody wants to their bytes in the mirror.
//!
//! Runs come side by side, each in a task of its own. A record is verified, decoded and stored by
//! the task that received it, and a chunk is handed to who waits as soon as its last record is
//! there, while the rest of the run is still on its way.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::task::JoinSet;
use weir_peer::FileRecord;
use weir_tier::Mirror;
use weir_types::{
    CHUNK_BYTES, ChunkIndex, ErrorKind, Extent, FsError, Ino, Native, RecordRef, Result,
};

use super::{Claim, Priority, Urgency};
use crate::data::fetch::Fetcher;
use crate::data::native::{NativeRun, plan_native};
use crate::data::records::{Decoded, Place, Run, assemble, place, plan, record_place};
use crate::volume::context::Counts;

/// Tries to read a chunk whose extents change while it is fetched.
const TRIES: usize = 5;

/// What the runs of one fetch work on together.
pub(super) struct Work {
    pub(super) fetcher: Arc<Fetcher>,
    pub(super) mirror: Arc<Mirror>,
    stamp: u64,
    priority: Priority,
    /// The object that native runs are of.
    native: Option<Native>,
    state: Mutex<RunState>,
}

/// What one GET brings.
enum Job {
    Records(Run),
    Native(NativeRun),
}

impl Job {
    fn places(&self) -> Vec<Place> {
        match self {
            Job::Records(run) => run.records.iter().map(record_place).collect(),
            Job::Native(run) => run.places().collect(),
        }
    }

    fn bytes(&self) -> u64 {
        match self {
            Job::Records(run) => run.bytes(),
            Job::Native(run) => run.bytes(),
        }
    }
}

pub(super) struct RunState {
    claim: Claim,
    chunks: HashMap<ChunkIndex, Wanted>,
    /// Chunks that use a record which is not here yet.
    users: HashMap<Place, Vec<ChunkIndex>>,
    /// Records that are here, with the number of chunks that still need them.
    here: HashMap<Place, (Bytes, usize)>,
}

/// A chunk that is not whole yet.
struct Wanted {
    extents: Vec<Extent>,
    /// Records that are missing.
    missing: usize,
}

/// A chunk whose records are all here.
type Whole = (ChunkIndex, Vec<Extent>, Decoded);

impl Fetcher {
    pub(super) async fn run_fetch(
        self: &Arc<Self>,
        mirror: Arc<Mirror>,
        mut claim: Claim,
        priority: Priority,
    ) {
        let ino = mirror.ino();
        let mut why = None;
        for _ in 0..TRIES {
            let result;
            (claim, result) = self.try_fetch(&mirror, claim, priority).await;
            match result {
                // A segment may be collected between the look at the extents and the GET.
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    tracing::debug!(%ino, %error, "extents moved: looking again");
                    why = Some(error.to_string());
                    self.mirrors.look_again(ino).await;
                }
                Err(error) => return claim.fail(error),
                Ok(()) if claim.senders.is_empty() => return,
                Ok(()) => why = None,
            }
        }
        match why {
            Some(why) => {
                let text =
                    format!("the bytes of inode {ino} cannot be had; run `weir fsck`: {why}");
                claim.fail(FsError::new(ErrorKind::Corrupt, text));
            }
            // What did not change is here, and whoever waits for the rest looks again.
            None if priority == Priority::Demand => claim.end(),
            None => {
                let text = format!("inode {ino} changes faster than it can be fetched");
                claim.fail(FsError::new(ErrorKind::Retry, text));
            }
        }
    }

    /// Fetches what the claim still wants. Chunks whose pages were released or dropped meanwhile
    /// stay in the claim, for another try.
    async fn try_fetch(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        claim: Claim,
        priority: Priority,
    ) -> (Claim, Result<()>) {
        let stamp = mirror.stamp();
        let (native, wanted) = match self.extents_of(&claim).await {
            Ok(found) => found,
            Err(error) => return (claim, Err(error)),
        };
        let most = match priority {
            Priority::Ahead { part_bytes } => part_bytes.min(self.context.settings.fetch_bytes.0),
            Priority::Demand | Priority::Hydrate => self.context.settings.fetch_bytes.0,
        };
        let all = wanted.iter().flat_map(|(_, extents)| extents);
        let records = all.filter(|e| !e.is_native()).map(|e| e.record);
        let runs = plan(records.collect::<Vec<_>>().into_iter(), most).into_iter();
        let natives = plan_native(&wanted, most).into_iter();
        let jobs = runs.map(Job::Records).chain(natives.map(Job::Native)).collect();
        let nobody = Claim::none(self, claim.ino);
        let work = Arc::new(Work {
            fetcher: self.clone(),
            mirror: mirror.clone(),
            stamp,
            priority,
            native,
            state: Mutex::new(RunState::new(claim, wanted)),
        });
        let result = work.clone().fetch_all(jobs).await;
        // Tasks that an error stopped half-way may hold the work a little longer, but not this.
        let claim = std::mem::replace(&mut work.state().claim, nobody);
        (claim, result)
    }

    /// The extents of each chunk that the claim wants, in order; holes have none. And the object
    /// that native ones are of.
    async fn extents_of(
        &self,
        claim: &Claim,
    ) -> Result<(Option<Native>, Vec<(ChunkIndex, Vec<Extent>)>)> {
        let mut native = None;
        let mut chunks: Vec<_> = claim.senders.keys().copied().collect();
        chunks.sort_unstable();
        let mut found = Vec::new();
        for row in chunks.chunk_by(|a, b| a + 1 == *b) {
            let range: Range<ChunkIndex> = row[0]..row[row.len() - 1] + 1;
            let stored = self.mirrors.chunks(claim.ino, range.clone()).await?;
            // All rows are of one object, or an older stamp keeps them from being stored.
            native = stored.native;
            let mut stored: HashMap<_, _> = stored.list.into_iter().collect();
            found.extend(range.map(|chunk| (chunk, stored.remove(&chunk).unwrap_or_default())));
        }
        Ok((native, found))
    }

    /// Puts a chunk into the mirror, as far as it is of now; `false` if some of it is out of date.
    pub(crate) fn store_chunk(
        &self,
        mirror: &Mirror,
        chunk: ChunkIndex,
        extents: &[Extent],
        decoded: &Decoded,
        stamp: u64,
    ) -> Result<bool> {
        let base = chunk * CHUNK_BYTES;
        let bug = || FsError::new(ErrorKind::Bug, "an extent reaches past its record");
        let (mut at, mut fresh) = (base, true);
        for (start, bytes) in assemble(chunk, extents, decoded).ok_or_else(bug)? {
            let (start, end) = (base + start, base + start + bytes.len() as u64);
            fresh &= mirror.fill(at, start, None, stamp)?;
            fresh &= mirror.fill(start, end, Some(&bytes), stamp)?;
            at = weir_tier::page_ceil(end);
        }
        Ok(mirror.fill(at, base + CHUNK_BYTES, None, stamp)? && fresh)
    }
}

impl Work {
    async fn fetch_all(self: Arc<Self>, mut jobs: Vec<Job>) -> Result<()> {
        let holes = self.state().holes();
        holes.into_iter().try_for_each(|chunk| self.store((chunk, Vec::new(), Decoded::new())))?;
        if jobs.len() <= 1 {
            return match jobs.pop() {
                Some(job) => self.fetch_job(&job, true).await,
                None => Ok(()),
            };
        }
        let mut fetching = JoinSet::new();
        for job in jobs {
            let work = self.clone();
            fetching.spawn(async move { work.fetch_job(&job, false).await });
        }
        let mut result = Ok(());
        while let Some(done) = fetching.join_next().await {
            let done = done.map_err(|e| FsError::new(ErrorKind::Bug, format!("fetch: {e}")));
            result = result.and(done.flatten());
        }
        result
    }

    /// Does one job. What keeps its bytes from coming is told to those who wait for them, and
    /// to nobody else; only that an object is not there is for the caller, who looks again.
    async fn fetch_job(&self, job: &Job, alone: bool) -> Result<()> {
        let (urgency, chunks) = {
            let state = self.state();
            let places = job.places();
            let users = places.iter().filter_map(|place| state.users.get(place));
            (state.claim.urgency.clone(), users.flatten().copied().collect::<Vec<_>>())
        };
        match self.try_job(job, alone, &urgency, &chunks).await {
            Err(error)
                if is_lost(&error)
                    && let Job::Records(run) = job
                    && self.take_from_anybody(run).await =>
            {
                Ok(())
            }
            Err(error) if error.kind() != ErrorKind::NotFound => {
                let error = Arc::new(error);
                let claim = &mut self.state().claim;
                chunks.into_iter().for_each(|chunk| claim.done(chunk, Err(error.clone())));
                Ok(())
            }
            result => result,
        }
    }

    async fn try_job(
        &self,
        job: &Job,
        alone: bool,
        urgency: &Urgency,
        chunks: &[ChunkIndex],
    ) -> Result<()> {
        let _turn = self.fetcher.turn(self.priority, job.bytes(), urgency, chunks).await;
        let run = match job {
            Job::Records(run) => run,
            Job::Native(run) => return self.get_native(run).await,
        };
        if alone && let Some(end) = self.fetcher.window_end(run).await {
            for (record, bytes) in self.fetcher.get_batch(run, end).await? {
                self.take(record_place(&record), record.stored_bytes, bytes)?;
            }
            return Ok(());
        }
        self.fetcher.space.recent.note(run);
        let mut each =
            |record: RecordRef, bytes| self.take(record_place(&record), record.stored_bytes, bytes);
        let files = self.state().files_of(&run.records, self.mirror.ino());
        self.fetcher.get_records(run, &files, &mut each).await
    }

    /// Gets a part of the native object, as long as it is the one that the metadata knows.
    async fn get_native(&self, run: &NativeRun) -> Result<()> {
        let Some(native) = &self.native else {
            return Err(FsError::new(ErrorKind::Bug, "a native extent without an object"));
        };
        let mut each = |place, bytes: Bytes| self.take(place, bytes.len() as u32, bytes);
        self.fetcher.get_native(self.mirror.ino(), native, run, &mut each).await
    }

    /// A record or piece came: chunks that now are whole go into the mirror.
    pub(super) fn take(&self, place: Place, stored_bytes: u32, bytes: Bytes) -> Result<()> {
        Counts::add(&self.fetcher.context.counts.bytes_fetched, u64::from(stored_bytes));
        let whole = self.state().take(place, bytes);
        whole.into_iter().try_for_each(|whole| self.store(whole))
    }

    fn store(&self, (chunk, extents, decoded): Whole) -> Result<()> {
        if self.fetcher.store_chunk(&self.mirror, chunk, &extents, &decoded, self.stamp)? {
            self.state().claim.done(chunk, Ok(()));
        }
        Ok(())
    }

    pub(super) fn state(&self) -> MutexGuard<'_, RunState> {
        self.state.lock()
    }
}

impl RunState {
    fn new(claim: Claim, wanted: Vec<(ChunkIndex, Vec<Extent>)>) -> Self {
        let mut users: HashMap<Place, Vec<ChunkIndex>> = HashMap::new();
        let mut chunks = HashMap::new();
        for (chunk, extents) in wanted {
            let places = places(chunk, &extents);
            for place in &places {
                users.entry(*place).or_default().push(chunk);
            }
            chunks.insert(chunk, Wanted { extents, missing: places.len() });
        }
        Self { claim, chunks, users, here: HashMap::new() }
    }

    fn holes(&mut self) -> Vec<ChunkIndex> {
        self.chunks.extract_if(|_, wanted| wanted.missing == 0).map(|(chunk, _)| chunk).collect()
    }

    /// Whether a record is not here yet.
    pub(super) fn lacks(&self, record: &RecordRef) -> bool {
        self.users.contains_key(&record_place(record))
    }

    /// Records that are not here yet, with the bytes of the file that they were made of, up to the first of which that is
    /// not known.
    pub(super) fn files_of(&self, records: &[RecordRef], ino: Ino) -> Vec<FileRecord> {
        let file_of = |record: &RecordRef| {
            let chunk = *self.users.get(&record_place(record))?.first()?;
            let extents = &self.chunks.get(&chunk)?.extents;
            let extent = extents.iter().find(|extent| extent.record == *record)?;
            let start = chunk * CHUNK_BYTES + u64::from(extent.start);
            let offset = start.checked_sub(u64::from(extent.skip))?;
            Some(FileRecord { record: *record, ino, offset })
        };
        records.iter().map_while(file_of).collect()
    }

    /// Takes a record in; answers the chunks that it completes.
    fn take(&mut self, place: Place, bytes: Bytes) -> Vec<Whole> {
        let users = self.users.remove(&place).unwrap_or_default();
        self.here.insert(place, (bytes, users.len()));
        let mut whole = Vec::new();
        for chunk in users {
            let Some(wanted) = self.chunks.get_mut(&chunk) else { continue };
            wanted.missing -= 1;
            if wanted.missing == 0
                && let Some(Wanted { extents, .. }) = self.chunks.remove(&chunk)
            {
                let decoded = self.use_up(chunk, &extents);
                whole.push((chunk, extents, decoded));
            }
        }
        whole
    }

    /// The records of a chunk; those that nobody else needs are forgotten.
    fn use_up(&mut self, chunk: ChunkIndex, extents: &[Extent]) -> Decoded {
        let mut decoded = Decoded::new();
        for place in places(chunk, extents) {
            if let Some((bytes, users)) = self.here.get_mut(&place) {
                *users -= 1;
                decoded.insert(place, bytes.clone());
                if *users == 0 {
                    self.here.remove(&place);
                }
            }
        }
        decoded
    }
}

/// Whether another node may have what the bucket, so it says, has not.
fn is_lost(error: &FsError) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt)
}

/// The places that a chunk's extents use, each once.
fn places(chunk: ChunkIndex, extents: &[Extent]) -> Vec<Place> {
    let mut places: Vec<_> = extents.iter().map(|e| place(chunk, e)).collect();
    places.sort_unstable();
    places.dedup();
    places
}
