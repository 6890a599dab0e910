//! The export: what changed here becomes native objects again.
//!
//! What is to be done is noted in the metadata together with the change itself (`weir_meta`'s
//! `ToExport`), so that a pass goes on where the last one, or the last mount, ended. A pass looks
//! what each file is by now and brings the bucket there.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use weir_meta::{ExportCommit, ExportContent, ExportName, ToExport};
use weir_object::Component;
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Native, Result};

use super::Policy;
use super::registry::Link;
use super::rule;
use crate::engine::Core;

/// Files exported at once.
const FILES: usize = 4;
/// Notes read at once.
const PAGE: usize = 100;
/// Entries of a directory read at once.
const ENTRIES: usize = 1_000;

/// How an export ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exported {
    /// Nothing is left to do.
    Done,
    /// Somebody writes the file, or changed it meanwhile.
    Later,
    /// The object is still that of this other file, which must go first.
    After(Ino),
}

/// A file and where it is to go.
pub(super) struct Going<'a> {
    pub(super) link: &'a Arc<Link>,
    pub(super) inode: Inode,
    pub(super) key: String,
    /// It goes whatever the link's policy is.
    pub(super) asked: bool,
}

impl Going<'_> {
    /// The object that the file is now, if it is one of this link.
    pub(super) fn native(&self) -> Option<&Native> {
        let native = self.inode.native.as_ref();
        native.filter(|native| native.link == self.link.id && !native.detached)
    }
}

impl Core {
    /// One pass over all that is to be exported.
    pub(crate) async fn export_due(self: Arc<Self>, link: &Arc<Link>) {
        let _one = link.export.lock().await;
        if self.is_fenced() || link.is_ending() {
            return;
        }
        if let Err(error) = self.export_pass(link).await {
            tracing::warn!(link = %link.id, %error, "the export stopped: it goes on later");
            link.state().export_error = Some(error.to_string());
        }
    }

    async fn export_pass(self: &Arc<Self>, link: &Arc<Link>) -> Result<()> {
        let mut after = None;
        let (mut failed, mut done, mut last_error) = (0, 0, None);
        let mut blocking = None;
        loop {
            let page = self.seen(self.meta.to_export(link.id, after, PAGE).await)?;
            let Some(last) = page.last() else { break };
            after = Some(last.ino);
            let going = page.into_iter().map(|file| {
                let (core, link) = (self.clone(), link.clone());
                async move { core.export_noted(&link, &file).await }.boxed()
            });
            let mut going = stream::iter(going).buffer_unordered(FILES);
            while let Some(result) = going.next().await {
                match result {
                    Ok(Exported::Done) => done += 1,
                    Ok(Exported::Later) => {}
                    Ok(Exported::After(ino)) => blocking = Some(ino),
                    Err(error) if error.kind() == ErrorKind::Fenced => return Err(error),
                    Err(error) => (failed, last_error) = (failed + 1, Some(error.to_string())),
                }
            }
        }
        // Two files that swapped their names wait for each other: one of them gives its object up.
        if let Some(ino) = blocking.filter(|_| done == 0) {
            self.seen(self.meta.leave_link(ino).await)?;
            self.detach_now(ino).await?;
        }
        self.delete_removed(link).await?;
        let mut state = link.state();
        (state.export_failed, state.export_error) = (failed, last_error);
        Ok(())
    }

    /// Exports one file that is noted, and forgets the note.
    async fn export_noted(self: &Arc<Self>, link: &Arc<Link>, file: &ToExport) -> Result<Exported> {
        let exported = self.export_one(link, file.ino, file.name.as_ref(), false).await;
        let exported = exported.inspect_err(|error| {
            tracing::warn!(link = %link.id, ino = %file.ino, %error, "an export failed: tried again");
        })?;
        if exported == Exported::Done {
            self.seen(self.meta.exported(file).await)?;
        }
        Ok(exported)
    }

