//! Hydrating: all bytes of many files, as fast as the bucket gives them and behind everybody else.
//!
//! Files go in the order of their directories, but for two things: one that somebody opens is next,
//! and small ones are gathered, because they lie side by side in segments (`small.rs`). So many
//! bytes are under way as keep all of a hydration's turns busy; what one asks for is never more
//! than the tier has room for beside what was hydrated before.

use std::collections::HashSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use weir_tier::{Amount, Mirror};
use weir_types::{ByteRange, CHUNK_BYTES, ErrorCode, ErrorKind, FileKind, FsError, Ino, Result};

use super::action::Action;
use super::batch::Batch;
use super::feed::Feed;
use super::found::Found;
use super::portions::own_of;
use super::rate::Rate;
use super::reservation::Reserved;
use super::walk::Walk;
use crate::data::fetch::Priority;
use crate::data::nodes::Node;
use crate::data::space::amount_for;
use crate::services::actions::parts::Actions;

/// A large file comes in parts that end at multiples of this.
pub(super) const PART_BYTES: u64 = 8 << 20;
/// Parts that wait for their turn, beside those that have it.
const PARTS_WAITING: usize = 4;
/// Files that somebody opened and that were looked at, until they may be looked at again.
const SERVED_MAX: usize = 4_096;
/// Files that failed and are tried again.
const FAILED_MAX: usize = 10_000;
/// Files that wait until they are restored; more of them are refused.
const ARCHIVED_MAX: usize = 1_000_000;

const PUSHED_OUT: &str = "it came, and was released again while others came or were written: the \
                          tier has no room for all, or somebody released it";

/// What became of a file.
pub(super) enum FileOutcome {
    /// It is here.
    Done,
    /// It is to be fetched by itself.
    Alone,
    /// It did not come.
    Failed(FsError),
}

pub(super) type Moved = Vec<(Found, FileOutcome)>;

/// A hydration that runs.
pub(super) struct Hydrating<'a> {
    actions: &'a Actions,
    since: u64,
}

impl<'a> Hydrating<'a> {
    pub(super) fn begin(actions: &'a Actions) -> Self {
        let since = actions.space.hydration_begins();
        Self { actions, since }
    }
}

impl Drop for Hydrating<'_> {
    fn drop(&mut self) {
        self.actions.space.hydration_ended(self.since);
    }
}

/// A hydration under way.
pub(super) struct Mover {
    pub(super) actions: Arc<Actions>,
    pub(super) action: Arc<Action>,
    /// Waits for what is under way; that goes on without it.
    pub(super) under_way: JoinSet<Moved>,
    /// Bytes that may be under way, in [`CHUNK_BYTES`].
    window: Arc<Semaphore>,
    window_most: usize,
    rate: Option<Arc<Mutex<Rate>>>,
    /// What could be released for it when it last looked.
    pub(super) releasable: Option<Amount>,
    served: HashSet<Ino>,
    alone: Vec<Found>,
    failed: Vec<(Found, FsError)>,
    /// Files whose objects lie in an archive class, where these are to be restored.
    pub(super) archived: Vec<Found>,
    /// Files that did not come, and were told.
    refused: HashSet<Ino>,
}

/// A file of which parts are under way.
struct Moving {
    file: Found,
    node: Arc<Node>,
    mirror: Arc<Mirror>,
    /// The walk came by it. Else somebody opened it, and the walk counts it later.
    counts: bool,
    parts_left: AtomicUsize,
    moved: AtomicU64,
    failed: Mutex<Option<FsError>>,
}

impl Moving {
    /// Why no part of it will come, where one met that its object is archived: the others need not be asked for.
    fn is_archived(&self) -> Option<FsError> {
        let failed = self.failed.lock();
        failed.as_ref().filter(|error| is_archived(error)).map(FsError::share)
    }

