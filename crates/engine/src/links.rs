//! Links: directories of the volume that are bound to a bucket prefix, where one object is one file.

use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::engine::Engine;

/// Names a link, from 1; never used twice in a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct LinkId(pub u32);

/// Which changes go from one side to the other without being asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
}

/// A link as it stands.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
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
    /// Objects that cannot show as files; see [`Engine::hidden_objects`].
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
}

/// An import under way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HiddenObject {
    /// Its key below the link's URL; bytes that are no UTF-8 are written as `\xNN`.
    pub key: String,
    /// Why it cannot show.
    pub reason: String,
}

impl Engine {
    /// Binds directory `ino`, which must be empty, to a bucket prefix, and starts the first import.
    /// Two commits and one LIST.
    pub async fn link_bucket(
        &self,
        ino: Ino,
        path: &str,
        options: LinkOptions,
    ) -> Result<LinkView> {
        let _ = (ino, path, options);
        Err(not_yet())
    }

    /// Ends a link: files that are nothing but objects go from the tree, those that were made or
    /// changed here stay as files of the volume. The bucket is not touched.
    pub async fn unlink_bucket(&self, ino: Ino) -> Result<LinkView> {
        let _ = ino;
        Err(not_yet())
    }

    /// All links, by name.
    pub async fn links(&self) -> Result<Vec<LinkView>> {
        Ok(Vec::new())
    }

    /// Up to `limit` objects of a link that cannot show, by key, after `after`.
    pub async fn hidden_objects(
        &self,
        link: LinkId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HiddenObject>> {
        let _ = (link, after, limit);
        Err(not_yet())
    }

    /// Imports what changed in the bucket now: all of the link, or, given keys below its URL (from
    /// event notifications), these objects only. All of it goes on in the background; with keys it
    /// returns when they are done.
    pub async fn refresh_link(&self, link: LinkId, keys: Option<Vec<String>>) -> Result<LinkView> {
        let _ = (link, keys);
        Err(not_yet())
    }
}

fn not_yet() -> FsError {
    FsError::new(ErrorKind::Unsupported, "links are not built yet")
}
