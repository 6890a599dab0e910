//! What snapshots hold: which dead segments must stay for them, and how a deleted snapshot lets go.
//!
//! What must always hold:
//!
//! - A segment is forgotten only while what snapshots there are stands still ([`Holders::settle`]), and
//!   after each of them that could have bytes in it was asked in its own metadata.
//! - The state of a snapshot is let go once every note that names the snapshot is durably gone.
//!
//! Where several nodes change the volume no lock holds the others still. There nothing is forgotten as long as a
//! snapshot that is not finished has a row, and each segment only where none was begun since they were asked for.
//! Another node's is given up only once it was seen unfinished for [`GIVEN_UP_MS`]: who makes it is told so.
//!
//! A snapshot that could have bytes of a segment is one that knew segments of its age. So what comes
//! and goes between two snapshots asks nobody, and what goes after one asks the newest first, which
//! mostly has it.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::{MutexGuard as Unranked, Notify};
use weir_meta::kv::{CheckpointId, Checkpoints};
use weir_meta::{Meta, SegmentUse, SnapshotRow, SnapshotsSeen, snapshot_of_state};
use weir_types::{Result, SegmentId};

use crate::volume::context::Context;
use crate::volume::locks::{self, Place};

/// Segments asked after at once.
const PAGE: usize = 2_000;

/// How long a snapshot that another node may be making is seen unfinished before it is given up.
const GIVEN_UP_MS: u64 = 120_000;

/// Knows the snapshots of a volume, as far as its segments are concerned.
pub(crate) struct Holders {
    context: Arc<Context>,
    meta: Arc<Meta>,
    /// Held while a snapshot is made or loses its name, and while segments are judged.
    standing: locks::Mutex,
    /// When snapshots were first seen unfinished, which other nodes may be making: by number, in milliseconds.
    unfinished: Mutex<HashMap<u32, u64>>,
    /// A snapshot was deleted.
    pub(crate) ended: Notify,
}

/// The snapshots, none of which comes or goes meanwhile.
pub(crate) struct Standing<'a> {
    meta: &'a Meta,
    /// Whole ones, the newest first.
    snapshots: Vec<SnapshotRow>,
    /// Another node may be making one, which may have anything.
    making: bool,
    seen: SnapshotsSeen,
    _still: locks::Guard<Unranked<'a, ()>>,
}

impl Holders {
    pub(crate) fn new(context: Arc<Context>, meta: Arc<Meta>) -> Self {
        let standing = locks::Mutex::new(Place::Snapshots, 0, ());
        Self { context, meta, standing, unfinished: Mutex::default(), ended: Notify::new() }
    }

    /// Waits until nobody else makes or deletes snapshots, or judges by them.
    pub(crate) async fn still(&self) -> locks::Guard<Unranked<'_, ()>> {
        self.standing.lock().await
    }

    /// Ends what was begun with snapshots that are deleted or were never finished, and answers those
    /// there are. Two reads where there are none.
    pub(crate) async fn settle(&self) -> Result<Standing<'_>> {
        let still = self.still().await;
        let seen = self.meta.snapshots_seen().await?;
        let (mut snapshots, mut unfinished) = (Vec::new(), Vec::new());
        for (name, row) in self.meta.snapshots().await? {
            match row.state {
                Some(_) => snapshots.push(row),
                None => unfinished.push((name, row.number)),
            }
        }
        let (given_up, making) = self.given_up(unfinished);
        snapshots.sort_unstable_by_key(|row| std::cmp::Reverse(row.number));
        for (name, number) in given_up {
            tracing::info!(snapshot = name, "a snapshot that was not finished is given up");
            // Unless it was, in this moment.
            self.meta.give_up_snapshot(&name, number, true).await?;
        }
        let standing = Standing { meta: &self.meta, snapshots, making, seen, _still: still };
        for row in self.meta.ending_snapshots().await? {
            standing.end(&row).await?;
        }
        Ok(standing)
    }

    /// Of snapshots that are not finished those that nobody is making, and whether there are others.
    fn given_up(&self, unfinished: Vec<(String, u32)>) -> (Vec<(String, u32)>, bool) {
        if !self.context.is_shared() {
            // Whoever made it would hold the lock.
            return (unfinished, false);
        }
        let now_ms = self.context.now_ms();
        let mut seen = self.unfinished.lock();
        seen.retain(|number, _| unfinished.iter().any(|(_, other)| other == number));
        // Also while one is given up: it may have been finished in this moment, and is asked the next time.
        let making = !unfinished.is_empty();
        let mut is_old = |number| now_ms - *seen.entry(number).or_insert(now_ms) >= GIVEN_UP_MS;
        let old: Vec<_> = unfinished.into_iter().filter(|(_, number)| is_old(*number)).collect();
        (old, making)
    }

    /// Lets go of kept states that no snapshot has: one that was given up before the bucket answered
    /// may have been made since. One or two GETs where there ever was a snapshot.
    pub(crate) async fn sweep(&self) -> Result<()> {
        let Some(checkpoints) = self.meta.kv().checkpoints() else { return Ok(()) };
        if !self.meta.had_snapshots().await? {
            return Ok(());
        }
        let _still = self.still().await;
        // Before the rows, because each has one as long as somebody makes or needs it.
        let kept = checkpoints.kept().await?;
        let named = self.meta.snapshots().await?.into_iter().map(|(_, row)| row.number);
        let ending = self.meta.ending_snapshots().await?.into_iter().map(|row| row.number);
        let known: HashSet<u32> = named.chain(ending).collect();
        for (id, name) in kept {
            if snapshot_of_state(&name).is_some_and(|number| !known.contains(&number)) {
                tracing::info!(name, "letting go of a state that no snapshot has");
                checkpoints.release(id).await?;
            }
        }
        Ok(())
    }

    /// Of segments with little in use those that no snapshot has much of either: to write what is in use
    /// anew saves nothing as long as one has. One read round for each snapshot that is the oldest one to
    /// know some of them.
    pub(crate) async fn sparse(&self, found: Vec<SegmentUse>) -> Result<Vec<SegmentUse>> {
        let mut rows: Vec<_> = self.meta.snapshots().await?.into_iter().map(|(_, r)| r).collect();
        rows.sort_unstable_by_key(|row| row.number);
        let (mut rest, mut sparse) = (found, Vec::new());
        for row in rows {
            let Some(state) = &row.state else { continue };
            let (known, later): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|segment| segment.id <= state.newest_segment);
            rest = later;
            if known.is_empty() {
                continue;
            }
            let view = self.meta.view_as(&row).await?;
            let ids: Vec<_> = known.iter().map(|segment| segment.id).collect();
            let had = view.live_bytes(&ids).await?;
            let few = known.into_iter().zip(had).filter(|(s, had)| *had < s.info.raw_bytes / 2);
            sparse.extend(few.map(|(segment, _)| segment));
        }
        sparse.extend(rest);
        Ok(sparse)
    }
}