    /// A part is here, or will not come. Answers what became of the file after the last one.
    fn part_done(
        &self,
        actions: &Actions,
        action: &Action,
        bytes: u64,
        result: Result<()>,
    ) -> Moved {
        match result {
            Ok(()) if self.counts => {
                self.moved.fetch_add(bytes, Ordering::Relaxed);
                action.moved(bytes);
            }
            Ok(()) => {}
            Err(error) => {
                *self.failed.lock() = Some(error);
            }
        }
        if self.parts_left.fetch_sub(1, Ordering::AcqRel) > 1 {
            return Vec::new();
        }
        if !actions.nodes.is_open(self.node.ino) {
            self.mirror.idle();
        }
        if !self.counts {
            return Vec::new();
        }
        let failed = self.failed.lock().take();
        let outcome = match failed {
            None => FileOutcome::Done,
            Some(error) => {
                action.unmoved(self.moved.load(Ordering::Relaxed));
                FileOutcome::Failed(error)
            }
        };
        vec![(self.file.clone(), outcome)]
    }
}

pub(super) async fn run(actions: &Arc<Actions>, action: &Arc<Action>) -> Result<()> {
    let hydrating = Hydrating::begin(actions);
    let released = actions.context.counts.bytes_released.load(Ordering::Relaxed);
    let mut mover = Mover::new(actions, action);
    let mut feed = Feed::begin(actions, action);
    let mut small = Batch::default();
    while let Some(file) = feed.next().await {
        match small.push(file) {
            Err(file) => mover.file(file, true).await,
            Ok(()) if small.is_full() => mover.small(std::mem::take(&mut small)).await,
            Ok(()) => {}
        }
    }
    mover.small(small).await;
    mover.finish().await;
    mover.try_again().await;
    drop(hydrating);
    mover.restore_archived().await;
    for (file, error) in std::mem::take(&mut mover.failed) {
        mover.refuse(&file, &error.to_string());
    }
    feed.end().await?;
    match actions.context.counts.bytes_released.load(Ordering::Relaxed) == released {
        true => Ok(()),
        false => mover.recount().await,
    }
}

impl Mover {
    fn new(actions: &Arc<Actions>, action: &Arc<Action>) -> Self {
        let parts = actions.fetcher.hydrate_most() + PARTS_WAITING;
        let bytes = (parts as u64 * PART_BYTES)
            .min(actions.tier.limit().map_or(0, |limit| limit.bytes) / 8);
        let window_most = (bytes / CHUNK_BYTES).max(1) as usize;
        let rate = action.request.max_bytes_per_s;
        let rate = rate.map(|rate| Arc::new(Mutex::new(Rate::new(rate, actions.context.now_ms()))));
        Self {
            actions: actions.clone(),
            action: action.clone(),
            under_way: JoinSet::new(),
            window: Arc::new(Semaphore::new(window_most)),
            window_most,
            rate,
            releasable: None,
            served: HashSet::new(),
            alone: Vec::new(),
            failed: Vec::new(),
            archived: Vec::new(),
            refused: HashSet::new(),
        }
    }

    /// What failed once may come now.
    pub(super) async fn try_again(&mut self) {
        for (file, _) in std::mem::take(&mut self.failed) {
            self.file(file, true).await;
        }
        self.finish().await;
    }

    /// Sets all of a file under way that is not here.
    pub(super) async fn file(&mut self, file: Found, counts: bool) {
        let Some((moving, parts, mut room)) = self.open(file, counts).await else {
            return;
        };
        for part in parts {
            self.needed().await;
            self.part(&moving, part, room.split(part.len())).await;
        }
    }

    /// The files that somebody opened meanwhile are next.
    pub(super) async fn needed(&mut self) {
        while let Some(ino) = self.action.take_needed() {
            if self.served.len() >= SERVED_MAX {
                self.served.clear();
            }
            if !self.served.insert(ino) || !self.is_ours(ino).await.unwrap_or(false) {
                continue;
            }
            let Ok(inode) = self.actions.meta.inode(ino).await else { continue };
            if inode.kind != FileKind::Regular {
                continue;
            }
            let dir = inode.parent;
            let file = Found::at(&self.actions.mirrors, inode, (dir, "".into()), b"");
            if let Some((moving, parts, mut room)) = self.open(file, false).await {
                for part in parts {
                    self.part(&moving, part, room.split(part.len())).await;
                }
            }
        }
    }

