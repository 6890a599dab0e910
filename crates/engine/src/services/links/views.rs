//! What a link is told, and what it shows of itself.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_object::Conditions;
use weir_types::{Ino, LinkId};

/// A change of the tree that is no door's doing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum TreeChange {
    /// The directory has new entries.
    Entries(Ino),
    /// This name of the directory leads elsewhere, or nowhere.
    Name(Ino, Vec<u8>),
    /// Bytes of the file are nowhere any more: nobody is to read them from a cache for as long as that
    /// happens to have them.
    Bytes(Ino),
    /// The file was changed by who writes the volume elsewhere: its attributes, and its bytes from
    /// here on, if they are others.
    File(Ino, Option<u64>),
}

/// Which changes go from one side to the other without being asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// New files or objects.
    pub new: bool,
    /// Changed ones.
    pub changed: bool,
    /// Deleted ones.
    pub deleted: bool,
}

/// Whether to ask for each object's POSIX attributes when it is imported: one HEAD each.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Attributes {
    /// If some of the first objects have any.
    #[default]
    Auto,
    /// Of every object.
    Always,
    /// Of none.
    Never,
}

/// What a link is.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct LinkOptions {
    /// Where the objects are.
    pub url: String,
    /// What is imported without being asked for, by polling.
    pub import: Policy,
    /// What is exported without being asked for.
    pub export: Policy,
    /// Names of a directory are imported when somebody first looks into it.
    pub lazy_dirs: bool,
    /// Whether attributes are asked for.
    pub attributes: Attributes,
    /// Seconds between two polls, if anything is imported without being asked for.
    pub poll_s: u64,
    /// Address of an S3 server other than the volume's.
    pub endpoint: Option<String>,
    /// Region, if it is not the volume's.
    pub region: Option<String>,
    /// Profile of ~/.aws, if it is not the volume's.
    pub profile: Option<String>,
    /// Its requests are not signed: all may read it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub anonymous: bool,
}

/// A link as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct LinkView {
    /// Its name.
    pub id: LinkId,
    /// The directory.
    pub ino: Ino,
    /// Its path below the mount when it was made, for people.
    pub path: String,
    /// What it is.
    pub options: LinkOptions,
    /// Files that are objects of the bucket.
    pub files: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Objects that cannot show as files; see `Engine::hidden_objects`.
    pub hidden: u64,
    /// The import that runs.
    pub importing: Option<ImportView>,
    /// When the last import ended well, in milliseconds since 1970.
    pub imported_unix_ms: Option<i64>,
    /// Why the last import failed, if it did.
    pub import_error: Option<String>,
    /// Files that wait for their export.
    pub export_waiting: u64,
    /// Files whose export failed and is tried again, and why the last one did.
    pub export_failed: u64,
    /// Why the last export that failed did.
    pub export_error: Option<String>,
    /// Conflicts found since the mount: local changes that a bucket change overtook.
    pub conflicts: u64,
    /// Which conditions of a PUT the server holds; of others the object is looked at first. Known
    /// from the first export on.
    pub conditions: Option<Conditions>,
    /// Deletions in the bucket that were not done here, because they are so many.
    pub held_deletions: Option<HeldDeletions>,
}

/// An import under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ImportView {
    /// Objects listed.
    pub listed: u64,
    /// Files made or changed.
    pub imported: u64,
    /// Files removed.
    pub removed: u64,
    /// When it began, in milliseconds since 1970.
    pub since_unix_ms: i64,
}

/// An object that cannot show as a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HiddenObject {
    /// Its key below the link's URL; bytes that are no UTF-8 are written as `\xNN`.
    pub key: String,
    /// Why it cannot show.
    pub reason: String,
}

impl Policy {
    /// All of them.
    pub const ALL: Policy = Policy { new: true, changed: true, deleted: true };

    /// Whether it is none of them.
    pub fn is_none(self) -> bool {
        self == Policy::default()
    }
}

/// Deletions in the bucket that were not done here, because they are so many.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct HeldDeletions {
    /// Files whose objects the last import did not find.
    pub files: u64,
    /// Files that the link has.
    pub of: u64,
}
