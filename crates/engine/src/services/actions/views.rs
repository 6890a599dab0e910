//! What an action is told, and what it shows of itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::{Ino, Restore};

/// Names an action, from 1; never used twice in a volume.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(transparent)]
pub struct ActionId(pub u64);

/// What an action does to each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionKind {
    /// Bring all bytes here.
    Hydrate,
    /// Let all bytes go that are in the bucket as well.
    Release,
    /// Write the file to the bucket of its link, or, outside of links, flush it.
    Archive,
}

/// What is asked for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ActionRequest {
    /// What to do.
    pub kind: ActionKind,
    /// Files and directories to do it to, with their paths below the mount for people.
    pub roots: Vec<Root>,
    /// Go down into directories. Without it a directory is refused.
    pub recursive: bool,
    /// Bytes a second at most; `None`: as fast as it goes.
    #[serde(default)]
    pub max_bytes_per_s: Option<u64>,
    /// Have what lies in an archive class restored, and bring it then; `None`: it is refused. Of hydrations of
    /// linked objects only.
    // Left out where there is none: a daemon of an older build refuses words that it does not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub restore: Option<Restore>,
}

/// Where an action begins.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Root {
    /// The inode.
    pub ino: Ino,
    /// Its path below the mount, for people.
    pub path: String,
}

/// Where an action stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum ActionState {
    /// Others come first.
    Waiting,
    /// It goes on.
    Running,
    /// All is done; what was refused or failed is counted.
    Done,
    /// Somebody stopped it.
    Cancelled,
    /// The node that it is of is not there: it goes on when the tier of that one is mounted again.
    Away,
}

/// An action as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionView {
    /// Its name.
    pub id: ActionId,
    /// What was asked for.
    pub request: ActionRequest,
    /// Where it stands.
    pub state: ActionState,
    /// When it was asked for, in milliseconds since 1970.
    pub asked_unix_ms: i64,
    /// When it ended.
    pub ended_unix_ms: Option<i64>,
    /// Files found up to now, and all of them once `counted`.
    pub files_total: u64,
    /// Files that are done, refused ones included.
    pub files_done: u64,
    /// Bytes to move, as far as is known; all of them once `counted`.
    pub bytes_total: u64,
    /// Bytes moved, or found where they should be.
    pub bytes_done: u64,
    /// Whether the totals are final.
    pub counted: bool,
    /// Files that were refused or failed.
    pub refused: u64,
    /// The first of them, with the reason.
    pub reasons: Vec<Refused>,
    /// Which portion it is of a hydration that was divided among nodes; `null`: all of what was asked for.
    #[serde(default)]
    pub portion: Option<PortionView>,
    /// The node that works on it, where nodes share the volume.
    #[serde(default)]
    pub node: Option<ActionNode>,
    /// What it found in archive classes, since the mount or its beginning.
    #[serde(default)]
    pub archived: ArchivedView,
}

/// Objects in archive classes that a hydration came by.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArchivedView {
    /// Files whose objects are being restored.
    pub waiting: u64,
    /// What was asked to be restored, of each class.
    pub asked: Vec<ArchivedObjects>,
}

/// Objects of one archive class.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArchivedObjects {
    /// The class, as the bucket calls it.
    pub class: String,
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
}

/// Which portion of what was asked for an action is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PortionView {
    /// The first action of the group: all of them are what was asked for.
    pub group: ActionId,
    /// Which of them it is, from 1.
    pub nth: u32,
    /// How many there are.
    pub count: u32,
    /// It is all of what was asked for: each of the nodes does that.
    pub everywhere: bool,
}

/// The node that works on an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ActionNode {
    /// Its session, as `weir nodes` names it.
    pub id: String,
    /// Its machine.
    pub name: String,
    /// Its tier directory.
    pub tier: String,
    /// It is the one that was asked.
    pub here: bool,
}

/// Why a file was left as it is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Refused {
    /// Its path below the mount.
    pub path: String,
    /// Why, and what to do.
    pub reason: String,
}

/// One file as Lustre's HSM would see it, and more.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct FileState {
    /// There is a copy in the bucket, maybe an old one.
    pub exists: bool,
    /// The file changed since that copy.
    pub dirty: bool,
    /// Some bytes are in the bucket only.
    pub released: bool,
    /// The copy in the bucket is the file.
    pub archived: bool,
    /// It is pinned: never released.
    pub pinned: bool,
    /// Its object went from the bucket behind our back: what is not here is lost.
    pub lost: bool,
    /// Bytes of the file.
    pub size: u64,
    /// Bytes of it that are here, in whole pages.
    pub resident_bytes: u64,
    /// URL of its object, for a file of a link.
    pub object: Option<String>,
    /// The action that works on it or will.
    pub action: Option<ActionId>,
}
