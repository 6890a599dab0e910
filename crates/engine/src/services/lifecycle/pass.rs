//! A pass over all segments: each that is old enough is moved into the class that its rule says, in place.

use std::collections::{BTreeSet, HashMap};
use std::sync::atomic::Ordering;

use futures::stream::{self, StreamExt};
use weir_meta::{SegmentAge, SegmentUse};
use weir_object::Component;
use weir_types::{ErrorKind, FsError, Ino, Result, SegmentId, StorageClass};

use super::judge::{Judge, Judged, MOVES_AT_ONCE, PAGE, is_of_one};
use super::parted::Parted;
use super::row::{PassRow, RulesRow};
use super::{Lifecycle, Progress};
use crate::data::admission::budget::Slowed;
use crate::data::ages::{age_of, day_of};
use crate::volume::context::Counts;

/// A segment that is to move.
struct Due {
    segment: SegmentUse,
    age: SegmentAge,
    to: StorageClass,
}

impl Lifecycle {
    /// Looks at all segments, and moves those that are due; then at all objects of links that have rules. Three reads for
    /// each 1,000, one COPY for each that moves, and a commit for each 1,000 of these; where there are rules of directories
    /// one GET for each segment that is old enough; of links one HEAD and a commit for each object that moves.
    /// `false`: it was broken off, and another one is to begin.
    pub(super) async fn pass(&self) -> Result<bool> {
        let rules = RulesRow::read(&self.meta).await?;
        let number = PassRow::read(&self.meta).await?.number + 1;
        let unix_ms = self.context.unix_ms();
        let Parted { own, links } = self.part(rules).await?;
        let segments = match own.rules.is_empty() {
            true => 0,
            false => self.meta.segment_bytes().await?.segments,
        };
        let mut row = PassRow { number, started_ms: unix_ms, segments, ..PassRow::default() };
        row.write(&self.meta).await?;
        let today = day_of(unix_ms);
        let whole = self.segments_pass(own, today, &mut row).await?
            && self.objects_pass(links, today, &mut row).await?;
        if !whole {
            return Ok(false);
        }
        row.ended_ms = self.context.unix_ms().max(row.started_ms);
        row.write(&self.meta).await?;
        if row.moved + row.separated + row.objects.moved > 0 {
            let (moved, bytes) = (row.moved, row.moved_bytes);
            let (objects, object_bytes) = (row.objects.moved, row.objects.moved_bytes);
            tracing::info!(moved, bytes, objects, object_bytes, "moved into other storage classes");
        }
        *self.progress.lock() = Progress::default();
        Ok(true)
    }

    /// The pass over the volume's own objects.
    async fn segments_pass(&self, rules: RulesRow, today: u32, row: &mut PassRow) -> Result<bool> {
        if rules.rules.is_empty() {
            return Ok(true);
        }
        let mut judge = Judge::new(self.meta.clone(), self.collector.clone(), rules, today);
        let mut after = None;
        loop {
            self.progress.lock().row = Some(row.clone());
            if !self.may_go_on()? {
                return Ok(false);
            }
            let page = self.meta.segments(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(true) };
            after = Some(last.id);
            row.looked += page.len() as u64;
            self.page(page, &mut judge, row).await?;
            fail::fail_point!("engine::lifecycle-page");
        }
    }

    pub(super) fn may_go_on(&self) -> Result<bool> {
        if self.budget.slows(Slowed::Hydration) {
            let text = "the budget of the volume holds it up: `weir throughput` shows it";
            return Err(FsError::new(ErrorKind::Retry, text));
        }
        Ok(!self.context.stopping.load(Ordering::Acquire) && self.context.is_on_duty())
    }

