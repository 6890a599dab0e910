//! Small files of a hydration. They lie side by side in segments, but a directory lists them in
//! another order: so many of them are gathered, sorted by their place, and come in long GETs.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;
use weir_peer::FileRecord;
use weir_tier::{Amount, Mirror, page_ceil};
use weir_types::{ErrorKind, Extent, FsError, RecordRef, Result, SegmentId};

use super::action::Action;
use super::batch::Batch;
use super::found::Found;
use super::hydrate::{FileOutcome, Moved, Mover, PART_BYTES, limit};
use crate::data::fetch::{Claim, Priority, Urgency};
use crate::data::nodes::Node;
use crate::data::prefetch::SMALL_BYTES;
use crate::data::records::{Decoded, Run, plan, plan_over, record_place};
use crate::services::actions::parts::Actions;
use crate::volume::context::Counts;

/// Bytes between two records that are cheaper to read over than to ask for apart, where nobody
/// waits for the next one.
const GAP_BYTES: u32 = 4 << 10;
/// Files whose extents are read at once.
const PAGE: usize = 1_024;

/// A file that is one record, and the extent that says so.
type Placed = (Found, Extent);

fn place(placed: &Placed) -> (SegmentId, u32) {
    (placed.1.record.segment, placed.1.record.position)
}

impl Mover {
    /// Sets the files of a batch under way.
    pub(super) async fn small(&mut self, batch: Batch) {
        let mut placed = self.places(batch.files).await;
        placed.sort_by_key(place);
        let runs = plan(placed.iter().map(|(_, extent)| extent.record), self.part_bytes());
        let mut placed = placed.into_iter().peekable();
        // Of one segment, those that stand apart. One GET brings the next ones as well.
        let mut apart: Vec<Found> = Vec::new();
        let mut apart_in = None;
        for run in runs {
            let is_of = |file: &Placed| place(file) < (run.segment, run.end);
            let files: Vec<_> = std::iter::from_fn(|| placed.next_if(is_of)).collect();
            if apart_in != Some(run.segment) {
                self.apart(std::mem::take(&mut apart)).await;
                apart_in = Some(run.segment);
            }
            self.needed().await;
            match run.end - run.start > SMALL_BYTES {
                true => self.dense(files).await,
                false => apart.extend(files.into_iter().map(|(file, _)| file)),
            }
        }
        self.apart(apart).await;
    }

    /// Those of the files that are wholly one record of which nothing is here. The others are
    /// fetched by themselves.
    async fn places(&mut self, files: Vec<Found>) -> Vec<Placed> {
        let mut placed = Vec::with_capacity(files.len());
        for page in files.chunks(PAGE) {
            let inos: Vec<_> = page.iter().map(|file| file.ino).collect();
            let found = self.actions.meta.first_chunks(&inos).await;
            let Ok(found) = found else {
                // Each will meet the error again, if it lasts, and tell it.
                self.settle(page.iter().map(|file| (file.clone(), FileOutcome::Alone)).collect());
                continue;
            };
            for (file, extents) in page.iter().zip(found) {
                let whole =
                    |e: &&Extent| !e.is_native() && e.start == 0 && u64::from(e.len) >= file.size;
                match extents.first().filter(whole) {
                    Some(extent) if self.actions.tier.find(file.ino).is_none() => {
                        placed.push((file.clone(), *extent));
                    }
                    _ => self.settle(vec![(file.clone(), FileOutcome::Alone)]),
                }
            }
        }
        placed
    }

