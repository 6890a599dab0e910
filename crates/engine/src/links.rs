//! Links: directories of the volume that are bound to a bucket prefix, where one object is one file.
//!
//! An import compares the sorted listing of the bucket with the rows of known objects, and applies
//! the differences; it holds one page of each at a time. Polls, requests and events are imports of
//! all or of some keys.
//!
//! What must always hold:
//! - Bytes of two versions of an object never come together in one file: a changed object becomes a
//!   new inode under the same name, and each GET names the ETag of its inode.
//! - Where both sides changed, the bucket's version has the name and the local one stays beside it.
//! - What was removed or renamed here is not made again by an import, unless the object changed.

mod absorb;
mod apply;
mod attributes;
mod brake;
mod conditions;
mod elsewhere;
mod export;
mod import;
mod lazy;
mod moves;
mod plan;
mod registry;
mod rule;
mod upload;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_object::{BucketUrl, Component, Conditions};
use weir_types::{ErrorKind, FileKind, FsError, Ino, LinkId, Result};

pub use brake::HeldDeletions;
pub use plan::{LinkPlan, PlannedChange, PlannedExport, PlannedExports};
pub(crate) use registry::Link;
use registry::LinkRecord;
pub(crate) use registry::{Links, links_loop};

use crate::engine::{Core, Engine};

/// Files waiting for their export are counted up to this.
const WAITING_MOST: usize = 100_000;

/// A change of the tree that is no door's doing.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TreeChange {
    /// The directory has new entries.
    Entries(Ino),
    /// This name of the directory leads elsewhere, or nowhere.
    Name(Ino, Vec<u8>),
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

    pub(crate) fn is_none(self) -> bool {
        self == Policy::default()
    }
}

impl Engine {
    /// Binds directory `ino`, which must be empty, to a bucket prefix, and starts the first import.
    /// Two commits and one LIST; with exports 4 PUTs and 1 DELETE of an object of our own, which say
    /// what conditions the server holds.
    pub async fn link_bucket(
        &self,
        ino: Ino,
        path: &str,
        options: LinkOptions,
    ) -> Result<LinkView> {
        let core = &self.core;
        core.check_writable()?;
        let url: BucketUrl = options.url.parse()?;
        core.check_apart(&url)?;
        core.check_linkable(ino).await?;
        let path = path.to_owned();
        let mut record = LinkRecord { ino, path, ..LinkRecord::planned(options) };
        record.root = registry::root_of(&record)?;
        let bucket = core.links.connect(&record)?;
        bucket.probe_odd(Component::Link).await?;
        if !record.options.export.is_none() {
            record.conditions = Some(conditions::probe(&bucket).await?);
        }
        let id = core.seen(core.meta.add_link(&record.encode()?).await)?;
        fail::fail_point!("engine::link-added");
        core.place_link(id, &record).await?;
        // From here on it is imported.
        let link = core.links.add(id, record);
        core.links.wake();
        core.link_view(&link).await
    }

    /// Ends a link: files that are nothing but objects go from the tree, those that were made or
    /// changed here stay as files of the volume. The bucket is not touched.
    pub async fn unlink_bucket(&self, ino: Ino) -> Result<LinkView> {
        let core = &self.core;
        core.check_writable()?;
        let link = core.links.at(ino)?;
        link.end();
        // An export may wait for an import, and no import for an export.
        let _exporting = link.export.lock().await;
        let _importing = link.import.lock().await;
        let _listing = link.listings.write().await;
        let view = core.link_view(&link).await?;
        let taken = core.take_apart(&link).await;
        core.tell_doors().await;
        taken?;
        fail::fail_point!("engine::link-apart");
        core.seen(core.meta.remove_link(link.id).await)?;
        core.links.remove(link.id);
        Ok(view)
    }

    /// Whether there are links, and so names that come without a door's doing.
    pub fn has_links(&self) -> bool {
        !self.core.links.is_empty()
    }

    /// All links, by name.
    pub async fn links(&self) -> Result<Vec<LinkView>> {
        let mut views = Vec::new();
        for link in self.core.links.all() {
            views.push(self.core.link_view(&link).await?);
        }
        Ok(views)
    }