    async fn page(
        &self,
        page: Vec<SegmentUse>,
        judge: &mut Judge,
        row: &mut PassRow,
    ) -> Result<()> {
        let (mut due, mut kept, mut first_error) = (Vec::new(), Vec::new(), None);
        let movable = self.movable(page, judge).await?;
        let mut with_files = std::pin::pin!(judge.with_files(movable));
        while let Some((segment, age, files)) = with_files.next().await {
            match self.judged(judge, &segment, &age, files).await {
                Ok(Judged::Moves(to)) => due.push(Due { segment, age, to }),
                Ok(Judged::Apart(_)) => row.separated += 1,
                Ok(Judged::Kept) => kept.push(segment.id),
                Ok(Judged::Stays) => {}
                // One that is damaged, or collected by now, keeps no other from moving.
                Err(error) if is_of_one(error.kind()) => {
                    tracing::debug!(segment = %segment.id, %error, "a segment stays in its class");
                    kept.push(segment.id);
                }
                Err(error) => {
                    first_error.get_or_insert(error);
                    break;
                }
            }
        }
        let stays = Some((judge.rules.number, judge.today));
        let keep = |id, before| Some(SegmentAge { stays, ..age_of(id, before) });
        self.meta.change_ages(&kept, keep).await?;
        let moved = self.move_all(due, row).await;
        first_error.map_or(moved, Err)
    }

    /// What becomes of a segment; one whose files are to come apart has been written anew.
    async fn judged(
        &self,
        judge: &mut Judge,
        segment: &SegmentUse,
        age: &SegmentAge,
        files: Result<Option<BTreeSet<Ino>>>,
    ) -> Result<Judged> {
        let judged = judge.judge(age, files?).await?;
        let Judged::Apart(colder) = &judged else { return Ok(judged) };
        let done = self.collector.separate(segment, colder).await?;
        Ok(if done { judged } else { Judged::Kept })
    }

    /// Of these segments those that are the volume's own, in use, and old enough for some rule.
    pub(super) async fn movable(
        &self,
        mut page: Vec<SegmentUse>,
        judge: &Judge,
    ) -> Result<Vec<(SegmentUse, SegmentAge)>> {
        page.retain(|segment| self.buckets.is_own(segment.id));
        let ids: Vec<_> = page.iter().map(|segment| segment.id).collect();
        let held = self.meta.held(&ids).await?;
        let ages = self.meta.ages(&ids).await?;
        let all = page.into_iter().zip(ages).zip(held);
        // What nobody uses is deleted soon.
        let used = all.filter(|((segment, _), held)| segment.live_bytes > 0 || held.is_some());
        let aged = used.map(|((segment, noted), _)| (age_of(segment.id, noted), segment));
        let old = aged.filter(|(age, segment)| judge.may_move(segment.info.object_bytes, age));
        Ok(old.map(|(age, segment)| (segment, age)).collect())
    }

    /// Moves objects, and then notes where they are: where the notes are behind, they are moved again, which changes
    /// nothing.
    async fn move_all(&self, due: Vec<Due>, row: &mut PassRow) -> Result<()> {
        let today = day_of(self.context.unix_ms());
        let moving = due.into_iter().map(|due| async move {
            let (id, bytes) = (due.segment.id, due.segment.info.object_bytes);
            let bucket = self.buckets.bucket_for(id);
            let moved = bucket.set_class(Component::Collect, &id.object_key(), bytes, due.to).await;
            (due, moved)
        });
        let mut moving = stream::iter(moving).buffer_unordered(MOVES_AT_ONCE);
        let (mut done, mut first_error) = (Vec::new(), None);
        while let Some((due, moved)) = moving.next().await {
            match moved {
                Ok(()) => done.push(due),
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => _ = first_error.get_or_insert(error),
            }
        }
        fail::fail_point!("engine::lifecycle-moved");
        let to: HashMap<SegmentId, (StorageClass, u64)> =
            done.iter().map(|d| (d.segment.id, (d.to, d.segment.info.object_bytes))).collect();
        let ids: Vec<_> = to.keys().copied().collect();
        let note = |id: SegmentId, before| {
            let (class, object_bytes) = to.get(&id).copied()?;
            let age = age_of(id, before);
            Some(SegmentAge { class, since_day: today, object_bytes, stays: None, ..age })
        };
        self.meta.change_ages(&ids, note).await?;
        for Due { segment, age, to } in &done {
            let bytes = segment.info.object_bytes;
            (row.moved, row.moved_bytes) = (row.moved + 1, row.moved_bytes + bytes);
            self.context.counts.left_class(age, bytes, today);
            if let Some(at) = to.cold_index() {
                Counts::add(&self.context.counts.cold[at].moved, 1);
            }
        }
        first_error.map_or(Ok(()), Err)
    }
}
