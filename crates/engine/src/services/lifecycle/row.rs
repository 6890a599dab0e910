//! The rules of a volume and its last pass over the segments, as they are kept with it and as they are told.

use bytes::Bytes;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_meta::Meta;
use weir_types::{ClassMove, ErrorKind, FsError, Ino, LinkId, Result, StorageClass, UnixTime};

use super::rule::LifecycleRule;

/// Names of the rows.
const RULES: &str = "lifecycle/rules";
const PASS: &str = "lifecycle/pass";
const ASKED: &str = "lifecycle/asked";

/// The rules of a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct RulesRow {
    /// Another one each time that they change.
    pub(super) number: u32,
    /// By directory, each with another one: the nearest above a file is its rule.
    pub(super) rules: Vec<(u64, LifecycleRule)>,
}

/// The number of the pass that somebody asked for. Not in the row of the pass: who does that one knows nothing of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct AskedRow {
    pub(super) number: u64,
}

/// A pass over all segments.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(super) struct PassRow {
    /// How many there were, this one too.
    pub(super) number: u64,
    /// In milliseconds since 1970.
    pub(super) started_ms: u64,
    /// 0 as long as it runs.
    pub(super) ended_ms: u64,
    pub(super) segments: u64,
    pub(super) looked: u64,
    pub(super) moved: u64,
    pub(super) moved_bytes: u64,
    pub(super) separated: u64,
    /// Objects of links.
    pub(super) objects: ObjectsPass,
}

/// How far a pass is with objects of links.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(default)]
pub struct ObjectsPass {
    /// Objects that it looked at.
    pub looked: u64,
    /// Those that it moved into another class.
    pub moved: u64,
    /// Their bytes.
    pub moved_bytes: u64,
    /// Those that were to move, and stay: they are tried again after a week.
    pub refused: u64,
    /// Why the first of them does.
    pub why: Option<String>,
}

/// What a volume's objects are moved by, and where they are.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LifecycleView {
    /// The rules, by directory; none: nothing moves.
    pub rules: Vec<LifecycleRuleView>,
    /// What the volume has in each class that it uses, and in the first one.
    pub classes: Vec<ClassBytes>,
    /// A pass over all segments goes on. There is one a day.
    pub running: bool,
    /// How many passes were begun.
    pub passes: u64,
    /// When the last one was begun.
    pub started: Option<UnixTime>,
    /// When it ended.
    pub ended: Option<UnixTime>,
    /// Segments that there were when it was begun; 0 where all rules are for objects of links.
    pub segments: u64,
    /// Those that it looked at.
    pub looked: u64,
    /// Those that it moved into another class.
    pub moved: u64,
    /// Their bytes.
    pub moved_bytes: u64,
    /// Those whose files are of several rules, and that it wrote anew, apart.
    pub separated: u64,
    /// The same of objects of links.
    pub objects: ObjectsPass,
    /// Bytes of objects of links in each class that they were moved into, or were found in.
    pub object_classes: Vec<ClassBytes>,
    /// Why the pass stands still; it is tried again.
    pub trouble: Option<String>,
}

/// The rule of a directory, and of all below it that has none of its own.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LifecycleRuleView {
    /// The directory, from the volume's root; none of one that is removed.
    pub path: Option<String>,
    /// Its inode.
    pub ino: Ino,
    /// The rule in words.
    pub text: String,
    /// The link, where it is one for the link's own objects.
    pub link: Option<LinkId>,
    /// The rule.
    #[serde(flatten)]
    pub rule: LifecycleRule,
}

/// What is in a storage class.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassBytes {
    /// The class.
    pub class: StorageClass,
    /// Bytes of objects in it.
    pub bytes: u64,
}

/// What would move at once, and where to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LifecyclePlan {
    /// From each class into each.
    pub moves: Vec<ClassMove>,
    /// Segments that have files of several rules: some of them are written anew.
    pub mixed: u64,
    /// Segments, and objects of links, that are old enough for some rule.
    pub old: u64,
    /// Those of them whose files, or whose present class, were asked for: the rest of the plan is told from these.
    pub asked: u64,
}

impl RulesRow {
    pub(super) async fn read(meta: &Meta) -> Result<Self> {
        read(meta, RULES).await
    }

    pub(super) async fn write(&self, meta: &Meta) -> Result<()> {
        write(meta, RULES, self).await?;
        meta.sync().await
    }
}

impl AskedRow {
    pub(super) async fn read(meta: &Meta) -> Result<Self> {
        read(meta, ASKED).await
    }

    pub(super) async fn write(self, meta: &Meta) -> Result<()> {
        write(meta, ASKED, &self).await
    }
}

impl PassRow {
    pub(super) async fn read(meta: &Meta) -> Result<Self> {
        read(meta, PASS).await
    }

    pub(super) async fn write(&self, meta: &Meta) -> Result<()> {
        write(meta, PASS, self).await
    }

    /// Whether it has ended.
    pub(super) fn has_ended(&self) -> bool {
        self.ended_ms >= self.started_ms
    }
}

async fn read<T: DeserializeOwned + Default>(meta: &Meta, name: &str) -> Result<T> {
    let rows = meta.kept(name).await?;
    let Some((_, row)) = rows.into_iter().find(|(found, _)| found == name) else {
        return Ok(T::default());
    };
    serde_json::from_slice(&row).map_err(|error| {
        let text = format!("the row `{name}` cannot be read: update weir");
        FsError::new(ErrorKind::Unsupported, text).with_source(error)
    })
}

async fn write<T: Serialize>(meta: &Meta, name: &str, row: &T) -> Result<()> {
    let bytes = serde_json::to_vec(row).map_err(|error| {
        FsError::new(ErrorKind::Bug, format!("write the row `{name}`")).with_source(error)
    })?;
    meta.keep(&[(name.to_owned(), Some(Bytes::from(bytes)))]).await
}
