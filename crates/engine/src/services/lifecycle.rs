//! Lifecycles: what is not used goes into cheaper storage classes, by rules of the volume and of directories.
//!
//! A segment's age is that of the last day on which its bytes were written or read from the bucket: what is read out of
//! the tier costs nothing there, and so may be cold in the bucket. Objects move in place, by the store: no byte passes this
//! machine, and snapshots and clones go on using them.
//!
//! What must always hold:
//! - Nothing that a rule does changes a byte of a file, or where the metadata says that it is; but for segments with files
//!   of several rules, which are written anew as the collector does.
//! - Only classes that are read at once.
//! - Where the notes and the bucket differ (a crash came between), the next pass moves again; only the bill was wrong.
//!
//! Objects of links move by rules of directories in the link only (`objects`).

mod judge;
mod objects;
mod parted;
mod pass;
mod plan;
mod reads;
mod row;
mod rule;

use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::Notify;
use weir_meta::{Meta, path_of};
use weir_object::{Component, StripeSet};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Result, StorageClass, UnixTime};

use crate::data::admission::budget::Budget;
use crate::data::collect::Collector;
use crate::services::links::{Link, Links};
use crate::volume::context::Context;

use row::{AskedRow, PassRow, RulesRow};
pub use row::{ClassBytes, LifecyclePlan, LifecycleRuleView, LifecycleView, ObjectsPass};
pub use rule::{LifecycleRule, LifecycleStep};

/// How often it is looked whether a pass is due.
const LOOK: Duration = Duration::from_secs(60);
/// A pass begins so long after the one before, in milliseconds.
const PASS_MS: u64 = 86_400_000;
/// After an error, or where the budget holds it up.
const PAUSE_MS: u64 = 600_000;
/// Looks between two notes of what was read.
const LOOKS_PER_NOTE: u32 = 10;
/// Rules that a volume may have.
const RULES_MAX: usize = 100;

/// Moves a volume's objects between storage classes.
pub(crate) struct Lifecycle {
    context: Arc<Context>,
    meta: Arc<Meta>,
    buckets: StripeSet,
    collector: Arc<Collector>,
    budget: Arc<Budget>,
    links: Arc<Links>,
    progress: Mutex<Progress>,
    /// Somebody wants a pass.
    asked: Notify,
}

/// How far this mount is with a pass.
#[derive(Default)]
struct Progress {
    /// The pass that goes on here.
    row: Option<PassRow>,
    trouble: Option<String>,
    /// None is begun before that, on the monotonic clock.
    not_before_ms: u64,
}

impl Lifecycle {
    pub(crate) fn new(
        (context, meta): (Arc<Context>, Arc<Meta>),
        buckets: StripeSet,
        (collector, budget): (Arc<Collector>, Arc<Budget>),
        links: Arc<Links>,
    ) -> Self {
        context.meter.watch_segments();
        links.registry.reads.watch(true);
        let (progress, asked) = Default::default();
        Self { context, meta, buckets, collector, budget, links, progress, asked }
    }

