//! Snapshots that are made and deleted by themselves.
//!
//! The mount that writes makes them; of several the one that does what has to be done for all. What must always hold:
//! - One snapshot at most for each period of a rule, named by the period, however often it is tried.
//! - Nothing is deleted but what its rule made, what nobody holds, and only when a newer one of that rule is whole.

use std::sync::Arc;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::{ScheduleRow, ScheduleRule, SnapshotRow};
use weir_types::{ErrorKind, FsError, Result, UnixTime};

use super::rules::{self, SnapshotPeriod, SnapshotRule};
use super::{SnapshotOptions, Snapshots};

/// How often it is looked whether one is due.
const LOOK: Duration = Duration::from_secs(15);

/// What a volume's snapshots are made by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ScheduleView {
    /// Its rules; none: no snapshot is made by itself.
    pub rules: Vec<RuleView>,
    /// The newest of them gets a dump of its metadata.
    #[serde(default)]
    pub dump: bool,
    /// Why the last one that was due could not be made. It is tried again.
    pub trouble: Option<String>,
}

/// A rule, and what there is of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RuleView {
    /// The rule.
    #[serde(flatten)]
    pub rule: SnapshotRule,
    /// Snapshots that it made and that are there, held ones among them.
    pub snapshots: u64,
    /// When the newest of them was made.
    pub newest: Option<UnixTime>,
    /// When the next one is made, if the volume is mounted then.
    pub next: UnixTime,
    /// For how many seconds one has been due that is not made yet: it is looked every 15 s. 0 if none is.
    pub overdue_s: u64,
}

/// How many looks are between two that remove dumps without a snapshot: an hour, after which what another state of the
/// metadata needed may be collected.
const LOOKS_PER_SWEEP: u64 = 240;

/// Makes snapshots that are due, until the volume is another's.
pub(crate) async fn schedule_loop(snapshots: Arc<Snapshots>) {
    if !snapshots.meta.has_checkpoints() {
        return;
    }
    for look in 1_u64.. {
        tokio::time::sleep(LOOK).await;
        if !snapshots.context.is_on_duty() {
            snapshots.tell_of_trouble(None);
            continue;
        }
        let made = async {
            snapshots.make_due().await?;
            match look.is_multiple_of(LOOKS_PER_SWEEP) {
                true => snapshots.sweep_dumps().await,
                false => Ok(()),
            }
        };
        match made.await {
            Err(error) if error.kind() == ErrorKind::Fenced => return,
            done => snapshots.tell_of_trouble(done.err()),
        }
    }
}

impl Snapshots {
    /// The rules, and what there is of them. Two reads, one more for each 1,000 snapshots.
    pub(crate) async fn schedule(&self) -> Result<ScheduleView> {
        self.meta.checkpoints()?;
        let row = self.meta.schedule().await?;
        self.schedule_of(&row).await
    }

    async fn schedule_of(&self, row: &ScheduleRow) -> Result<ScheduleView> {
        let all = self.meta.snapshots().await?;
        let rules = row.rules.iter().filter_map(|rule| self.rule_view(rule, &all)).collect();
        let dump = self.dumps_by_itself().await?;
        Ok(ScheduleView { rules, dump, trouble: self.trouble.lock().clone() })
    }

    fn rule_view(&self, rule: &ScheduleRule, all: &[(String, SnapshotRow)]) -> Option<RuleView> {
        let every = SnapshotPeriod::named(&rule.name)?;
        let own = || made_by(all, &rule.name).map(|(_, row)| row);
        let now_s = self.now_s();
        let (next_s, overdue_s) = match every.is_due(rule.made_s, now_s) {
            // The first one is due from when the rule is set, which is not kept.
            true => (now_s, rule.made_s.map_or(0, |_| now_s - every.around(now_s).0)),
            false => (every.around(now_s.max(rule.made_s.unwrap_or(now_s))).1, 0),
        };
        Some(RuleView {
            rule: SnapshotRule { every, keep: rule.keep },
            snapshots: own().count() as u64,
            newest: own().map(|row| row.created_ms).max().map(|ms| at_ms(ms.cast_signed())),
            next: at_ms(next_s.saturating_mul(1_000)),
            overdue_s: overdue_s.max(0).cast_unsigned(),
        })
    }

