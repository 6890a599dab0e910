//! What a rule would move, before it is one.

use std::collections::BTreeMap;

use futures::StreamExt;
use weir_types::{ClassMove, Ino, Result, StorageClass};

use super::Lifecycle;
use super::judge::{Judge, Judged, PAGE, is_of_one};
use super::parted::Parted;
use super::row::{LifecyclePlan, RulesRow};
use super::rule::LifecycleRule;
use crate::data::ages::{day_of, early_byte_days};

/// Segments whose files are asked for, or objects whose class is, at most: the others are taken for as many of each kind.
pub(super) const ASKED_MAX: u64 = 1_000;

/// A plan that is being made.
#[derive(Default)]
pub(super) struct Planned {
    pub(super) plan: LifecyclePlan,
    pub(super) moves: Moves,
}

/// From each class into each.
pub(super) type Moves = BTreeMap<(StorageClass, StorageClass), ClassMove>;

/// Adds objects, bytes, and bytes times days that are paid all the same, to what moves from one class into another.
pub(super) fn add(
    moves: &mut Moves,
    (from, to): (StorageClass, StorageClass),
    (objects, bytes, early_byte_days): (u64, u64, u64),
) {
    let planned = moves.entry((from, to)).or_default();
    (planned.from, planned.to) = (from, to);
    planned.objects += objects;
    planned.bytes += bytes;
    planned.early_byte_days += early_byte_days;
}

impl Lifecycle {
    /// What would move at once if a directory had this rule, or none. Three reads for each 1,000 segments; where there
    /// are rules of directories a GET for each of up to 1,000 that are old enough, and they are looked at twice. Of each link
    /// with rules two reads for each 1,000 objects, twice, and a HEAD for each of up to 1,000 that are old enough.
    pub(crate) async fn plan(
        &self,
        dir: Ino,
        rule: Option<LifecycleRule>,
    ) -> Result<LifecyclePlan> {
        let rules = RulesRow::read(&self.meta).await?.with(dir, rule);
        let Parted { own, links } = self.part(rules).await?;
        let today = day_of(self.context.unix_ms());
        let mut plan = Planned::default();
        if !own.rules.is_empty() {
            self.plan_segments(own, today, &mut plan).await?;
        }
        for (link, rules) in links {
            self.plan_objects(&link, rules, today, &mut plan).await?;
        }
        let Planned { mut plan, moves } = plan;
        plan.moves = moves.into_values().collect();
        Ok(plan)
    }

    async fn plan_segments(
        &self,
        rules: RulesRow,
        today: u32,
        planned: &mut Planned,
    ) -> Result<()> {
        let plan = &mut planned.plan;
        let only_root = rules.rules.iter().all(|(ino, _)| Ino(*ino) == Ino::ROOT);
        let mut judge = Judge::new(self.meta.clone(), self.collector.clone(), rules, today);
        let step = match only_root {
            true => 1,
            false => self.count_old(&judge).await?.div_ceil(ASKED_MAX).max(1),
        };
        let mut after = None;
        loop {
            let page = self.meta.segments(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.id);
            let mut some = self.movable(page, &judge).await?;
            some.retain(|_| {
                plan.old += 1;
                plan.old.is_multiple_of(step)
            });
            let mut with_files = std::pin::pin!(judge.with_files(some));
            while let Some((segment, age, files)) = with_files.next().await {
                plan.asked += 1;
                let judged = match files {
                    Ok(files) => judge.judge(&age, files).await,
                    Err(error) => Err(error),
                };
                let to = match judged {
                    Ok(Judged::Moves(to)) => to,
                    Ok(Judged::Apart(_)) => {
                        plan.mixed += step;
                        continue;
                    }
                    Ok(Judged::Stays | Judged::Kept) => continue,
                    Err(error) if is_of_one(error.kind()) => continue,
                    Err(error) => return Err(error),
                };
                let bytes = segment.info.object_bytes;
                let early = early_byte_days(&age, bytes, today);
                add(&mut planned.moves, (age.class, to), (step, bytes * step, early * step));
            }
        }
    }

    async fn count_old(&self, judge: &Judge) -> Result<u64> {
        let (mut old, mut after) = (0, None);
        loop {
            let page = self.meta.segments(after, PAGE).await?;
            let Some(last) = page.last() else { return Ok(old) };
            after = Some(last.id);
            old += self.movable(page, judge).await?.len() as u64;
        }
    }
}

impl RulesRow {
    /// These, but for a directory that has this one, or none.
    pub(super) fn with(mut self, dir: Ino, rule: Option<LifecycleRule>) -> Self {
        self.number += 1;
        self.rules.retain(|(ino, _)| Ino(*ino) != dir);
        self.rules.extend(rule.map(|rule| (dir.0, rule)));
        self
    }
}
