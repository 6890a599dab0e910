//! Which storage class a segment is to be in: by its age, and by the rules of the directories that its files are in.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use futures::stream::{self, Stream, StreamExt};
use weir_meta::{Meta, SegmentAge, SegmentUse};
use weir_types::{ErrorKind, Ino, Result, StorageClass};

use super::row::RulesRow;
use super::rule::LifecycleRule;
use crate::data::collect::Collector;

/// An object below this is paid as if it had so many bytes. Source: Amazon S3 User Guide, "Understanding and managing
/// Amazon S3 storage classes".
pub(super) const OBJECT_BYTES_MIN: u64 = 128 << 10;
/// Segments or objects looked at in one read of the metadata.
pub(super) const PAGE: usize = 1_000;
/// Objects moved at once.
pub(super) const MOVES_AT_ONCE: usize = 16;
/// Directories whose rules are remembered.
const REMEMBERED: usize = 100_000;
/// Directories above one another at most: a move meanwhile could make it climb for longer.
const DEPTH_MAX: usize = 1_000;
/// Days after which files that kept a segment where it is are asked again.
const ASK_AGAIN_DAYS: u32 = 7;
/// Segments whose files are asked for at once.
const ASKED_AT_ONCE: usize = 8;

/// What becomes of a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Judged {
    /// It stays where it is.
    Stays,
    /// It stays because some of its files say so, though it is old enough for others.
    Kept,
    /// It moves.
    Moves(StorageClass),
    /// These files of it are to be in a colder class than the others.
    Apart(BTreeSet<Ino>),
}

/// Judges by the rules of one moment.
pub(super) struct Judge {
    meta: Arc<Meta>,
    collector: Arc<Collector>,
    pub(super) rules: RulesRow,
    pub(super) today: u32,
    /// By directory, the rule that holds in it.
    by_dir: HashMap<Ino, Option<usize>>,
}

impl Judge {
    pub(super) fn new(
        meta: Arc<Meta>,
        collector: Arc<Collector>,
        rules: RulesRow,
        today: u32,
    ) -> Self {
        Self { meta, collector, rules, today, by_dir: HashMap::new() }
    }

    /// Whether an object is old enough for any of the rules, and large enough: what the directories of its files say is
    /// another question.
    pub(super) fn may_move(&self, object_bytes: u64, age: &SegmentAge) -> bool {
        let days = self.today.saturating_sub(age.used_day);
        let asked = |(number, day): (u32, u32)| {
            number == self.rules.number && self.today.saturating_sub(day) < ASK_AGAIN_DAYS
        };
        object_bytes >= OBJECT_BYTES_MIN
            && !age.stays.is_some_and(asked)
            && self.rules.rules.iter().any(|(_, rule)| rule.moves(days, age.class).is_some())
    }

    /// The files of these segments, some at once and in order, where rules of directories ask for them: a GET each.
    pub(super) fn with_files(
        &self,
        segments: Vec<(SegmentUse, SegmentAge)>,
    ) -> impl Stream<Item = (SegmentUse, SegmentAge, Result<Option<BTreeSet<Ino>>>)> + use<> {
        let whole = self.rules.rules.iter().all(|(ino, _)| Ino(*ino) == Ino::ROOT);
        let collector = self.collector.clone();
        let asked = segments.into_iter().map(move |(segment, age)| {
            let collector = collector.clone();
            async move {
                let files = match whole {
                    true => Ok(None),
                    false => collector.files_of(&segment).await.map(Some),
                };
                (segment, age, files)
            }
        });
        stream::iter(asked).buffered(ASKED_AT_ONCE)
    }

    /// What becomes of one that may move, and has these files, if somebody asked. Some reads of the metadata.
    pub(super) async fn judge(
        &mut self,
        age: &SegmentAge,
        files: Option<BTreeSet<Ino>>,
    ) -> Result<Judged> {
        let days = self.today.saturating_sub(age.used_day);
        let whole = self.rules.rules.iter().position(|(ino, _)| Ino(*ino) == Ino::ROOT);
        let Some(files) = files else {
            let class = self.class_by(whole, days, age.class);
            return Ok(if class == age.class { Judged::Stays } else { Judged::Moves(class) });
        };
        let mut classes = Vec::new();
        for ino in files {
            // Of a file that is gone only snapshots have bytes.
            if let Some(class) = self.class_of(ino, age).await? {
                classes.push((ino, class));
            }
        }
        if classes.is_empty() {
            classes.push((Ino::ROOT, self.class_by(whole, days, age.class)));
        }
        let warmest = classes.iter().map(|(_, class)| *class).min().unwrap_or_default();
        if warmest != age.class {
            return Ok(Judged::Moves(warmest));
        }
        let colder = classes.iter().filter(|(_, class)| *class > warmest).map(|(ino, _)| *ino);
        let colder: BTreeSet<Ino> = colder.collect();
        Ok(match colder.is_empty() {
            true => Judged::Kept,
            false => Judged::Apart(colder),
        })
    }

    /// The class that a file's bytes of this age are to be in; `None` of a file that is not there any more. Some reads of
    /// the metadata.
    pub(super) async fn class_of(
        &mut self,
        ino: Ino,
        age: &SegmentAge,
    ) -> Result<Option<StorageClass>> {
        let days = self.today.saturating_sub(age.used_day);
        let rule = self.rule_of(ino).await?;
        Ok(rule.map(|rule| self.class_by(rule, days, age.class)))
    }

    fn class_by(&self, rule: Option<usize>, days: u32, class: StorageClass) -> StorageClass {
        let rule: Option<&LifecycleRule> = rule.map(|at| &self.rules.rules[at].1);
        rule.and_then(|rule| rule.moves(days, class)).unwrap_or(class)
    }

    /// The rule of the nearest directory above that has one; `None` of what is not there any more.
    async fn rule_of(&mut self, ino: Ino) -> Result<Option<Option<usize>>> {
        let (mut at, mut above, mut found) = (ino, Vec::new(), None);
        while above.len() < DEPTH_MAX {
            if let Some(known) = self.by_dir.get(&at) {
                found = *known;
                break;
            }
            above.push(at);
            found = self.rules.rules.iter().position(|(dir, _)| Ino(*dir) == at);
            if found.is_some() || at == Ino::ROOT {
                break;
            }
            at = match self.meta.inode(at).await {
                // What is in no directory is in the volume.
                Ok(inode) if inode.parent == Ino(0) => Ino::ROOT,
                Ok(inode) => inode.parent,
                Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
                Err(error) => return Err(error),
            };
        }
        if self.by_dir.len() >= REMEMBERED {
            self.by_dir.clear();
        }
        // The file itself is not asked for again.
        self.by_dir.extend(above.into_iter().skip(1).map(|dir| (dir, found)));
        Ok(Some(found))
    }
}

/// Whether an error is about one object.
pub(super) fn is_of_one(kind: ErrorKind) -> bool {
    matches!(kind, ErrorKind::NotFound | ErrorKind::Corrupt)
}
