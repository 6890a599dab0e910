//! What was renamed here: objects are copied within the bucket, and directories learn where they
//! are.

use std::sync::Arc;

use weir_meta::{ExportCommit, ExportContent, ExportName, ObjectRow};
use weir_object::{Bucket, Component, Copied, ObjectInfo};
use weir_types::{ErrorKind, FileKind, Ino, Inode, Native, Result};

use super::pass::{Exported, Going, condition};
use crate::services::links::exporter::Exporter;
use crate::services::links::registry::Link;
use crate::services::links::views::Policy;

/// Entries of a directory read at once.
const ENTRIES: usize = 1_000;

impl Exporter {
    /// A file that was renamed and not changed: the store copies the object.
    pub(super) async fn move_object(
        self: &Arc<Self>,
        going: &Going<'_>,
        native: &Native,
        there: Option<&ObjectRow>,
    ) -> Result<Exported> {
        let bucket = self.bucket_to_write(going.link).await?;
        let (from, to) = (native.key.as_str(), going.key.as_str());
        let (etag, condition) = (native.etag.as_deref(), condition(there));
        if etag.is_none() && !self.is_as_known(&bucket, native).await? {
            return self.source_changed(going, native).await;
        }
        let node = self.nodes.get(going.inode.ino);
        // While the copy is there and the metadata does not say so, nobody may look at both.
        let object = node.object.lock().await;
        let copied = bucket.copy_object_if(Component::Link, from, etag, to, &condition).await;
        fail::fail_point!("engine::export-copied");
        let found = match copied {
            Ok(Copied::Done(info)) => Some(info),
            // A crash between a copy and its commit leaves one that nothing tells of.
            Ok(Copied::TargetChanged) => self.resolver.find_copy(native, to).await?,
            Ok(Copied::SourceChanged) => {
                drop(object);
                return self.source_changed(going, native).await;
            }
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                drop(object);
                return self.write_object(going, there).await;
            }
            Err(error) => return Err(error),
        };
        if let Some(info) = found {
            return self.commit_move(going, native, info, there).await;
        }
        drop(object);
        self.settle(going, there).await
    }

    /// Whether an object without an ETag has the size and the time that are known of it. One HEAD.
    async fn is_as_known(&self, bucket: &Bucket, native: &Native) -> Result<bool> {
        let key = native.key.as_bytes();
        let row = self.meta.object(native.link, key).await?;
        let found = bucket.head_listed(Component::Link, key).await?;
        Ok(row.zip(found).is_some_and(|(row, found)| {
            let known = (row.object.object_bytes, row.object.modified_ms);
            known == (found.size, found.last_modified_unix_ms)
        }))
    }

    /// The object of a renamed file is another one by now. That is for the import; what we have of
    /// it stays a file of ours.
    async fn source_changed(
        self: &Arc<Self>,
        going: &Going<'_>,
        native: &Native,
    ) -> Result<Exported> {
        let keys = std::slice::from_ref(&native.key);
        self.importer.import_keys(going.link, keys, Policy::ALL).await?;
        if self.meta.inode(going.inode.ino).await?.native.as_ref() == Some(native) {
            // The import knows the object as that of another file.
            self.detacher.detach(going.inode.ino).await?;
        }
        Ok(Exported::Later)
    }

    async fn commit_move(
        &self,
        going: &Going<'_>,
        native: &Native,
        info: ObjectInfo,
        there: Option<&ObjectRow>,
    ) -> Result<Exported> {
        let content = ExportContent::Copied(native.clone());
        let native = Native { key: going.key.clone(), etag: info.etag, ..native.clone() };
        let export = ExportCommit {
            native,
            modified_ms: info.last_modified_unix_ms,
            content,
            row: there.map(|row| row.version),
        };
        let node = self.nodes.get(going.inode.ino);
        let _change = node.change.lock().await;
        self.meta.commit_export(going.inode.ino, &export).await?;
        Ok(Exported::Done)
    }

    /// A directory is somewhere else now: it learns where, and all in it follow.
    pub(super) async fn moved_directory(
        self: &Arc<Self>,
        link: &Arc<Link>,
        inode: &Inode,
        above: &Native,
        key: String,
    ) -> Result<Exported> {
        let key = key + "/";
        let known = inode.native.as_ref().is_some_and(|n| n.link == link.id && n.key == key);
        if known {
            // A crash may have come before its entries were noted.
            return self.export_entries(link, inode.ino).await;
        }
        // Names that are not here yet could not be found any more.
        self.importer.look_into(inode.ino).await?;
        let placed = Native { key, unlisted: false, ..above.clone() };
        let placing = self.meta.change_native(inode.ino, |_| Some(Some(placed.clone())));
        placing.await?;
        fail::fail_point!("engine::directory-placed");
        self.export_entries(link, inode.ino).await
    }

    /// Notes all entries of a directory.
    async fn export_entries(self: &Arc<Self>, link: &Arc<Link>, dir: Ino) -> Result<Exported> {
        let mut cookie = 0;
        loop {
            let page = self.meta.readdir(dir, cookie, ENTRIES).await?;
            let Some(last) = page.last() else { return Ok(Exported::Done) };
            cookie = last.cookie;
            fail::fail_point!("engine::entries-read");
            for entry in page {
                let named = ExportName { dir, name: entry.name };
                self.meta.export_soon(link.id, entry.ino, Some(&named)).await?;
            }
        }
    }

    /// A directory lost the name that was noted: it went on outside of the link, or got another name
    /// while this one was noted.
    pub(super) async fn moved_on(
        self: &Arc<Self>,
        link: &Arc<Link>,
        inode: Inode,
    ) -> Result<Exported> {
        let (dir, ino) = (inode.parent, inode.ino);
        if !self.resolver.is_below(link, dir).await? {
            return self.moved_out(link, inode).await;
        }
        if let Some(name) = self.resolver.name_in(dir, ino).await? {
            let named = ExportName { dir, name };
            self.meta.export_soon(link.id, ino, Some(&named)).await?;
        }
        Ok(Exported::Later)
    }

    /// What was moved out of its link is a file of the volume, and its object is to go.
    pub(super) async fn moved_out(
        self: &Arc<Self>,
        link: &Arc<Link>,
        inode: Inode,
    ) -> Result<Exported> {
        let ours = inode.native.as_ref().is_some_and(|native| native.link == link.id);
        if inode.kind == FileKind::Directory {
            if ours {
                self.importer.look_into(inode.ino).await?;
                self.meta.leave_link(inode.ino, None).await?;
                fail::fail_point!("engine::directory-left");
            }
            // If it left before, a crash may have come before its entries were noted.
            return self.export_entries(link, inode.ino).await;
        }
        if !ours {
            return Ok(Exported::Done);
        }
        if inode.native.as_ref().is_some_and(|native| native.detached && native.lost) {
            // It stays parted, and until it comes back nobody waits for what it lost.
            let unnoted = |inode: &Inode| {
                let native = inode.native.clone().filter(|native| native.detached)?;
                Some(Some(Native { exports: false, ..native }))
            };
            self.detacher.change_native(inode.ino, unnoted).await?;
            return Ok(Exported::Done);
        }
        self.export_from_others(link, &inode).await?;
        self.detacher.leave_link(link, inode.ino).await?;
        Ok(Exported::Done)
    }

    /// Has a file that leaves a link looked for in the others that export, where it may have names.
    async fn export_from_others(&self, left: &Link, inode: &Inode) -> Result<()> {
        // What was moved has its only name where it was moved to.
        let anywhere = inode.nlink > 1 || self.resolver.is_below(left, inode.parent).await?;
        for link in self.registry.all() {
            let exports = link.id != left.id && link.exports();
            if exports && (anywhere || self.resolver.is_below(&link, inode.parent).await?) {
                self.meta.export_soon(link.id, inode.ino, None).await?;
            }
        }
        Ok(())
    }
}
