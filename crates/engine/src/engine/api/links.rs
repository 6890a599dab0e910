//! Linked buckets.

use weir_types::{Ino, LinkId, Result};

use crate::engine::Engine;
use crate::services::links::{
    HeldDeletions, HiddenObject, LinkOptions, LinkPlan, LinkView, PlannedExports, TreeChange,
};
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// Binds directory `ino`, which must be empty, to a bucket prefix, and starts the first import.
    /// Two commits and one LIST; with exports 4 PUTs and 1 DELETE of an object of our own, which say
    /// what conditions the server holds.
    pub fn link_bucket<'a>(
        &'a self,
        ino: Ino,
        path: &'a str,
        options: LinkOptions,
    ) -> Boxed<'a, Result<LinkView>> {
        boxed(self.links.link_bucket(ino, path, options))
    }

    /// Ends a link: files that are nothing but objects go from the tree, those that were made or
    /// changed here stay as files of the volume. The bucket is not touched.
    pub fn unlink_bucket(&self, ino: Ino) -> Boxed<'_, Result<LinkView>> {
        boxed(self.links.unlink_bucket(ino))
    }

    /// Whether there are links, and so names that come without a door's doing.
    pub fn has_links(&self) -> bool {
        self.links.has_links()
    }

    /// All links, by name.
    pub fn links(&self) -> Boxed<'_, Result<Vec<LinkView>>> {
        boxed(self.links.links())
    }

    /// Up to `limit` objects of a link that cannot show, by key, after `after`.
    pub fn hidden_objects<'a>(
        &'a self,
        link: LinkId,
        after: Option<&'a str>,
        limit: usize,
    ) -> Boxed<'a, Result<Vec<HiddenObject>>> {
        boxed(self.links.hidden_objects(link, after, limit))
    }

    /// Imports what changed in the bucket now: all of the link, or, given keys below its URL (from
    /// event notifications), these objects only. All of it goes on in the background; with keys it
    /// returns when they are done.
    pub fn refresh_link(
        &self,
        id: LinkId,
        keys: Option<Vec<String>>,
    ) -> Boxed<'_, Result<LinkView>> {
        boxed(self.links.refresh_link(id, keys))
    }

    /// Has `watcher` told of changes of the tree that are no door's doing: after an import, say. It
    /// is called on threads that may block, and must not call the engine.
    pub fn watch_tree(&self, watcher: impl Fn(&TreeChange) + Send + Sync + 'static) {
        self.links.watch_tree(watcher);
    }

    /// Changes of the tree of which whoever watches it may not know yet.
    pub fn untold_changes(&self) -> Vec<TreeChange> {
        self.links.untold_changes()
    }

    /// Links of which deletions are held, by path.
    pub fn held_deletions(&self) -> Vec<(String, HeldDeletions)> {
        self.links.held_deletions()
    }

    /// Lets the next import remove as many files as the last one held, and takes the directory of a
    /// `file://` link for what it is by now; imports all of the link.
    pub fn confirm_link(&self, id: weir_types::LinkId) -> Boxed<'_, Result<LinkView>> {
        boxed(self.links.confirm_link(id))
    }

    /// What a link of these options would show, and what it would ask for. LISTs only: as many as
    /// its first import.
    pub fn plan_link(&self, options: LinkOptions) -> Boxed<'_, Result<LinkPlan>> {
        boxed(self.links.plan_link(options))
    }

    /// What of a link waits for its export, up to `limit` changes. A read round or more for each.
    pub fn planned_exports(&self, id: LinkId, limit: usize) -> Boxed<'_, Result<PlannedExports>> {
        boxed(self.links.exporter.planned_exports(id, limit))
    }
}