    /// Replaces the rules; a rule that stays goes on where it was. Snapshots of rules that go stay. Two reads, one
    /// commit, and a deletion for each that is too many by now.
    pub(crate) async fn set_schedule(
        &self,
        rules: &[SnapshotRule],
        dump: bool,
    ) -> Result<ScheduleView> {
        self.context.check_writable()?;
        self.meta.checkpoints()?;
        rules::check(rules)?;
        self.set_dumps_by_itself(dump && !rules.is_empty()).await?;
        let row = self.meta.change_schedule(|before| replaced(before, rules)).await?;
        for rule in &row.rules {
            self.delete_old(rule).await?;
        }
        self.schedule_of(&row).await
    }

    /// Makes those that are due, and deletes what that makes too many. Two reads where nothing is due.
    pub(crate) async fn make_due(&self) -> Result<()> {
        let row = self.meta.schedule().await?;
        let mut first_error = None;
        for rule in &row.rules {
            // One of a newer build is left alone.
            let Some(every) = SnapshotPeriod::named(&rule.name) else { continue };
            let now_s = self.now_s();
            if !every.is_due(rule.made_s, now_s) {
                continue;
            }
            if let Err(error) = self.make(rule, every, every.around(now_s).0).await {
                first_error.get_or_insert(error);
            }
        }
        if !row.rules.is_empty()
            && let Err(error) = self.dump_newest().await
        {
            first_error.get_or_insert(error);
        }
        first_error.map_or(Ok(()), Err)
    }

    async fn make(&self, rule: &ScheduleRule, every: SnapshotPeriod, start_s: i64) -> Result<()> {
        let name = every.snapshot_name(start_s);
        let options =
            SnapshotOptions { name: name.clone(), flush: true, rule: Some(rule.name.clone()) };
        match self.create(&options).await {
            Ok(_) => tracing::info!(%name, "a snapshot was made, as scheduled"),
            // Made before, and that was not noted; or somebody's own. What is left of one that was given up is
            // deleted soon, and it is made then.
            Err(error) if error.kind() == ErrorKind::Exists => {
                self.meta.snapshot(&name).await.map_err(|_| error)?;
            }
            Err(error) => return Err(error),
        }
        fail::fail_point!("engine::snapshot-scheduled");
        let noted = |mut row: ScheduleRow| {
            let rule = row.rules.iter_mut().find(|other| other.name == rule.name);
            rule.into_iter().for_each(|rule| rule.made_s = Some(start_s));
            row
        };
        self.meta.change_schedule(noted).await?;
        self.delete_old(rule).await
    }

    /// Deletes what a rule made and does not keep.
    async fn delete_old(&self, rule: &ScheduleRule) -> Result<()> {
        let all = self.meta.snapshots().await?;
        let mut own: Vec<_> = made_by(&all, &rule.name).filter(|(_, row)| !row.held).collect();
        // By number: clocks go back.
        own.sort_unstable_by_key(|(_, row)| std::cmp::Reverse(row.number));
        for (name, _) in own.into_iter().skip(rule.keep as usize) {
            match self.delete(name).await {
                Ok(()) => tracing::info!(%name, "a snapshot was deleted, as scheduled"),
                // Somebody was faster, or holds it.
                Err(error)
                    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Permission) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// In the log once for each text, and in what is told of the schedule.
    fn tell_of_trouble(&self, error: Option<FsError>) {
        let text = error.map(|error| error.to_string());
        let before = std::mem::replace(&mut *self.trouble.lock(), text.clone());
        match text {
            Some(error) if before.as_ref() != Some(&error) => {
                tracing::warn!(%error, "a snapshot that is due is not made yet");
            }
            None if before.is_some() => tracing::info!("snapshots are made as scheduled again"),
            _ => {}
        }
    }

    fn now_s(&self) -> i64 {
        self.context.now().0.div_euclid(1_000_000_000)
    }
}

fn at_ms(unix_ms: i64) -> UnixTime {
    UnixTime(unix_ms.saturating_mul(1_000_000))
}

/// Whole snapshots that a rule made.
fn made_by<'a>(
    all: &'a [(String, SnapshotRow)],
    rule: &'a str,
) -> impl Iterator<Item = &'a (String, SnapshotRow)> {
    all.iter().filter(move |(_, row)| row.rule.as_deref() == Some(rule) && row.state.is_some())
}

fn replaced(before: ScheduleRow, rules: &[SnapshotRule]) -> ScheduleRow {
    let of = |rule: &SnapshotRule| {
        let name = rule.every.name();
        let known = before.rules.iter().find(|other| other.name == name);
        ScheduleRule {
            name: name.to_owned(),
            keep: rule.keep,
            made_s: known.and_then(|known| known.made_s),
        }
    };
    ScheduleRow { rules: rules.iter().map(of).collect() }
}