    /// The rules, what is in which class, and how far the pass is. Two reads, one for each 10,000 segments, and some
    /// for the path of each directory with a rule.
    pub(crate) async fn view(&self) -> Result<LifecycleView> {
        let rules = RulesRow::read(&self.meta).await?;
        let kept = PassRow::read(&self.meta).await?;
        let (here, trouble) = {
            let progress = self.progress.lock();
            (progress.row.clone(), progress.trouble.clone())
        };
        let running = here.is_some() || !kept.has_ended();
        let row = here.unwrap_or(kept);
        let all = self.meta.segment_bytes().await?;
        let warm = all.bytes.saturating_sub(all.cold.iter().sum());
        let cold = StorageClass::COLD.into_iter().zip(all.cold);
        let classes = [(StorageClass::Standard, warm)].into_iter().chain(cold);
        let classes =
            classes.filter(|(class, bytes)| *bytes > 0 || *class == StorageClass::Standard);
        let objects = self.meta.linked_bytes().await?.in_class;
        let objects = StorageClass::COLD.map(|class| (class, objects[class.index()]));
        let objects = objects.into_iter().filter(|(_, bytes)| *bytes > 0);
        let mut views = Vec::new();
        for (ino, rule) in rules.rules {
            let path = path_of(&**self.meta.kv(), Ino(ino)).await?;
            let path = path.map(|path| match &path[..] {
                b"." => "/".to_owned(),
                path => format!("/{}", String::from_utf8_lossy(path)),
            });
            let link = self.link_of(Ino(ino)).await?.map(|link| link.id);
            let text = rule.to_string();
            views.push(LifecycleRuleView { path, ino: Ino(ino), text, link, rule });
        }
        views.sort_by(|one, other| one.path.cmp(&other.path));
        let at = |ms: u64| (ms > 0).then(|| UnixTime(ms.cast_signed().saturating_mul(1_000_000)));
        Ok(LifecycleView {
            rules: views,
            classes: classes.map(|(class, bytes)| ClassBytes { class, bytes }).collect(),
            running,
            passes: row.number,
            started: at(row.started_ms),
            ended: at(row.ended_ms),
            segments: row.segments,
            looked: row.looked,
            moved: row.moved,
            moved_bytes: row.moved_bytes,
            separated: row.separated,
            objects: row.objects,
            object_classes: objects.map(|(class, bytes)| ClassBytes { class, bytes }).collect(),
            trouble,
        })
    }

