//! The export: what changed here becomes native objects again.
//!
//! What is to be done is noted in the metadata together with the change itself (`weir_meta`'s
//! `ToExport`), so that a pass goes on where the last one, or the last mount, ended. A pass looks
//! what each file is by now and brings the bucket there.

use std::sync::Arc;

use futures::{FutureExt, StreamExt, stream};
use weir_meta::{ExportName, ObjectRow, ToExport};
use weir_object::{Component, PutCondition};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Native, Result};

use crate::services::links::exporter::Exporter;
use crate::services::links::registry::Link;
use crate::services::links::rule;
use crate::services::links::views::Policy;
use crate::volume::locks::apart;

/// Files exported at once.
const FILES: usize = 4;
/// Notes read at once.
const PAGE: usize = 100;

/// How an export ended that did not fail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Exported {
    /// Nothing is left to do.
    Done,
    /// Somebody writes the file, or changed it meanwhile.
    Later,
    /// The object is still that of this other file, which must go first.
    After(Ino),
    /// It has other names than those that are known, or none in this link.
    Unplaced,
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

impl Exporter {
    /// One pass over all that is to be exported.
    pub(crate) async fn export_due(self: &Arc<Self>, link: &Arc<Link>) {
        let _export = link.export.lock().await;
        if self.context.is_fenced() || link.is_ending() {
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
        let (mut blocking, mut unplaced) = (None, Vec::new());
        loop {
            let page = self.meta.to_export(link.id, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.ino);
            // After a power cut the notes must be there: what they are about may be overwritten now.
            self.meta.sync().await?;
            let going = page.into_iter().map(|file| {
                let (links, link) = (self.clone(), link.clone());
                apart(async move { (links.export_noted(&link, &file).await, file) }).boxed()
            });
            let mut going = stream::iter(going).buffer_unordered(FILES);
            while let Some((result, file)) = going.next().await {
                match result {
                    Ok(Exported::Done) => done += 1,
                    Ok(Exported::Later) => {}
                    Ok(Exported::After(ino)) => blocking = Some(ino),
                    Ok(Exported::Unplaced) => unplaced.push(file),
                    Err(error) if error.kind() == ErrorKind::Fenced => return Err(error),
                    Err(error) => (failed, last_error) = (failed + 1, Some(error.to_string())),
                }
            }
        }
        done += self.place_by_other_names(link, unplaced).await?;
        // Two files that swapped their names wait for each other: one of them gives its object up.
        if let Some(ino) = blocking.filter(|_| done == 0) {
            self.detacher.leave_link(link, ino).await?;
        }
        self.delete_removed(link).await?;
        let mut state = link.state();
        (state.export_failed, state.export_error) = (failed, last_error);
        Ok(())
    }

    /// Exports one file that is noted, and forgets the note.
    async fn export_noted(self: &Arc<Self>, link: &Arc<Link>, file: &ToExport) -> Result<Exported> {
        let exported = self.export_one(link, file.ino, file.name.as_ref(), false).await;
        let exported = match exported {
            Err(error) if error.kind() == ErrorKind::Conflict => {
                self.bytes_went(link, file, error).await
            }
            exported => exported,
        };
        let exported = exported.inspect_err(|error| {
            tracing::warn!(link = %link.id, ino = %file.ino, %error, "an export failed: tried again");
        })?;
        if exported == Exported::Done {
            fail::fail_point!("engine::export-done");
            self.meta.exported(file).await?;
        }
        Ok(exported)
    }

    /// Bytes of a file that are not here went with the object that they were in. Who has the name is
    /// for the import to settle; a file that was parted from its object stays as it is.
    async fn bytes_went(
        self: &Arc<Self>,
        link: &Arc<Link>,
        file: &ToExport,
        error: FsError,
    ) -> Result<Exported> {
        // An import came between, and the next pass sees what it did.
        let inode = self.meta.inode(file.ino).await?;
        let Some(native) = inode.native.clone() else { return Ok(Exported::Later) };
        if native.link == link.id && !native.detached {
            let key = native.key.clone();
            if self.adopt_upload(Going { link, inode, key, asked: false }, &native).await? {
                return Ok(Exported::Later);
            }
            self.importer.import_keys(link, &[native.key], Policy::ALL).await?;
            return Err(error);
        }
        let linked = self.registry.get(native.link).is_ok();
        if !native.lost {
            if !linked {
                // Nothing says that its bytes are lost, only that its link is not known.
                return Err(error);
            }
            self.detacher.detach(file.ino).await?;
            return Ok(Exported::Later);
        }
        // No note is to outlive its link.
        if linked && !native.exports {
            // It came back: what is written to it may be what it lost.
            let noted = |inode: &Inode| {
                let native = inode.native.clone().filter(|native| native.detached)?;
                Some(Some(Native { exports: true, ..native }))
            };
            self.detacher.change_native(file.ino, noted).await?;
        }
        tracing::warn!(link = %link.id, ino = %file.ino,
            "a file is not exported: bytes of it went with the object that it was");
        Ok(Exported::Done)
    }

    /// Exports a file because somebody asked for it. `false`: it is none that can be exported.
    /// `Conflict` while somebody writes it.
    pub(crate) async fn export_asked(
        self: &Arc<Self>,
        link: &Arc<Link>,
        ino: Ino,
        named: &ExportName,
    ) -> Result<bool> {
        let _export = link.export.lock().await;
        match self.export_one(link, ino, Some(named), true).await? {
            Exported::Done | Exported::Unplaced => {
                let native = self.meta.inode(ino).await?.native;
                Ok(native.is_some_and(|n| !n.changed && !n.lost && !n.detached))
            }
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
        let inode = match self.meta.inode(ino).await {
            Ok(inode) if inode.nlink > 0 => inode,
            Ok(_) => return Ok(Exported::Done),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Exported::Done),
            Err(error) => return Err(error),
        };
        let is_dir = inode.kind == FileKind::Directory;
        let Some((dir, name)) = self.resolver.place_of(link, &inode, named).await? else {
            return match is_dir {
                true => self.moved_on(link, inode).await,
                false => Ok(Exported::Unplaced),
            };
        };
        let above = match asked {
            true => self.resolver.placed_now(link, dir).await?,
            false => self.meta.inode(dir).await?.native.filter(|native| native.link == link.id),
        };
        let Some(above) = above.filter(|_| is_dir || !rule::is_conflict(&name)) else {
            // Who lost a conflict left the link, too.
            return match other_name(&inode) {
                Exported::Done if !asked => self.moved_out(link, inode).await,
                other => Ok(other),
            };
        };
        let key = self.resolver.key_of(link, &inode, &above, (dir, &name)).await?;
        match key {
            // Nothing in a directory whose name cannot be in a key can have one.
            key if is_dir => {
                let key = key.unwrap_or_else(|| above.key.clone());
                self.moved_directory(link, &inode, &above, key).await
            }
            None => {
                tracing::warn!(link = %link.id, name = %name.escape_ascii(),
                    "a name cannot be a key: the file is exported if it has another");
                Ok(other_name(&inode))
            }
            Some(key) => self.export_file(Going { link, inode, key, asked }).await,
        }
    }

    async fn export_file(self: &Arc<Self>, going: Going<'_>) -> Result<Exported> {
        let (link, ino) = (going.link, going.inode.ino);
        let exportable = matches!(going.inode.kind, FileKind::Regular | FileKind::Symlink);
        if !exportable {
            return Ok(Exported::Done);
        }
        // What was lost may be here whole: that is for somebody to say.
        let lost = going.asked && going.native().is_some_and(|native| native.lost);
        let changed = going.inode.kind == FileKind::Regular
            && going.native().is_none_or(|_| lost || self.detacher.has_changes(&going.inode));
        if changed && self.nodes.has_writers(ino) {
            return Ok(Exported::Later);
        }
        let there = self.meta.object(link.id, going.key.as_bytes()).await?;
        if let Some(other) = there.as_ref().and_then(|row| row.object.ino).filter(|o| *o != ino)
            && self.has_object(link, other, &going.key).await?
        {
            return Ok(Exported::After(other));
        }
        fail::fail_point!("engine::export-begun");
        let policy = if going.asked { Policy::ALL } else { link.record().options.export };
        match going.native() {
            Some(native) if !changed && native.key == going.key => Ok(Exported::Done),
            Some(native) if !changed && policy.new => {
                let native = native.clone();
                self.move_object(&going, &native, there.as_ref()).await
            }
            Some(_) if policy.changed => self.write_object(&going, there.as_ref()).await,
            // A new file in the place of one that was an object, as editors make them.
            None if policy.new || (there.is_some() && policy.changed) => {
                self.write_object(&going, there.as_ref()).await
            }
            _ => Ok(Exported::Done),
        }
    }

    /// Whether the object of this key is that of a file.
    async fn has_object(&self, link: &Link, ino: Ino, key: &str) -> Result<bool> {
        let native = match self.meta.inode(ino).await {
            // One that a lazy link has a row for is no file, and gives no object up.
            Ok(inode) => inode.native.filter(|_| inode.kind != FileKind::Directory),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        Ok(native.is_some_and(|n| n.link == link.id && n.key == key && !n.detached))
    }

    /// Deletes objects whose files are gone, if that is exported, and if they still are what the
    /// files were.
    async fn delete_removed(self: &Arc<Self>, link: &Arc<Link>) -> Result<()> {
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.meta.removed_objects(link.id, after.as_deref(), PAGE).await;
            let page = page?;
            let Some(last) = page.last() else { return Ok(()) };
            after = Some(last.clone());
            // That the files are gone must outlive a power cut, and nobody else may be the writer.
            self.meta.sync().await?;
            for key in &page {
                if let Err(error) = self.delete_object(link, key).await {
                    tracing::warn!(link = %link.id, key = %rule::show(key), %error,
                        "an object was not deleted: tried again");
                    link.state().export_error = Some(error.to_string());
                }
            }
        }
    }

    async fn delete_object(self: &Arc<Self>, link: &Arc<Link>, key: &[u8]) -> Result<()> {
        let policy = link.record().options.export;
        let row = self.meta.object(link.id, key).await?;
        let known = row.filter(|row| row.object.removed && policy.deleted);
        let Some((row, text)) = known.zip(std::str::from_utf8(key).ok()) else {
            return self.meta.object_deleted(link.id, key, false).await;
        };
        if let Some(ino) = self.resolver.named_as(link, key).await? {
            // A new file has its name: that will be the object.
            if self.meta.is_to_export(link.id, ino).await? {
                return Ok(());
            }
            // Or it would, if that were to be exported: the object stays what it is.
            if !policy.changed {
                return self.meta.object_deleted(link.id, key, false).await;
            }
            // Or it can be none, for bytes of it are lost: the file that the object was is gone.
        }
        // Or the file has it, and is an object elsewhere: this one stays until the name goes.
        if self.resolver.is_kept_by_name(link, key).await? {
            return self.meta.object_deleted(link.id, key, false).await;
        }
        // Without an ETag nobody knows whether it is the object that the file was.
        let Some(etag) = &row.object.etag else {
            return self.meta.object_deleted(link.id, key, false).await;
        };
        let bucket = self.registry.bucket(link.id)?;
        // Another object by now stays: the import shows it.
        let gone = bucket.delete_if(Component::Link, text, etag).await?;
        fail::fail_point!("engine::export-deleted");
        self.meta.object_deleted(link.id, key, gone).await
    }
}

/// What is to be done about a file under a name that is none to export.
fn other_name(inode: &Inode) -> Exported {
    match inode.kind != FileKind::Directory && inode.nlink > 1 {
        true => Exported::Unplaced,
        false => Exported::Done,
    }
}

/// What must be true of the object for an export to write it.
pub(super) fn condition(there: Option<&ObjectRow>) -> PutCondition {
    let object = there.map(|row| &row.object);
    match object.filter(|object| !(object.removed && object.modified_ms < 0)) {
        // Not known, or deleted by us.
        None => PutCondition::Absent,
        Some(object) => match &object.etag {
            Some(etag) => PutCondition::Matches(etag.clone()),
            // One that the store copied for us tells its time, too.
            None => PutCondition::Unchanged {
                size: object.object_bytes,
                modified_unix_ms: object.modified_ms,
            },
        },
    }
}