    /// Exports a file because somebody asked for it. `Conflict` while somebody writes it.
    pub(crate) async fn export_asked(
        self: &Arc<Self>,
        link: &Arc<Link>,
        ino: Ino,
        named: &ExportName,
    ) -> Result<()> {
        let _one = link.export.lock().await;
        match self.export_one(link, ino, Some(named), true).await? {
            Exported::Done => Ok(()),
            _ => {
                let text = "it is being written or renamed: archive it again when that is done";
                Err(FsError::new(ErrorKind::Conflict, text))
            }
        }
    }

    async fn export_one(
        self: &Arc<Self>,
        link: &Arc<Link>,
        ino: Ino,
        named: Option<&ExportName>,
        asked: bool,
    ) -> Result<Exported> {
        let inode = match self.stored(ino).await {
            Ok(inode) if inode.nlink > 0 => inode,
            Ok(_) => return Ok(Exported::Done),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Exported::Done),
            Err(error) => return Err(error),
        };
        let Some((dir, name)) = self.place_of(link, &inode, named).await? else {
            return Ok(Exported::Done);
        };
        if rule::is_conflict(&name) {
            return Ok(Exported::Done);
        }
        let above = self.stored(dir).await?;
        let Some(above) = above.native.filter(|native| native.link == link.id) else {
            return self.moved_out(link, inode).await;
        };
        let key = match std::str::from_utf8(&name) {
            Ok(name) => format!("{}{name}", above.key),
            Err(_) => String::new(),
        };
        if rule::place(key.as_bytes()).is_err() {
            tracing::warn!(link = %link.id, name = %name.escape_ascii(),
                "a file is not exported: its name cannot be a key");
            return Ok(Exported::Done);
        }
        if inode.kind == FileKind::Directory {
            return self.moved_directory(link, &inode, &above, key).await;
        }
        self.export_file(Going { link, inode, key, asked }).await
    }

    /// Where a file is: where it got its name, or where its object says.
    async fn place_of(
        &self,
        link: &Link,
        inode: &Inode,
        named: Option<&ExportName>,
    ) -> Result<Option<(Ino, Vec<u8>)>> {
        if let Some(ExportName { dir, name }) = named
            && let Some(there) = self.entry(*dir, name).await?
            && there.ino == inode.ino
        {
            return Ok(Some((*dir, name.clone())));
        }
        let Some(native) = &inode.native else { return Ok(None) };
        let found = self.name_of(link, native.key.as_bytes(), inode.ino).await?;
        Ok(found.map(|(dir, name, _)| (dir, name)))
    }

    async fn export_file(self: &Arc<Self>, going: Going<'_>) -> Result<Exported> {
        let (link, ino) = (going.link, going.inode.ino);
        let exportable = matches!(going.inode.kind, FileKind::Regular | FileKind::Symlink);
        if !exportable {
            return Ok(Exported::Done);
        }
        let changed = going.inode.kind == FileKind::Regular
            && going.native().is_none_or(|_| self.has_changes(&going.inode));
        if changed && self.nodes.has_writers(ino) {
            return Ok(Exported::Later);
        }
        let there = self.seen(self.meta.object(link.id, going.key.as_bytes()).await)?;
        if let Some(other) = there.as_ref().and_then(|row| row.object.ino).filter(|o| *o != ino) {
            return Ok(Exported::After(other));
        }
        let policy = if going.asked { Policy::ALL } else { link.record().options.export };
        match going.native() {
            Some(native) if !changed && native.key == going.key => Ok(Exported::Done),
            Some(native) if !changed && policy.new => {
                let native = native.clone();
                self.move_object(&going, &native).await
            }
            Some(_) if policy.changed => self.write_object(&going, there.as_ref()).await,
            None if policy.new => self.write_object(&going, there.as_ref()).await,
            _ => Ok(Exported::Done),
        }
    }

    /// A file that was renamed and not changed: the store copies the object.
    async fn move_object(self: &Arc<Self>, going: &Going<'_>, native: &Native) -> Result<Exported> {
        let bucket = self.links.bucket(going.link.id)?;
        let source = bucket.head(Component::Link, &native.key).await;
        let is_same = source.as_ref().is_ok_and(|source| source.etag == native.etag);
        if !is_same {
            // It changed in the bucket: that is for the import, and what we have of it is ours.
            self.import_keys(going.link, std::slice::from_ref(&native.key), Policy::ALL).await?;
            return Ok(Exported::Later);
        }
        let copied = bucket.copy_object(Component::Link, &native.key, &going.key).await;
        let info = match copied {
            Ok(info) => info,
            Err(error) if error.kind() == ErrorKind::Unsupported => {
                return self.write_object(going, None).await;
            }
            Err(error) => return Err(error),
        };
        let native = Native { key: going.key.clone(), etag: info.etag, ..native.clone() };
        let content = ExportContent::Same;
        let modified_ms = info.last_modified_unix_ms;
        let export = ExportCommit { native, modified_ms, content };
        self.seen(self.meta.commit_export(going.inode.ino, &export).await)?;
        Ok(Exported::Done)
    }

    /// A directory is somewhere else now: it learns where, and all in it follow.
    async fn moved_directory(
        self: &Arc<Self>,
        link: &Arc<Link>,
        inode: &Inode,
        above: &Native,
        key: String,
    ) -> Result<Exported> {
        let key = key + "/";
        let known = inode.native.as_ref().is_some_and(|n| n.link == link.id && n.key == key);
        if known {
            return Ok(Exported::Done);
        }
        // Names that are not here yet could not be found any more.
        self.look_into(inode.ino).await?;
        let placed = Native { key, unlisted: false, ..above.clone() };
        let placing = self.meta.change_native(inode.ino, |_| Some(Some(placed.clone())));
        self.seen(placing.await)?;
        self.export_entries(link, inode.ino).await
    }

    /// Notes all entries of a directory.
    async fn export_entries(self: &Arc<Self>, link: &Arc<Link>, dir: Ino) -> Result<Exported> {
        let mut cookie = 0;
        loop {
            let page = self.seen(self.meta.readdir(dir, cookie, ENTRIES).await)?;
            let Some(last) = page.last() else { return Ok(Exported::Done) };
            cookie = last.cookie;
            for entry in page {
                let named = ExportName { dir, name: entry.name };
                self.seen(self.meta.export_soon(link.id, entry.ino, &named).await)?;
            }
        }
    }

    /// What was moved out of its link is a file of the volume, and its object is to go.
    async fn moved_out(self: &Arc<Self>, link: &Arc<Link>, inode: Inode) -> Result<Exported> {
        let ours = inode.native.as_ref().is_some_and(|n| n.link == link.id && !n.detached);
        if inode.kind == FileKind::Directory {
            if ours {
                self.look_into(inode.ino).await?;
                self.seen(self.meta.leave_link(inode.ino).await)?;
                return self.export_entries(link, inode.ino).await;
            }
        } else if ours {
            self.seen(self.meta.leave_link(inode.ino).await)?;
            self.detach_now(inode.ino).await?;
        }
        Ok(Exported::Done)
    }

    /// Deletes objects whose files are gone, if that is exported, and if they still are what the
    /// files were.
    async fn delete_removed(self: &Arc<Self>, link: &Arc<Link>) -> Result<()> {
        let policy = link.record().options.export;
        let bucket = self.links.bucket(link.id)?;
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.meta.removed_objects(link.id, after.as_deref(), PAGE).await;
            let page = self.seen(page)?;
            for key in &page {
                let row = self.seen(self.meta.object(link.id, key).await)?;
                let known = row.filter(|row| row.object.removed && policy.deleted);
                let Some((row, text)) = known.zip(std::str::from_utf8(key).ok()) else {
                    self.seen(self.meta.object_deleted(link.id, key, false).await)?;
                    continue;
                };
                let gone = match bucket.head(Component::Link, text).await {
                    Ok(there) if there.etag == row.object.etag => {
                        bucket.delete(Component::Link, text).await?;
                        true
                    }
                    // Another object by now: the import shows it.
                    Ok(_) => false,
                    Err(error) if error.kind() == ErrorKind::NotFound => true,
                    Err(error) => return Err(error),
                };
                self.seen(self.meta.object_deleted(link.id, key, gone).await)?;
            }
            match page.last() {
                Some(last) if page.len() == PAGE => after = Some(last.clone()),
                _ => return Ok(()),
            }
        }
    }
}