    /// Gives a directory a rule, or takes the one that it has. What has moved stays where it is. Where the rule is a new one
    /// each of the volume's buckets, or that of the link that the directory is in, is tried for each class of it: 4 requests. Some reads and a commit.
    ///
    /// # Errors
    /// `Unsupported` where the bucket has no such classes, or the link does not export; `NotFound` and `NotDirectory` of the directory, `NotFound` where there is
    /// no rule to be taken.
    pub(crate) async fn set(&self, dir: Ino, rule: Option<LifecycleRule>) -> Result<LifecycleView> {
        self.context.check_writable()?;
        let before = RulesRow::read(&self.meta).await?;
        if rule.is_none() && before.rules.iter().all(|(ino, _)| Ino(*ino) != dir) {
            let text = "it has no rule of its own: `weir lifecycle show` has all of them";
            return Err(FsError::new(ErrorKind::NotFound, text));
        }
        if let Some(rule) = &rule {
            if dir.is_past() || dir == Ino::SNAPSHOTS {
                let text = "what is in snapshots has the rules of the volume as it is now";
                return Err(FsError::new(ErrorKind::ReadOnly, text));
            }
            if self.meta.inode(dir).await?.kind != FileKind::Directory {
                let text = "rules are of directories, with all below";
                return Err(FsError::new(ErrorKind::NotDirectory, text));
            }
            self.probe(dir, rule).await?;
        }
        let mut after = before.with(dir, rule);
        let mut there = Vec::new();
        for (ino, rule) in after.rules {
            // A directory that is removed has no rule any more.
            match self.meta.inode(Ino(ino)).await {
                Ok(inode) if inode.nlink > 0 => there.push((ino, rule)),
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => return Err(error),
            }
        }
        if there.len() > RULES_MAX {
            let text = format!("a volume has {RULES_MAX} rules at most: remove some");
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        after.rules = there;
        after.write(&self.meta).await?;
        self.begin().await
    }

    /// Tries whether the objects that a rule is for can be in its classes.
    async fn probe(&self, dir: Ino, rule: &LifecycleRule) -> Result<()> {
        let link = self.link_of(dir).await?;
        if let Some(link) = link.as_ref().filter(|link| !link.exports()) {
            return Err(must_export(link));
        }
        for LifecycleStep { class, .. } in &rule.steps {
            match &link {
                Some(link) => {
                    let bucket = self.links.registry.bucket(link.id)?;
                    bucket.probe_class(Component::Link, *class).await?;
                }
                None => {
                    for bucket in self.buckets.iter() {
                        bucket.probe_class(Component::Collect, *class).await?;
                    }
                }
            }
        }
        Ok(())
    }

    /// Has a pass begin soon, also where there was one today. Answers how many were begun before, whatever began meanwhile: who
    /// waits does so for the next one. Two reads and a commit.
    pub(crate) async fn begin(&self) -> Result<LifecycleView> {
        self.context.check_writable()?;
        let row = PassRow::read(&self.meta).await?;
        AskedRow { number: row.number + 1 }.write(&self.meta).await?;
        self.progress.lock().not_before_ms = 0;
        self.asked.notify_one();
        Ok(LifecycleView { passes: row.number, ..self.view().await? })
    }

    /// Whether a pass is to begin: one was asked for, was broken off, or a day has passed.
    async fn is_due(&self) -> Result<bool> {
        if RulesRow::read(&self.meta).await?.rules.is_empty() {
            return Ok(false);
        }
        if self.context.now_ms() < self.progress.lock().not_before_ms {
            return Ok(false);
        }
        let row = PassRow::read(&self.meta).await?;
        // By how much the clock was set back does not matter.
        let old = self.context.unix_ms().abs_diff(row.started_ms) >= PASS_MS;
        let asked = AskedRow::read(&self.meta).await?.number > row.number;
        Ok(asked || !row.has_ended() || old)
    }

    /// Does a pass if one is due; `false`: none is, and what kept the last one from its end still stands.
    async fn look(&self) -> Result<bool> {
        if !self.context.is_on_duty() || !self.is_due().await? {
            return Ok(false);
        }
        let passed = self.pass().await;
        let mut progress = self.progress.lock();
        if !matches!(passed, Ok(true)) {
            progress.row = None;
            progress.not_before_ms = self.context.now_ms() + PAUSE_MS;
        }
        passed.map(|_| true)
    }

    /// Whether the pass stands still, and is tried again.
    pub(crate) fn stands_still(&self) -> bool {
        self.progress.lock().trouble.is_some()
    }

    fn tell_of_trouble(&self, error: Option<FsError>) {
        let text = error.map(|error| error.to_string());
        let before = std::mem::replace(&mut self.progress.lock().trouble, text.clone());
        if let Some(error) = text.filter(|text| before.as_ref() != Some(text)) {
            tracing::warn!(%error, "moving what is not used into other classes stands still");
        }
    }

    /// A pass now, as far as it goes, after what was read was noted.
    #[cfg(feature = "testing")]
    pub(crate) async fn pass_now(&self) -> Result<()> {
        self.note_reads().await?;
        self.pass().await.map(drop)
    }
}

/// What is said where objects of a link may not be moved.
fn must_export(link: &Link) -> FsError {
    let text = format!(
        "link {} does not export, so nothing in its bucket is changed: a rule for it needs a link that does (`weir link --export`)",
        link.id
    );
    FsError::new(ErrorKind::Unsupported, text)
}

/// Notes what is read, and moves what is not, until the volume is another's.
pub(crate) async fn lifecycle_loop(lifecycle: Arc<Lifecycle>) {
    for look in 1_u64.. {
        tokio::select! {
            () = tokio::time::sleep(LOOK) => {}
            () = lifecycle.asked.notified() => {}
        }
        if look.is_multiple_of(LOOKS_PER_NOTE.into())
            && let Err(error) = lifecycle.note_reads().await
        {
            tracing::debug!(%error, "what was read is not noted");
        }
        match lifecycle.look().await {
            Err(error) if error.kind() == ErrorKind::Fenced => return,
            Ok(false) => {}
            done => lifecycle.tell_of_trouble(done.err()),
        }
    }
}

/// Counts what is read of cold objects on a mount that may not write: they cost the same, and stay as old as they are.
pub(crate) async fn cold_reads_loop(lifecycle: Arc<Lifecycle>) {
    loop {
        tokio::time::sleep(LOOK * LOOKS_PER_NOTE).await;
        if let Err(error) = lifecycle.note_reads().await {
            tracing::debug!(%error, "what was read is not counted");
        }
    }
}