    async fn is_ours(&self, ino: Ino) -> Result<bool> {
        self.actions.belongs_to(ino, &self.action).await
    }

    /// What is missing of a file, in parts, and room for it; `None` if nothing is, or it cannot
    /// come.
    async fn open(
        &mut self,
        file: Found,
        counts: bool,
    ) -> Option<(Arc<Moving>, Vec<ByteRange>, Reserved)> {
        let node = self.actions.nodes.get(file.ino);
        let mirror = match self.actions.mirrors.open_mirror(&node).await {
            Ok(mirror) => mirror,
            Err(_) if !counts => return None,
            // It was removed.
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.action.done(file.files, 0);
                return None;
            }
            Err(error) => {
                self.settle(vec![(file, FileOutcome::Failed(error))]);
                return None;
            }
        };
        mirror.touch();
        let size = mirror.size();
        let missing = match file.remote_bytes {
            0 => Vec::new(),
            _ => file.wanted_of(mirror.missing(0, size)),
        };
        let all = file.bytes_of(size);
        let bytes: u64 = missing.iter().map(|range| range.within(0, size).len()).sum();
        if missing.is_empty() {
            self.actions.mirrors.idle_unless_open(&node, &mirror);
            if counts {
                self.action.done(file.files, all);
            }
            return None;
        }
        // Holes take no room.
        let room = bytes.min(file.remote_bytes.next_multiple_of(CHUNK_BYTES));
        let room = amount_for(&mirror, room);
        let room = match self.reserve(room).await {
            Ok(room) => room,
            Err(why) => {
                self.actions.mirrors.idle_unless_open(&node, &mirror);
                if counts {
                    self.refuse(&file, &why);
                }
                return None;
            }
        };
        let step = self.part_bytes();
        let parts: Vec<_> = missing.into_iter().flat_map(|range| split(range, step)).collect();
        let moved = all - bytes;
        if counts {
            self.action.moved(moved);
        }
        let moving = Moving {
            file,
            node,
            mirror,
            counts,
            parts_left: AtomicUsize::new(parts.len()),
            moved: AtomicU64::new(moved),
            failed: Mutex::default(),
        };
        Some((Arc::new(moving), parts, room))
    }

    /// Sets a part under way as soon as the window and the rate allow it.
    async fn part(
        &mut self,
        moving: &Arc<Moving>,
        ByteRange { start, end }: ByteRange,
        room: Reserved,
    ) {
        let bytes = end.min(moving.mirror.size().max(start)) - start;
        let permit = self.permit(end - start).await;
        limit(&self.actions, self.rate.as_deref(), bytes).await;
        let (actions, action) = (self.actions.clone(), self.action.clone());
        let moving = moving.clone();
        self.under_way.spawn(async move {
            let result = match moving.is_archived() {
                Some(error) => Err(error),
                None => {
                    let part = [ByteRange { start, end }];
                    actions.fetcher.fetch_whole(&moving.mirror, &part, Priority::Hydrate).await
                }
            };
            drop((permit, room));
            moving.part_done(&actions, &action, bytes, result)
        });
        self.look();
    }

    /// A part of the window.
    pub(super) async fn permit(&self, bytes: u64) -> Option<OwnedSemaphorePermit> {
        let wanted = (bytes.div_ceil(CHUNK_BYTES) as usize).min(self.window_most);
        self.window.clone().acquire_many_owned(wanted as u32).await.ok()
    }

    pub(super) fn rate(&self) -> Option<Arc<Mutex<Rate>>> {
        self.rate.clone()
    }

    /// No part is larger than what may go in a second.
    pub(super) fn part_bytes(&self) -> u64 {
        let most = self.action.request.max_bytes_per_s.unwrap_or(u64::MAX);
        PART_BYTES.min(most / CHUNK_BYTES * CHUNK_BYTES).max(CHUNK_BYTES)
    }

    /// A file does not come.
    pub(super) fn refuse(&mut self, file: &Found, why: &str) {
        self.refused.insert(file.ino);
        self.action.refuse(file, why);
    }

    /// Something was released meanwhile. What came and went again is not here.
    async fn recount(&self) -> Result<()> {
        let request = &self.action.request;
        let mut walk = Walk::new(&self.actions, &request.roots, request.recursive);
        while let Some(page) = walk.next().await? {
            let page = own_of(&self.action, page);
            let gone = page.iter().filter(|file| !self.refused.contains(&file.ino));
            for file in gone.filter(|file| !self.actions.is_here(file)) {
                self.action.unmoved(file.bytes());
                self.action.refuse_path(|| file.path(), PUSHED_OUT);
            }
        }
        Ok(())
    }

    /// Takes up what has come.
    pub(super) fn look(&mut self) {
        while let Some(done) = self.under_way.try_join_next() {
            self.joined(done);
        }
    }

    /// Waits until nothing is under way any more.
    pub(super) async fn finish(&mut self) {
        loop {
            while let Some(file) = self.alone.pop() {
                self.file(file, true).await;
            }
            self.needed().await;
            match self.under_way.join_next().await {
                Some(done) => self.joined(done),
                None if self.alone.is_empty() => return,
                None => {}
            }
        }
    }

    pub(super) fn joined(&mut self, done: Result<Moved, tokio::task::JoinError>) {
        match done {
            Ok(moved) => self.settle(moved),
            Err(error) => {
                tracing::error!(%error, "a part of a hydration broke off");
                self.action.refuse_path(String::new, &format!("a part broke off: {error}"));
            }
        }
    }

    /// Whether an error says that the object is archived, and it is to be restored.
    fn restores(&self, error: &FsError) -> bool {
        self.action.request.restore.is_some()
            && self.archived.len() < ARCHIVED_MAX
            && is_archived(error)
    }

    pub(super) fn settle(&mut self, moved: Moved) {
        for (file, outcome) in moved {
            match outcome {
                FileOutcome::Done => self.action.done(file.files, 0),
                FileOutcome::Alone => self.alone.push(file),
                FileOutcome::Failed(error) if self.restores(&error) => self.archived.push(file),
                FileOutcome::Failed(error) if self.failed.len() < FAILED_MAX => {
                    self.failed.push((file, error));
                }
                FileOutcome::Failed(error) => self.refuse(&file, &error.to_string()),
            }
        }
    }
}

