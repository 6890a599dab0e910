//! The links of a mount: what each is, its bucket, and what goes on in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::{Mutex, MutexGuard, RwLock};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use weir_object::{Bucket, BucketUrl, Conditions};
use weir_types::{ErrorKind, FsError, Ino, LinkId, Native, Result};

use super::reads::ObjectReads;
use super::views::{Attributes, HeldDeletions, ImportView, LinkOptions, TreeChange};
use crate::data::followed::Moved;
use crate::data::upward::NativeObjects;
use crate::volume::connector::Connector;
use crate::volume::context::blocking;
use crate::volume::locks::{self, Place};

type Watcher = Box<dyn Fn(&TreeChange) + Send + Sync>;

/// A link as the metadata keeps it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct LinkRecord {
    pub(crate) ino: Ino,
    pub(crate) path: String,
    pub(crate) options: LinkOptions,
    pub(crate) imported_unix_ms: Option<i64>,
    /// Which conditions of a PUT its server holds, once it was asked.
    #[serde(default)]
    pub(crate) conditions: Option<Conditions>,
    /// Of a `file://` link which directory it is.
    #[serde(default)]
    pub(crate) root: Option<RootId>,
}

impl LinkRecord {
    /// One of a link that is not made yet.
    pub(crate) fn planned(options: LinkOptions) -> Self {
        let (ino, path, imported_unix_ms, conditions, root) =
            (Ino::ROOT, String::new(), None, None, None);
        Self { ino, path, options, imported_unix_ms, conditions, root }
    }

    pub(crate) fn encode(&self) -> Result<Vec<u8>> {
        serde_json::to_vec(self)
            .map_err(|e| FsError::new(ErrorKind::Bug, "encode a link").with_source(e))
    }

    pub(super) fn decode(id: LinkId, bytes: &[u8]) -> Result<Self> {
        serde_json::from_slice(bytes).map_err(|error| {
            let text = format!("link {id} cannot be read; was it made by a newer weir?");
            FsError::new(ErrorKind::Corrupt, text).with_source(error)
        })
    }
}

/// What goes on in a link.
#[derive(Debug, Default)]
pub(crate) struct LinkState {
    pub(crate) importing: Option<ImportView>,
    pub(crate) import_error: Option<String>,
    pub(crate) conflicts: u64,
    /// Exports of the last pass that failed, and why the last one did.
    pub(crate) export_failed: u64,
    pub(crate) export_error: Option<String>,
    /// Objects that a read found to be others than the metadata says, with the inode it was for.
    pub(super) suspects: BTreeSet<(String, Ino)>,
    /// Deletions that the last import did not do.
    pub(crate) held: Option<HeldDeletions>,
    /// Somebody said that so many may be done.
    pub(crate) confirmed: Option<u64>,
    /// Another directory is at its URL than the one that was.
    pub(crate) root_strange: bool,
    /// An import was asked for.
    pub(super) asked: bool,
    /// When the next poll is due, on the clock that never goes back.
    pub(super) due_ms: u64,
}

impl LinkState {
    /// The import that runs, or that was asked for and is next: whoever waits for what they asked
    /// for sees no end between the two.
    pub(crate) fn importing(&self) -> Option<ImportView> {
        self.importing.clone().or_else(|| self.asked.then(ImportView::default))
    }
}

/// One link.
pub(crate) struct Link {
    pub(crate) id: LinkId,
    record: Mutex<LinkRecord>,
    state: Mutex<LinkState>,
    bucket: OnceLock<Bucket>,
    /// Held by the one import at a time.
    pub(crate) import: locks::Mutex,
    /// Held by the one export pass at a time.
    pub(crate) export: locks::Mutex,
    /// Held by who asks its server what it can do.
    pub(crate) probe: locks::Mutex,
    /// Held by those who import the names of directories that somebody looks into; by the end of
    /// the link alone.
    pub(crate) listings: locks::RwLock,
    sampled: Mutex<Sampled>,
    ending: AtomicBool,
}

/// Whether objects of a link have attributes, as far as that is known.
#[derive(Debug, Default)]
pub(crate) struct Sampled {
    /// Objects looked at.
    pub(crate) objects: usize,
    pub(crate) asks: Option<bool>,
}

impl Link {
    pub(crate) fn record(&self) -> LinkRecord {
        self.record.lock().clone()
    }

    /// Changes what is kept of it; answers all of that, for the metadata.
    pub(crate) fn change_record(&self, change: impl FnOnce(&mut LinkRecord)) -> LinkRecord {
        let mut record = self.record.lock();
        change(&mut record);
        record.clone()
    }

    pub(crate) fn ino(&self) -> Ino {
        self.record.lock().ino
    }

    pub(crate) fn path(&self) -> String {
        self.record().path
    }

    pub(crate) fn state(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock()
    }

    /// An import under way stops soon, and none begins.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    /// Whether names of a directory are imported when somebody looks into it.
    pub(crate) fn is_lazy(&self) -> bool {
        self.record.lock().options.lazy_dirs
    }

