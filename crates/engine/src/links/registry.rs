//! The links of a mount: what each is, its bucket, and what goes on in it.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard, RwLock};
use serde::{Deserialize, Serialize};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use weir_object::{Bucket, BucketUrl, Component, Conditions, is_same_etag};
use weir_types::{ErrorKind, FsError, Ino, Inode, LinkId, Native, Result};

use super::brake::{HeldDeletions, RootId, strange_root};
use super::{Attributes, ImportView, LinkOptions, Policy, TreeChange};
use crate::background::blocking;
use crate::engine::Core;
use crate::volume::Connector;

/// How often it is looked whether a poll is due.
const LOOK: Duration = Duration::from_secs(1);
/// Rest after an import that failed, in milliseconds.
const FAILED_REST_MS: u64 = 30_000;

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

    fn decode(id: LinkId, bytes: &[u8]) -> Result<Self> {
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
    suspects: BTreeSet<(String, Ino)>,
    /// Deletions that the last import did not do.
    pub(crate) held: Option<HeldDeletions>,
    /// Somebody said that so many may be done.
    pub(crate) confirmed: Option<u64>,
    /// Another directory is at its URL than the one that was.
    pub(crate) root_strange: bool,
    /// An import was asked for.
    asked: bool,
    /// When the next poll is due, on the clock that never goes back.
    due_ms: u64,
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
    pub(crate) import: tokio::sync::Mutex<()>,
    /// Held by the one export pass at a time.
    pub(crate) export: tokio::sync::Mutex<()>,
    /// Held by who asks its server what it can do.
    pub(crate) probe: tokio::sync::Mutex<()>,
    /// Held by those who import the names of directories that somebody looks into; by the end of
    /// the link alone.
    pub(crate) listings: tokio::sync::RwLock<()>,
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

/// All links of a mount.
pub(crate) struct Links {
    connector: Connector,
    table: RwLock<BTreeMap<LinkId, Arc<Link>>>,
    wake: Notify,
    watcher: OnceLock<Watcher>,
    /// Changes that the doors were not told of yet.
    changes: Mutex<BTreeSet<TreeChange>>,
    /// Some link is, or was, lazy.
    lazy: AtomicBool,
}

impl Links {
    pub(crate) fn new(connector: Connector) -> Self {
        let (table, wake, watcher, changes, lazy) = Default::default();
        Self { connector, table, wake, watcher, changes, lazy }
    }

    pub(crate) fn add(&self, id: LinkId, record: LinkRecord) -> Arc<Link> {
        self.lazy.fetch_or(record.options.lazy_dirs, Ordering::AcqRel);
        let link = Arc::new(Link {
            id,
            record: Mutex::new(record),
            state: Mutex::default(),
            bucket: OnceLock::new(),
            import: tokio::sync::Mutex::default(),
            export: tokio::sync::Mutex::default(),
            probe: tokio::sync::Mutex::default(),
            listings: tokio::sync::RwLock::default(),
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

    /// A read found that the object is not what the metadata says.
    pub(crate) fn object_is_another(&self, native: &Native, ino: Ino) {
        if let Ok(link) = self.get(native.link) {
            link.state().suspects.insert((native.key.clone(), ino));
            self.wake();
        }
    }

    pub(crate) fn watch(&self, watcher: Watcher) {
        let _ = self.watcher.set(watcher);
    }

    /// A name leads elsewhere now: the doors are to be told.
    pub(crate) fn name_changed(&self, dir: Ino, name: &[u8]) {
        let mut changes = self.changes.lock();
        changes.insert(TreeChange::Name(dir, name.to_vec()));
        changes.insert(TreeChange::Entries(dir));
    }

    /// A directory has new names: the doors are to be told.
    pub(crate) fn names_added(&self, dir: Ino) {
        let mut changes = self.changes.lock();
        changes.insert(TreeChange::Entries(dir));
    }
}

/// Which directory a `file://` link shows now.
pub(crate) fn root_of(record: &LinkRecord) -> Result<Option<RootId>> {
    record.options.url.parse::<BucketUrl>()?.directory_id()
}

impl Core {
    /// The link that a file belongs to: that of its object, or of its directory. One read.
    pub(crate) async fn link_of(&self, inode: &Inode) -> Result<Option<Arc<Link>>> {
        if self.links.is_empty() {
            return Ok(None);
        }
        if let Some(native) = inode.native.as_ref().filter(|native| !native.detached) {
            return Ok(self.links.get(native.link).ok());
        }
        let above = match self.stored(inode.parent).await {
            Ok(above) => above.native,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(above.and_then(|native| self.links.get(native.link).ok()))
    }

    /// The link that a file lies in; of one with several names, or outside of links, the one that
    /// it belongs to. One read for each directory above.
    pub(crate) async fn link_where_it_is(&self, inode: &Inode) -> Result<Option<Arc<Link>>> {
        let mut at = inode.parent;
        while inode.nlink == 1 && !self.links.is_empty() {
            if let Ok(link) = self.links.at(at) {
                return Ok(Some(link));
            }
            if at == Ino::ROOT {
                break;
            }
            at = self.seen(self.meta.parent(at).await)?;
        }
        self.link_of(inode).await
    }

    /// Takes up the links that the metadata has.
    pub(crate) async fn load_links(&self) -> Result<()> {
        for (id, bytes) in self.meta.links().await? {
            match LinkRecord::decode(id, &bytes) {
                Ok(record) => {
                    if !self.read_only {
                        self.place_link(id, &record).await?;
                    }
                    self.links.add(id, record);
                }
                Err(error) => tracing::error!(%error, "a link is left alone"),
            }
        }
        Ok(())
    }

    /// Tells the doors of what changed; returns when they know.
    pub(crate) async fn tell_doors(self: &Arc<Self>) {
        let changes = &self.links.changes;
        let changes = std::mem::take(&mut *changes.lock());
        if changes.is_empty() || self.links.watcher.get().is_none() {
            return;
        }
        let core = self.clone();
        let told = blocking(move || {
            if let Some(watcher) = core.links.watcher.get() {
                changes.iter().for_each(watcher);
            }
            Ok(())
        });
        if let Err(error) = told.await {
            tracing::warn!(%error, "the doors were not told of changes in a link");
        }
    }

    /// Has the directory of a link know that it is one.
    pub(crate) async fn place_link(&self, id: LinkId, record: &LinkRecord) -> Result<()> {
        let options = &record.options;
        let exports = !options.export.is_none();
        let root = Native::directory(id, String::new(), exports, options.lazy_dirs);
        let placed = self
            .meta
            .change_native(record.ino, |inode| inode.native.is_none().then(|| Some(root.clone())));
        match self.seen(placed.await) {
            // Removed with a parent of it, somehow: the link is empty.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            placed => placed.map(drop),
        }
    }

    /// Notes that all of a link was imported.
    pub(crate) async fn imported(&self, link: &Link) -> Result<()> {
        if link.record().imported_unix_ms.is_none() {
            self.warn_of_polls(link).await?;
        }
        let now = Some(self.unix_ms().cast_signed());
        let root = root_of(&link.record())?;
        let record = link.change_record(|record| {
            record.imported_unix_ms = now;
            // Of a link of an older Weir.
            record.root = record.root.or(root);
        });
        self.seen(self.meta.set_link(link.id, &record.encode()?).await)
    }

    /// Which import of the link is due, if one is.
    fn due_import(&self, link: &Link) -> Option<Policy> {
        let record = link.record();
        let now_ms = self.now_ms();
        let mut state = link.state();
        if link.is_ending() || state.importing.is_some() {
            return None;
        }
        let first = record.imported_unix_ms.is_none();
        let polls = !record.options.import.is_none();
        let policy = match () {
            () if now_ms < state.due_ms => return None,
            () if std::mem::take(&mut state.asked) => Policy::ALL,
            () if first => Policy::ALL,
            () if polls => record.options.import,
            () => return None,
        };
        state.due_ms = now_ms + record.options.poll_s.max(1) * 1_000;
        state.importing =
            Some(ImportView { since_unix_ms: self.unix_ms().cast_signed(), ..Default::default() });
        Some(policy)
    }
}

/// Imports what is due, one import of a link at a time, and looks at objects that reads found to be
/// others than they should be.
pub(crate) async fn links_loop(core: Arc<Core>) {
    let mut tasks = JoinSet::new();
    loop {
        let _ = tokio::time::timeout(LOOK, core.links.wake.notified()).await;
        while tasks.try_join_next().is_some() {}
        for link in core.links.all() {
            let suspects = std::mem::take(&mut link.state().suspects);
            if !suspects.is_empty() {
                let (core, link) = (core.clone(), link.clone());
                tasks.spawn(async move { core.look_at_suspects(&link, suspects).await });
            }
            if link.state().root_strange {
                let (core, link) = (core.clone(), link.clone());
                tasks.spawn(async move {
                    if let Err(error) = core.recognise_root(&link).await {
                        tracing::debug!(link = %link.id, %error, "a directory is not known again");
                    }
                });
            }
            if link.exports() && link.export.try_lock().is_ok() {
                let (core, link) = (core.clone(), link.clone());
                tasks.spawn(async move { core.export_due(&link).await });
            }
            if let Some(policy) = core.due_import(&link) {
                let core = core.clone();
                tasks.spawn(async move { core.import_due(&link, policy).await });
            }
        }
    }
}

impl Core {
    async fn import_due(self: Arc<Self>, link: &Arc<Link>, policy: Policy) {
        let result = self.import(link, policy).await;
        let mut state = link.state();
        state.importing = None;
        state.import_error = result.as_ref().err().map(ToString::to_string);
        if result.is_ok() {
            state.confirmed = None;
        }
        if let Err(error) = result {
            state.due_ms = self.now_ms() + FAILED_REST_MS;
            state.asked |= policy == Policy::ALL;
            tracing::warn!(link = %link.id, %error, "an import failed: tried again");
        }
    }

    /// Marks a file whose object really is another one, or none.
    async fn mark_lost(&self, link: &Link, key: &str, ino: Ino) -> Result<()> {
        let bucket = self.links.bucket(link.id)?;
        let etag = match bucket.head(Component::Link, key).await {
            Ok(info) => info.etag,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let lost = |inode: &Inode| {
            let same = |native: &Native| is_same_etag(native.etag.as_deref(), etag.as_deref());
            let native = inode.native.clone().filter(|n| n.key == key && !same(n))?;
            Some(Some(Native { lost: true, ..native })).filter(|_| !native.lost)
        };
        self.change_native(ino, lost).await.map(drop)
    }

    async fn look_at_suspects(
        self: &Arc<Self>,
        link: &Arc<Link>,
        suspects: BTreeSet<(String, Ino)>,
    ) {
        let policy = link.record().options.import;
        let (keys, inos): (Vec<_>, Vec<_>) = suspects.into_iter().unzip();
        for (key, ino) in keys.iter().zip(inos) {
            if let Err(error) = self.mark_lost(link, key, ino).await {
                tracing::debug!(%ino, %error, "a file whose object changed was not marked");
            }
        }
        if policy.is_none() {
            return;
        }
        if let Err(error) = self.import_keys(link, &keys, policy).await {
            tracing::warn!(link = %link.id, %error, "changed objects were not imported");
        }
    }
}