    /// Up to `limit` objects of a link that cannot show, by key, after `after`.
    pub async fn hidden_objects(
        &self,
        link: LinkId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HiddenObject>> {
        let after = after.map(unescape);
        let found = self.core.meta.hidden_objects(link, after.as_deref(), limit).await;
        let shown =
            |(key, reason): (Vec<u8>, String)| HiddenObject { key: rule::show(&key), reason };
        Ok(self.core.seen(found)?.into_iter().map(shown).collect())
    }

    /// Imports what changed in the bucket now: all of the link, or, given keys below its URL (from
    /// event notifications), these objects only. All of it goes on in the background; with keys it
    /// returns when they are done.
    pub async fn refresh_link(&self, id: LinkId, keys: Option<Vec<String>>) -> Result<LinkView> {
        let core = &self.core;
        core.check_writable()?;
        let link = core.links.get(id)?;
        match keys {
            Some(keys) => core.import_keys(&link, &keys, Policy::ALL).await?,
            None => {
                link.ask();
                core.links.wake();
            }
        }
        core.link_view(&link).await
    }

    /// Has `watcher` told of changes of the tree that are no door's doing: after an import, say. It
    /// is called on threads that may block, and must not call the engine.
    pub fn watch_tree(&self, watcher: impl Fn(&TreeChange) + Send + Sync + 'static) {
        self.core.links.watch(Box::new(watcher));
    }
}

impl Core {
    /// Refuses a bucket URL that has the volume's own objects in it, or lies among them.
    fn check_apart(&self, url: &BucketUrl) -> Result<()> {
        let inside = |a: &str, b: &str| a == b || a.starts_with(&format!("{b}/"));
        for bucket in self.buckets.iter() {
            let (ours, theirs) = (bucket.url().to_string(), url.to_string());
            let (ours, theirs) = (ours.trim_end_matches('/'), theirs.trim_end_matches('/'));
            if inside(ours, theirs) || inside(theirs, ours) {
                let text = format!(
                    "{url} and the volume's own {ours} lie one in the other: link another prefix"
                );
                return Err(FsError::new(ErrorKind::Invalid, text));
            }
        }
        Ok(())
    }

    /// Refuses what is no empty directory, and directories inside of a link.
    async fn check_linkable(&self, ino: Ino) -> Result<()> {
        let inode = self.stored(ino).await?;
        if inode.kind != FileKind::Directory {
            return Err(FsError::new(ErrorKind::NotDirectory, "only a directory can be a link"));
        }
        let mut above = ino;
        loop {
            if let Ok(link) = self.links.at(above) {
                let text = format!("{} is a link already: links do not nest", link.path());
                return Err(FsError::new(ErrorKind::Exists, text));
            }
            if above == Ino::ROOT {
                break;
            }
            above = self.seen(self.meta.parent(above).await)?;
        }
        if !self.seen(self.meta.readdir(ino, 0, 1).await)?.is_empty() {
            let text = "the directory has entries: link an empty one";
            return Err(FsError::new(ErrorKind::NotEmpty, text));
        }
        Ok(())
    }

    /// A link as it stands. One read round.
    pub(crate) async fn link_view(&self, link: &Link) -> Result<LinkView> {
        let usage = self.seen(self.meta.link_usage(link.id).await)?;
        let waiting = match link.exports() {
            true => self.seen(self.meta.exports_waiting(link.id, WAITING_MOST).await)?,
            false => 0,
        };
        let (record, state) = (link.record(), link.state());
        Ok(LinkView {
            id: link.id,
            ino: record.ino,
            path: record.path,
            options: record.options,
            files: usage.files,
            bytes: usage.bytes,
            hidden: usage.hidden,
            importing: state.importing(),
            imported_unix_ms: record.imported_unix_ms,
            import_error: state.import_error.clone(),
            export_waiting: waiting,
            export_failed: state.export_failed,
            export_error: state.export_error.clone(),
            conflicts: state.conflicts,
            conditions: record.conditions,
            held_deletions: state.held,
        })
    }
}

/// Bytes of a key that was written for people.
fn unescape(shown: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(shown.len());
    let mut rest = shown;
    while let Some(at) = rest.find("\\x") {
        let code = rest.get(at + 2..at + 4).and_then(|hex| u8::from_str_radix(hex, 16).ok());
        let Some(code) = code else { break };
        bytes.extend_from_slice(&rest.as_bytes()[..at]);
        bytes.push(code);
        rest = &rest[at + 4..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}