    /// Whether attributes are asked for.
    pub(crate) fn attributes(&self) -> Attributes {
        self.record.lock().options.attributes
    }

    pub(crate) fn sampled(&self) -> MutexGuard<'_, Sampled> {
        self.sampled.lock()
    }

    /// Whether anything is exported without being asked for.
    pub(crate) fn exports(&self) -> bool {
        !self.record.lock().options.export.is_none()
    }

    /// Has all of it imported soon.
    pub(crate) fn ask(&self) {
        let mut state = self.state();
        (state.asked, state.due_ms) = (true, 0);
    }

    /// Changes what `weir links` shows of the import.
    pub(crate) fn count(&self, change: impl FnOnce(&mut ImportView)) {
        if let Some(importing) = &mut self.state().importing {
            change(importing);
        }
    }
}

/// Changes that the doors are to be told of.
#[derive(Debug, Default)]
struct Changes {
    /// Nobody began with these.
    waiting: BTreeSet<TreeChange>,
    /// How many are telling the doors of each.
    telling: BTreeMap<TreeChange, usize>,
}

impl Changes {
    fn take(&mut self) -> BTreeSet<TreeChange> {
        let taken = std::mem::take(&mut self.waiting);
        taken.iter().for_each(|change| *self.telling.entry(change.clone()).or_default() += 1);
        taken
    }

    fn told(&mut self, change: &TreeChange) {
        if let Some(count) = self.telling.get_mut(change) {
            *count -= 1;
            if *count == 0 {
                self.telling.remove(change);
            }
        }
    }

    fn untold(&self) -> BTreeSet<TreeChange> {
        self.waiting.iter().chain(self.telling.keys()).cloned().collect()
    }
}

/// All links of a mount.
pub(crate) struct Registry {
    connector: Connector,
    table: RwLock<BTreeMap<LinkId, Arc<Link>>>,
    pub(super) wake: Notify,
    watcher: OnceLock<Watcher>,
    changes: Mutex<Changes>,
    /// Some link is, or was, lazy.
    lazy: AtomicBool,
    pub(crate) reads: ObjectReads,
}

impl Registry {
    pub(crate) fn new(connector: Connector) -> Self {
        let (table, wake, watcher, changes, lazy, reads) = Default::default();
        Self { connector, table, wake, watcher, changes, lazy, reads }
    }

    pub(crate) fn add(&self, id: LinkId, record: LinkRecord) -> Arc<Link> {
        self.lazy.fetch_or(record.options.lazy_dirs, Ordering::AcqRel);
        let link = Arc::new(Link {
            id,
            record: Mutex::new(record),
            state: Mutex::default(),
            bucket: OnceLock::new(),
            import: locks::Mutex::new(Place::LinkImport, id.0.into(), ()),
            export: locks::Mutex::new(Place::LinkExport, id.0.into(), ()),
            probe: locks::Mutex::new(Place::LinkProbe, id.0.into(), ()),
            listings: locks::RwLock::new(Place::LinkListings, id.0.into()),
            sampled: Mutex::default(),
            ending: AtomicBool::new(false),
        });
        self.table.write().insert(id, link.clone());
        link
    }

    pub(crate) fn remove(&self, id: LinkId) {
        self.table.write().remove(&id);
    }

    pub(crate) fn all(&self) -> Vec<Arc<Link>> {
        self.table.read().values().cloned().collect()
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.table.read().is_empty()
    }

    /// Whether names of some directories may not have been imported.
    pub(crate) fn has_lazy(&self) -> bool {
        self.lazy.load(Ordering::Acquire)
    }

    /// Whether any link exports without being asked.
    pub(crate) fn exports(&self) -> bool {
        self.table.read().values().any(|link| link.exports())
    }

    pub(crate) fn get(&self, id: LinkId) -> Result<Arc<Link>> {
        let found = self.table.read().get(&id).cloned();
        found.ok_or_else(|| FsError::new(ErrorKind::NotFound, format!("there is no link {id}")))
    }

    /// The link whose directory is `ino`.
    pub(crate) fn at(&self, ino: Ino) -> Result<Arc<Link>> {
        let none = || {
            let text = "this directory is no link: see `weir links`";
            FsError::new(ErrorKind::NotFound, text)
        };
        self.all().into_iter().find(|link| link.ino() == ino).ok_or_else(none)
    }

    /// Opens the bucket of a link. No request.
    pub(crate) fn connect(&self, record: &LinkRecord) -> Result<Bucket> {
        let options = &record.options;
        let mut connector = self.connector.clone();
        let set = |own: &mut Option<String>, link: &Option<String>| {
            if link.is_some() {
                own.clone_from(link);
            }
        };
        // What is exported is for other tools, and their users.
        connector.options.shared = true;
        set(&mut connector.options.endpoint, &options.endpoint);
        set(&mut connector.options.region, &options.region);
        set(&mut connector.options.profile, &options.profile);
        // Keys of its own are there to be used, also where the volume is read without any.
        let own = &mut connector.options.anonymous;
        *own = options.anonymous || (*own && options.profile.is_none());
        let url: BucketUrl = options.url.parse()?;
        connector.connect(&url)
    }