    /// Files that one GET brings.
    async fn dense(&mut self, files: Vec<Placed>) {
        let bytes = files.iter().map(|(file, _)| page_ceil(file.size)).sum();
        let room = match self.reserve(Amount { bytes, files: files.len() as u64 }).await {
            Ok(room) => room,
            Err(why) => return files.iter().for_each(|(file, _)| self.refuse(file, &why)),
        };
        let permit = self.permit(bytes).await;
        limit(&self.actions, self.rate().as_deref(), bytes).await;
        let (actions, action) = (self.actions.clone(), self.action.clone());
        // It holds claims that others wait for: once begun it goes on, whatever becomes of the
        // action.
        let fetching = tokio::spawn(async move {
            let moved = actions.hydrate_run(files, &action).await;
            drop((permit, room));
            moved
        });
        self.under_way.spawn(async move { fetching.await.unwrap_or_default() });
        self.look();
    }

    /// Files of one segment, one after another: a GET of one brings its neighbours, and the next
    /// may be among these.
    async fn apart(&mut self, files: Vec<Found>) {
        if files.is_empty() {
            return;
        }
        let bytes = files.iter().map(|file| page_ceil(file.size)).sum();
        let room = match self.reserve(Amount { bytes, files: files.len() as u64 }).await {
            Ok(room) => room,
            Err(why) => return files.iter().for_each(|file| self.refuse(file, &why)),
        };
        let permit = self.permit(PART_BYTES).await;
        let (actions, action, rate) = (self.actions.clone(), self.action.clone(), self.rate());
        self.under_way.spawn(async move {
            let mut moved = Vec::with_capacity(files.len());
            for file in files {
                limit(&actions, rate.as_deref(), file.size).await;
                let outcome = match actions.hydrate_alone(&file).await {
                    Ok(()) => FileOutcome::Done,
                    Err(error) => FileOutcome::Failed(error),
                };
                if matches!(outcome, FileOutcome::Done) {
                    action.moved(file.size);
                }
                moved.push((file, outcome));
            }
            drop((permit, room));
            moved
        });
        self.look();
    }
}

/// A file that this task fetches.
struct Coming {
    file: Found,
    extent: Extent,
    node: Arc<Node>,
    mirror: Arc<Mirror>,
    stamp: u64,
    claim: Claim,
    /// [`FileOutcome::Alone`] until it is here.
    outcome: FileOutcome,
}

impl Actions {
    /// Fetches a small file by itself.
    async fn hydrate_alone(self: &Arc<Self>, file: &Found) -> Result<()> {
        let node = self.nodes.get(file.ino);
        let mirror = match self.mirrors.open_mirror(&node).await {
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(()),
            mirror => mirror?,
        };
        mirror.touch();
        let missing = mirror.missing(0, mirror.size());
        let fetched = self.fetcher.fetch_whole(&mirror, &missing, Priority::Hydrate).await;
        self.mirrors.idle_unless_open(&node, &mirror);
        fetched
    }

    /// Fetches files that lie side by side in a segment.
    async fn hydrate_run(self: &Arc<Self>, files: Vec<Placed>, action: &Action) -> Moved {
        let urgency = Arc::<Urgency>::default();
        let mut moved = Vec::new();
        let mut coming = Vec::with_capacity(files.len());
        for placed in files {
            match self.claim_small(placed, &urgency).await {
                Ok(claimed) => coming.push(claimed),
                Err(left) => moved.push(left),
            }
        }
        // Others may have claimed some from the middle: no byte is to come twice.
        let records = coming.iter().map(|coming| coming.extent.record);
        for run in plan_over(records, self.context.settings.fetch_bytes.0, GAP_BYTES) {
            let _turn = self.fetcher.turn(Priority::Hydrate, run.bytes(), &urgency, &[0]).await;
            if let Err(error) = self.get_small(&run, &mut coming, action).await {
                give_up(&run, &mut coming, error);
            }
        }
        for Coming { file, node, mirror, claim, outcome, .. } in coming {
            self.mirrors.idle_unless_open(&node, &mirror);
            claim.end();
            moved.push((file, outcome));
        }
        moved
    }

