//! Making, showing and ending links.

use std::sync::Arc;

use weir_object::{BucketUrl, Component};
use weir_types::{ErrorKind, FileKind, FsError, Ino, LinkId, Result};

use super::exporter::conditions::probe;
use super::parts::Links;
use super::registry::{self, Link, LinkRecord};
use super::rule;
use super::views::{HiddenObject, LinkOptions, LinkView, Policy, TreeChange};
use crate::names::past::check_present;

/// Files waiting for their export are counted up to this.
const WAITING_MAX: usize = 100_000;

impl Links {
    /// Binds directory `ino`, which must be empty, to a bucket prefix, and starts the first import.
    /// Two commits and one LIST; with exports 4 PUTs and 1 DELETE of an object of our own, which say
    /// what conditions the server holds.
    pub(crate) async fn link_bucket(
        &self,
        ino: Ino,
        path: &str,
        options: LinkOptions,
    ) -> Result<LinkView> {
        self.context.check_writable()?;
        check_present(&[ino])?;
        let url: BucketUrl = options.url.parse()?;
        self.check_apart(&url)?;
        self.check_linkable(ino).await?;
        let path = path.to_owned();
        let mut record = LinkRecord { ino, path, ..LinkRecord::planned(options) };
        record.root = registry::root_of(&record)?;
        let bucket = self.registry.connect(&record)?;
        bucket.probe_odd(Component::Link).await?;
        if !record.options.export.is_none() {
            record.conditions = Some(probe(&bucket).await?);
        }
        let id = self.meta.add_link(&record.encode()?).await?;
        fail::fail_point!("engine::link-added");
        self.place_link(id, &record).await?;
        // From here on it is imported.
        let link = self.registry.add(id, record);
        self.registry.wake();
        self.link_view(&link).await
    }

    /// Ends a link: files that are nothing but objects go from the tree, those that were made or
    /// changed here stay as files of the volume. The bucket is not touched.
    pub(crate) async fn unlink_bucket(self: &Arc<Self>, ino: Ino) -> Result<LinkView> {
        self.context.check_writable()?;
        let link = self.registry.at(ino)?;
        link.end();
        // An export may wait for an import, and no import for an export.
        let _exporting = link.export.lock().await;
        let _importing = link.import.lock().await;
        let _listing = link.listings.write().await;
        let view = self.link_view(&link).await?;
        let taken = self.take_apart(&link).await;
        self.registry.notify_doors().await;
        taken?;
        fail::fail_point!("engine::link-apart");
        self.meta.remove_link(link.id).await?;
        self.registry.remove(link.id);
        Ok(view)
    }

    /// Whether there are links, and so names that come without a door's doing.
    pub(crate) fn has_links(&self) -> bool {
        !self.registry.is_empty()
    }

    /// All links, by name.
    pub(crate) async fn links(&self) -> Result<Vec<LinkView>> {
        let mut views = Vec::new();
        for link in self.registry.all() {
            views.push(self.link_view(&link).await?);
        }
        Ok(views)
    }

    /// Up to `limit` objects of a link that cannot show, by key, after `after`.
    pub(crate) async fn hidden_objects(
        &self,
        link: LinkId,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Vec<HiddenObject>> {
        let after = after.map(unescape);
        let found = self.meta.hidden_objects(link, after.as_deref(), limit).await;
        let shown =
            |(key, reason): (Vec<u8>, String)| HiddenObject { key: rule::show(&key), reason };
        Ok(found?.into_iter().map(shown).collect())
    }

    /// Imports what changed in the bucket now: all of the link, or, given keys below its URL (from
    /// event notifications), these objects only. All of it goes on in the background; with keys it
    /// returns when they are done.
    pub(crate) async fn refresh_link(
        self: &Arc<Self>,
        id: LinkId,
        keys: Option<Vec<String>>,
    ) -> Result<LinkView> {
        self.context.check_writable()?;
        let link = self.registry.get(id)?;
        match keys {
            Some(keys) => self.importer.import_keys(&link, &keys, Policy::ALL).await?,
            None => {
                link.ask();
                self.registry.wake();
            }
        }
        self.link_view(&link).await
    }

    /// Has `watcher` told of changes of the tree that are no door's doing: after an import, say. It
    /// is called on threads that may block, and must not call the engine.
    pub(crate) fn watch_tree(&self, watcher: impl Fn(&TreeChange) + Send + Sync + 'static) {
        self.registry.watch(Box::new(watcher));
    }

    pub(crate) fn untold_changes(&self) -> Vec<TreeChange> {
        self.registry.untold()
    }

    /// Refuses a bucket URL that has the volume's own objects in it, or lies among them.
    pub(super) fn check_apart(&self, url: &BucketUrl) -> Result<()> {
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
        let inode = self.meta.inode(ino).await?;
        if inode.kind != FileKind::Directory {
            return Err(FsError::new(ErrorKind::NotDirectory, "only a directory can be a link"));
        }
        let mut above = ino;
        loop {
            if let Ok(link) = self.registry.at(above) {
                let text = format!("{} is a link already: links do not nest", link.path());
                return Err(FsError::new(ErrorKind::Exists, text));
            }
            if above == Ino::ROOT {
                break;
            }
            above = self.meta.parent(above).await?;
        }
        if !self.meta.readdir(ino, 0, 1).await?.is_empty() {
            let text = "the directory has entries: link an empty one";
            return Err(FsError::new(ErrorKind::NotEmpty, text));
        }
        Ok(())
    }

    /// A link as it stands. One read round.
    pub(crate) async fn link_view(&self, link: &Link) -> Result<LinkView> {
        let usage = self.meta.link_usage(link.id).await?;
        let waiting = match link.exports() {
            true => self.meta.exports_waiting(link.id, WAITING_MAX).await?,
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