    /// The bucket of a link. Without one of an older Weir, which knew no roots, it is the directory
    /// that it was.
    pub(crate) fn bucket(&self, id: LinkId) -> Result<Bucket> {
        // Its objects are not there any more, and looking again does not help.
        let gone = |error: FsError| {
            FsError::new(ErrorKind::Conflict, "the link that had the bytes ended")
                .with_source(error)
        };
        let link = self.get(id).map_err(gone)?;
        if let Some(bucket) = link.bucket.get() {
            return Ok(bucket.clone());
        }
        let record = link.record();
        let bucket = self.connect(&record)?;
        if record.root.is_some() && root_of(&record)? != record.root {
            link.state().root_strange = true;
            return Err(strange_root(&record.options.url));
        }
        Ok(link.bucket.get_or_init(|| bucket).clone())
    }

    /// Where an object is.
    pub(crate) fn object_url(&self, native: &Native) -> Option<String> {
        let link = self.get(native.link).ok()?;
        Some(format!("{}/{}", link.record().options.url.trim_end_matches('/'), native.key))
    }

    pub(crate) fn wake(&self) {
        self.wake.notify_one();
    }

    pub(crate) fn watch(&self, watcher: Watcher) {
        let _ = self.watcher.set(watcher);
    }

    /// A name leads elsewhere now: the doors are to be told.
    pub(crate) fn name_changed(&self, dir: Ino, name: &[u8]) {
        let mut changes = self.changes.lock();
        changes.waiting.insert(TreeChange::Name(dir, name.to_vec()));
        changes.waiting.insert(TreeChange::Entries(dir));
    }

    /// Bytes of a file went with its object: the doors are to be told.
    pub(crate) fn bytes_lost(&self, ino: Ino) {
        self.changes.lock().waiting.insert(TreeChange::Bytes(ino));
    }

    /// A file that is open was changed by who writes the volume: the doors are to be told.
    pub(crate) fn file_changed(&self, ino: Ino, moved: Moved) {
        let from = match moved {
            Moved::From(from) => Some(from),
            Moved::Attributes => None,
        };
        self.changes.lock().waiting.insert(TreeChange::File(ino, from));
    }

    /// A directory has new names: the doors are to be told.
    pub(crate) fn names_added(&self, dir: Ino) {
        self.changes.lock().waiting.insert(TreeChange::Entries(dir));
    }

    /// Changes of which some door may not know.
    pub(crate) fn untold(&self) -> Vec<TreeChange> {
        self.changes.lock().untold().into_iter().collect()
    }

    /// Tells the doors of what changed; returns when they know. Where there is none yet it is told later.
    pub(crate) async fn notify_doors(self: &Arc<Self>) {
        if self.watcher.get().is_none() {
            return;
        }
        let changes = self.changes.lock().take();
        if changes.is_empty() {
            return;
        }
        let registry = self.clone();
        let told = blocking(move || {
            if let Some(watcher) = registry.watcher.get() {
                for change in &changes {
                    watcher(change);
                    registry.changes.lock().told(change);
                }
            }
            Ok(())
        });
        if let Err(error) = told.await {
            tracing::warn!(%error, "the doors were not told of changes in a link");
        }
    }
}

impl NativeObjects for Registry {
    fn bucket(&self, link: LinkId) -> Result<Bucket> {
        Registry::bucket(self, link)
    }

    fn object_was_read(&self, link: LinkId, key: &str, bytes: u64) {
        self.reads.note(link, key, bytes);
    }

    fn object_is_another(&self, native: &Native, ino: Ino) {
        if let Ok(link) = self.get(native.link) {
            link.state().suspects.insert((native.key.clone(), ino));
            self.wake();
        }
    }
}

/// Which directory a `file://` link shows: its file system and inode.
pub(super) type RootId = (u64, u64);

/// Which directory a `file://` link shows now.
pub(crate) fn root_of(record: &LinkRecord) -> Result<Option<RootId>> {
    record.options.url.parse::<BucketUrl>()?.directory_id()
}

/// Nothing is done with a directory that is not the link's.
pub(super) fn strange_root(url: &str) -> FsError {
    let text = format!(
        "another directory is at {url} than the one that was linked, and none of its objects is in \
         it: mount what was there; if it is meant to be this one, `weir refresh --confirm`"
    );
    FsError::new(ErrorKind::Retry, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_untold_until_all_who_tell_of_it_have() {
        let (one, other) = (TreeChange::Entries(Ino(5)), TreeChange::Bytes(Ino(7)));
        let mut changes = Changes::default();
        changes.waiting.extend([one.clone(), other.clone()]);
        assert_eq!(changes.take().len(), 2);
        changes.waiting.insert(one.clone());
        assert_eq!(changes.take().len(), 1);
        changes.told(&one);
        assert_eq!(changes.untold().len(), 2, "one more tells of it");
        changes.told(&one);
        assert_eq!(changes.untold().into_iter().collect::<Vec<_>>(), [other]);
    }
}
