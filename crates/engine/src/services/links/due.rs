//! Which imports and exports are due, and having them done.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use weir_object::{Component, is_same_etag};
use weir_types::{ErrorKind, Ino, Inode, LinkId, Native, Result};

use super::parts::Links;
use super::registry::{Link, LinkRecord, root_of};
use super::views::{ImportView, Policy};
use crate::volume::context::blocking;

/// How often it is looked whether a poll is due.
const LOOK: Duration = Duration::from_secs(1);
/// Rest after an import that failed, in milliseconds.
const FAILED_REST_MS: u64 = 30_000;

impl Links {
    /// The link that a file belongs to: that of its object, or of its directory. One read.
    pub(crate) async fn link_of(&self, inode: &Inode) -> Result<Option<Arc<Link>>> {
        if self.registry.is_empty() {
            return Ok(None);
        }
        if let Some(native) = inode.native.as_ref().filter(|native| !native.detached) {
            return Ok(self.registry.get(native.link).ok());
        }
        let above = match self.meta.inode(inode.parent).await {
            Ok(above) => above.native,
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(above.and_then(|native| self.registry.get(native.link).ok()))
    }

    /// The link that a file in `dir` lies in; of one with several names, or outside of links, the
    /// one that it belongs to. The directory that its inode names may be that of a name that went.
    /// One read for each directory above.
    pub(crate) async fn link_where_it_is(
        &self,
        inode: &Inode,
        dir: Ino,
    ) -> Result<Option<Arc<Link>>> {
        let mut at = dir;
        while inode.nlink == 1 && !self.registry.is_empty() {
            if let Ok(link) = self.registry.at(at) {
                return Ok(Some(link));
            }
            if at == Ino::ROOT {
                break;
            }
            at = self.meta.parent(at).await?;
        }
        self.link_of(inode).await
    }

    /// Takes up the links that the metadata has.
    pub(crate) async fn load_links(&self) -> Result<()> {
        for (id, bytes) in self.meta.links().await? {
            match LinkRecord::decode(id, &bytes) {
                Ok(record) => {
                    if !self.context.read_only {
                        self.place_link(id, &record).await?;
                    }
                    self.registry.add(id, record);
                }
                Err(error) => tracing::error!(%error, "a link is left alone"),
            }
        }
        Ok(())
    }

    /// Tells the doors of what changed; returns when they know.
    pub(crate) async fn notify_doors(self: &Arc<Self>) {
        let changes = &self.registry.changes;
        let changes = std::mem::take(&mut *changes.lock());
        if changes.is_empty() || self.registry.watcher.get().is_none() {
            return;
        }
        let links = self.clone();
        let told = blocking(move || {
            if let Some(watcher) = links.registry.watcher.get() {
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
        match placed.await {
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
        let now = Some(self.context.unix_ms().cast_signed());
        let root = root_of(&link.record())?;
        let record = link.change_record(|record| {
            record.imported_unix_ms = now;
            // Of a link of an older Weir.
            record.root = record.root.or(root);
        });
        self.meta.set_link(link.id, &record.encode()?).await
    }

    /// Which import of the link is due, if one is.
    fn due_import(&self, link: &Link) -> Option<Policy> {
        let record = link.record();
        let now_ms = self.context.now_ms();
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
        state.importing = Some(ImportView {
            since_unix_ms: self.context.unix_ms().cast_signed(),
            ..Default::default()
        });
        Some(policy)
    }
}

/// Imports what is due, one import of a link at a time, and looks at objects that reads found to be
/// others than they should be.
pub(crate) async fn links_loop(links: Arc<Links>) {
    let mut tasks = JoinSet::new();
    loop {
        let _ = tokio::time::timeout(LOOK, links.registry.wake.notified()).await;
        while tasks.try_join_next().is_some() {}
        for link in links.registry.all() {
            let suspects = std::mem::take(&mut link.state().suspects);
            if !suspects.is_empty() {
                let (links, link) = (links.clone(), link.clone());
                tasks.spawn(async move { links.look_at_suspects(&link, suspects).await });
            }
            if link.state().root_strange {
                let (links, link) = (links.clone(), link.clone());
                tasks.spawn(async move {
                    if let Err(error) = links.recognise_root(&link).await {
                        tracing::debug!(link = %link.id, %error, "a directory is not known again");
                    }
                });
            }
            if link.exports() && link.export.try_lock().is_ok() {
                let (links, link) = (links.clone(), link.clone());
                tasks.spawn(async move { links.export_due(&link).await });
            }
            if let Some(policy) = links.due_import(&link) {
                let links = links.clone();
                tasks.spawn(async move { links.import_due(&link, policy).await });
            }
        }
    }
}

impl Links {
    async fn import_due(self: Arc<Self>, link: &Arc<Link>, policy: Policy) {
        let result = self.import(link, policy).await;
        let mut state = link.state();
        state.importing = None;
        state.import_error = result.as_ref().err().map(ToString::to_string);
        if result.is_ok() {
            state.confirmed = None;
        }
        if let Err(error) = result {
            state.due_ms = self.context.now_ms() + FAILED_REST_MS;
            state.asked |= policy == Policy::ALL;
            tracing::warn!(link = %link.id, %error, "an import failed: tried again");
        }
    }

    /// Marks a file whose object really is another one, or none.
    async fn mark_lost(&self, link: &Link, key: &str, ino: Ino) -> Result<()> {
        let bucket = self.registry.bucket(link.id)?;
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