impl Standing<'_> {
    /// Of segments in which the volume has no bytes those that no snapshot has any in either. The others
    /// are noted to be held. None while another node makes a snapshot.
    pub(crate) async fn free(&self, dead: &[SegmentId]) -> Result<Vec<SegmentId>> {
        if self.making {
            return Ok(Vec::new());
        }
        let held = self.holders(dead).await?;
        let notes: Vec<_> = held.iter().map(|(id, number)| (*id, Some(*number))).collect();
        self.meta.note_held(&notes).await?;
        let held: HashSet<SegmentId> = held.into_iter().map(|(id, _)| id).collect();
        Ok(dead.iter().copied().filter(|id| !held.contains(id)).collect())
    }

    /// For each of these segments that a snapshot has bytes in, the newest one that does.
    async fn holders(&self, ids: &[SegmentId]) -> Result<Vec<(SegmentId, u32)>> {
        let (mut rest, mut found) = (ids.to_vec(), Vec::new());
        for row in &self.snapshots {
            let Some(state) = &row.state else { continue };
            let (known, mut later): (Vec<_>, Vec<_>) =
                rest.into_iter().partition(|id| *id <= state.newest_segment);
            if !known.is_empty() {
                let view = self.meta.view_as(row).await?;
                for page in known.chunks(PAGE) {
                    for (id, live) in page.iter().zip(view.live_bytes(page).await?) {
                        match live {
                            0 => later.push(*id),
                            _ => found.push((*id, row.number)),
                        }
                    }
                }
            }
            rest = later;
        }
        Ok(found)
    }

    /// Forgets a segment that is free; `false` if that is not so any more.
    pub(crate) async fn forget(&self, id: SegmentId) -> Result<bool> {
        self.meta.forget_segment(id, self.seen).await
    }

    /// Has the other snapshots take over what a deleted one holds, and lets go of the rest.
    async fn end(&self, row: &SnapshotRow) -> Result<()> {
        let held = self.meta.held_by(row.number).await?;
        let over: HashMap<_, _> = self.holders(&held).await?.into_iter().collect();
        let notes: Vec<_> = held.iter().map(|id| (*id, over.get(id).copied())).collect();
        self.meta.note_held(&notes).await?;
        self.meta.sync().await?;
        fail::fail_point!("engine::snapshot-handed-over");
        let checkpoints = self.meta.checkpoints()?;
        for id in states_of(checkpoints, row).await? {
            checkpoints.release(id).await?;
        }
        fail::fail_point!("engine::snapshot-released");
        self.meta.forget_snapshot(row.number).await
    }
}

/// The kept states of a snapshot: one, or some more of tries whose answers did not come.
async fn states_of(checkpoints: &dyn Checkpoints, row: &SnapshotRow) -> Result<Vec<CheckpointId>> {
    let name = row.state_name();
    let kept = checkpoints.kept().await?.into_iter();
    Ok(kept.filter(|(_, kept)| *kept == name).map(|(id, _)| id).collect())
}