    /// Claims a file, unless it changed since its extents were read, or somebody else fetches it.
    async fn claim_small(
        self: &Arc<Self>,
        (file, extent): Placed,
        urgency: &Arc<Urgency>,
    ) -> Result<Coming, (Found, FileOutcome)> {
        let node = self.nodes.get(file.ino);
        let (mirror, stamp) = match self.unchanged(&node, file.generation).await {
            Ok(Some(unchanged)) => unchanged,
            Ok(None) => return Err((file, FileOutcome::Alone)),
            // It was removed.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                return Err((file, FileOutcome::Done));
            }
            Err(error) => return Err((file, FileOutcome::Failed(error))),
        };
        mirror.touch();
        let claim = Claim::one(&self.fetcher, file.ino, 0, page_ceil(file.size), urgency.clone());
        let Some(claim) = claim else {
            return Err((file, FileOutcome::Alone));
        };
        if mirror.missing(0, file.size).is_empty() {
            claim.end();
            return Err((file, FileOutcome::Alone));
        }
        Ok(Coming { file, extent, node, mirror, stamp, claim, outcome: FileOutcome::Alone })
    }

    /// The file's mirror, and a stamp of it that is of these extents.
    async fn unchanged(&self, node: &Node, generation: u64) -> Result<Option<(Arc<Mirror>, u64)>> {
        // Others of the batch, which somebody may wait for, are not to wait for a busy one.
        let Ok(_change) = node.change.try_lock() else { return Ok(None) };
        let inode = self.meta.inode(node.ino).await?;
        if inode.data.generation != generation {
            return Ok(None);
        }
        let mirror = self.tier.mirror(&inode)?;
        let stamp = mirror.stamp();
        Ok(Some((mirror, stamp)))
    }

    /// Gets a run and hands each record to the files that are this record.
    async fn get_small(&self, run: &Run, coming: &mut [Coming], action: &Action) -> Result<()> {
        let mut files: HashMap<u32, Vec<usize>> = HashMap::new();
        for (at, coming) in coming.iter().enumerate().filter(|(_, c)| is_of(run, c)) {
            files.entry(coming.extent.record.position).or_default().push(at);
        }
        let made_of = |record: &RecordRef| {
            let of = &coming[*files.get(&record.position)?.first()?];
            let known = of.extent.skip == 0;
            known.then_some(FileRecord { record: *record, ino: of.file.ino, offset: 0 })
        };
        let made_of: Vec<_> = run.records.iter().map_while(made_of).collect();
        let mut each = |record: RecordRef, bytes: Bytes| {
            Counts::add(&self.context.counts.bytes_fetched, u64::from(record.stored_bytes));
            let decoded = Decoded::from([(record_place(&record), bytes)]);
            for at in files.remove(&record.position).unwrap_or_default() {
                let Coming { file, extent, mirror, stamp, claim, outcome, .. } = &mut coming[at];
                if self.fetcher.store_chunk(
                    mirror,
                    0,
                    std::slice::from_ref(extent),
                    &decoded,
                    *stamp,
                )? {
                    claim.done(0, Ok(()));
                    *outcome = FileOutcome::Done;
                    action.moved(file.size);
                }
            }
            Ok(())
        };
        self.space.recent.note(run);
        self.fetcher.get_records(run, &made_of, &mut each).await
    }
}

/// A run broke off: who waits for its files is told why. A segment may be collected between the
/// look at the extents and the GET; then they are looked at again.
fn give_up(run: &Run, coming: &mut [Coming], error: FsError) {
    if error.kind() == ErrorKind::NotFound {
        return;
    }
    let error = Arc::new(error);
    for coming in coming.iter_mut().filter(|coming| is_of(run, coming)) {
        if matches!(coming.outcome, FileOutcome::Alone) {
            coming.claim.done(0, Err(error.clone()));
            coming.outcome = FileOutcome::Failed(error.share());
        }
    }
}

fn is_of(run: &Run, coming: &Coming) -> bool {
    let record = &coming.extent.record;
    record.segment == run.segment && (run.start..run.end).contains(&record.position)
}