/// Waits until `bytes` may go.
pub(super) async fn limit(actions: &Actions, rate: Option<&Mutex<Rate>>, bytes: u64) {
    let Some(rate) = rate else { return };
    let wait_ms = rate.lock().take(bytes, actions.context.now_ms());
    if wait_ms > 0 {
        tokio::time::sleep(Duration::from_millis(wait_ms)).await;
    }
}

fn is_archived(error: &FsError) -> bool {
    error.code() == Some(ErrorCode::Archived)
}

/// `start..end` cut at multiples of `step`.
fn split(ByteRange { start, end }: ByteRange, step: u64) -> impl Iterator<Item = ByteRange> {
    let first = start / step;
    (first..end.div_ceil(step))
        .map(move |n| ByteRange::new(n * step, (n + 1) * step).within(start, end))
}

impl Actions {
    /// Whether all bytes of a file that were to come can be read without the bucket.
    fn is_here(&self, file: &Found) -> bool {
        match self.tier.find(file.ino) {
            Some(mirror) => file.wanted_of(mirror.missing(0, mirror.size())).is_empty(),
            None => file.size == 0 || file.remote_bytes == 0,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::split;

    #[test]
    fn parts_end_where_others_of_the_file_would() {
        let parts = |range: (u64, u64)| split(range.into(), 8).collect::<Vec<_>>();
        assert_eq!(parts((0, 20)), [(0, 8), (8, 16), (16, 20)]);
        assert_eq!(parts((5, 8)), [(5, 8)]);
        assert_eq!(parts((5, 9)), [(5, 8), (8, 9)]);
        assert_eq!(parts((8, 16)), [(8, 16)]);
    }
}
