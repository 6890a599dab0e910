//! One file on its way to its object. An export is a flush to another place: what was dirty and is
//! in the object is clean afterwards, and never goes into a segment.

use std::sync::Arc;

use bytes::Bytes;
use futures::{FutureExt, StreamExt, TryStreamExt, stream};
use weir_meta::{ExportCommit, ExportContent, ObjectRow};
use weir_object::{Bucket, Component, ObjectInfo, PutCondition};
use weir_tier::{Mirror, Snapshot};
use weir_types::{ByteRange, ErrorKind, FileKind, Native, Result};

use super::pass::{Exported, Going, condition};
use crate::services::links::attributes;
use crate::services::links::exporter::Exporter;
use crate::services::links::views::Policy;
use crate::services::links::wrote::wrote;
use crate::volume::context::Counts;

/// Files up to this leave in one PUT, larger ones in parts.
pub(super) const ONE_PUT_BYTES: u64 = 16 << 20;
/// Parts on their way at once.
const PARTS: usize = 4;

/// Dirty ranges on their way. Whatever ends the export before its commit, they are dirty again.
struct Taken {
    mirror: Arc<Mirror>,
    snapshot: Snapshot,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.mirror.flush_failed(&self.snapshot);
    }
}

/// [`ONE_PUT_BYTES`], or less in tests that want small files to leave in parts.
fn one_put_bytes() -> u64 {
    fail::fail_point!("engine::one-put-bytes", |bytes| {
        bytes.and_then(|bytes| bytes.parse().ok()).unwrap_or(ONE_PUT_BYTES)
    });
    ONE_PUT_BYTES
}

impl Exporter {
    /// Uploads a file to its object, as long as that is what `there` says.
    pub(super) async fn write_object(
        self: &Arc<Self>,
        going: &Going<'_>,
        there: Option<&ObjectRow>,
    ) -> Result<Exported> {
        match self.put_file(going, &condition(there), there).await? {
            Some(exported) => Ok(exported),
            None => self.settle(going, there).await,
        }
    }

    async fn put_file(
        self: &Arc<Self>,
        going: &Going<'_>,
        condition: &PutCondition,
        there: Option<&ObjectRow>,
    ) -> Result<Option<Exported>> {
        match going.inode.kind {
            FileKind::Symlink => self.upload_symlink(going, condition, there).await,
            _ => self.upload_file(going, condition, there).await,
        }
    }

    async fn upload_symlink(
        self: &Arc<Self>,
        going: &Going<'_>,
        condition: &PutCondition,
        there: Option<&ObjectRow>,
    ) -> Result<Option<Exported>> {
        let bucket = self.bucket_to_write(going.link).await?;
        let target = Bytes::from(going.inode.target.clone().unwrap_or_default());
        let metadata = attributes::write(&going.inode);
        let put = bucket.put_object(Component::Link, &going.key, target, &metadata, condition);
        let Some(info) = put.await? else { return Ok(None) };
        let (native, modified_ms) = self.native_of(&bucket, going, info).await?;
        let native = Native { end: 0, ..native };
        let (content, row) = (ExportContent::Target, there.map(|row| row.version));
        let export = ExportCommit { native, modified_ms, content, row };
        self.meta.commit_export(going.inode.ino, &export).await?;
        Ok(Some(Exported::Done))
    }

    /// `None`: the object is not what we know of it.
    async fn upload_file(
        self: &Arc<Self>,
        going: &Going<'_>,
        condition: &PutCondition,
        there: Option<&ObjectRow>,
    ) -> Result<Option<Exported>> {
        let ino = going.inode.ino;
        let bucket = self.bucket_to_write(going.link).await?;
        let node = self.nodes.get(ino);
        let extents_fit = self.meta.extents_fit(ino).await?;
        if !extents_fit {
            // They go in several commits, and must not be older than the object between these.
            self.flusher.flush_file(ino).await?;
        }
        let _flushing = node.flush.lock().await;
        self.mirrors.scan_mapped_writes(&[ino]).await?;
        let mirror = self.mirrors.open_mirror(&node).await?;
        let taken = Taken { snapshot: mirror.snapshot(0, u64::MAX), mirror };
        if !extents_fit && !taken.snapshot.ranges.is_empty() {
            return Ok(Some(Exported::Later));
        }
        let size = taken.snapshot.size;
        // Not what the pass saw: it may have been written, flushed and closed since.
        let now = self.mirrors.known(ino).await?;
        let metadata = attributes::write(&self.mirrors.without_acl(now).await?);
        let whole = |bytes: &Bytes| bytes.len() as u64 == size;
        // While the object is new and the metadata is not, nobody may look at both.
        let (_object, info) = if size <= one_put_bytes() {
            let bytes = self.reader.read(&taken.mirror, 0, size as usize).await?;
            if !whole(&bytes) {
                return Ok(Some(Exported::Later));
            }
            let object = node.object.lock().await;
            let put = bucket.put_object(Component::Link, &going.key, bytes, &metadata, condition);
            (object, put.await?)
        } else {
            let key = going.key.as_str();
            let upload = bucket.begin_upload(Component::Link, key, size, &metadata).await?;
            fail::fail_point!("engine::export-upload");
            let part_bytes = upload.part_bytes();
            let parts = (1..=upload.parts()).map(|number| {
                let (upload, mirror) = (&upload, &taken.mirror);
                async move {
                    let start = (number as u64 - 1) * part_bytes;
                    let len = part_bytes.min(size - start) as usize;
                    let bytes = self.reader.read(mirror, start, len).await?;
                    if bytes.len() != len {
                        return Ok(false);
                    }
                    upload.part(number, bytes).await?;
                    fail::fail_point!("engine::export-part");
                    Ok(true)
                }
                .boxed()
            });
            let sent: Vec<bool> = stream::iter(parts).buffered(PARTS).try_collect().await?;
            if sent.contains(&false) {
                upload.abort().await?;
                return Ok(Some(Exported::Later));
            }
            fail::fail_point!("engine::export-parts");
            let object = node.object.lock().await;
            (object, upload.complete(condition).await?)
        };
        let Some(info) = info else { return Ok(None) };
        fail::fail_point!("engine::export-put");
        let _change = node.change.lock().await;
        let row = there.map(|row| row.version);
        self.commit_upload(&bucket, going, info, taken, row).await.map(Some)
    }

    /// Makes the object the file. To be called with the file's flush and change locks held.
    async fn commit_upload(
        &self,
        bucket: &Bucket,
        going: &Going<'_>,
        info: ObjectInfo,
        taken: Taken,
        row: Option<u64>,
    ) -> Result<Exported> {
        let ino = going.inode.ino;
        let (native, modified_ms) = self.native_of(bucket, going, info).await?;
        let (mirror, snapshot) = (&taken.mirror, &taken.snapshot);
        let size = snapshot.size;
        let valid = mirror.still_valid(snapshot);
        let (_, now) = mirror.pending();
        let content = match valid {
            true => ExportContent::Whole {
                fresh: !snapshot.ranges.is_empty(),
                size,
                // Times that somebody set since stay as they were set.
                mtime: snapshot.pending.mtime.filter(|_| now.mtime.is_some()),
                ctime: snapshot.pending.ctime.filter(|_| now.ctime.is_some()),
            },
            false => ExportContent::Old,
        };
        let export = ExportCommit { native, modified_ms, content, row };
        let after = match self.meta.commit_export(ino, &export).await {
            Ok(Some(after)) => after,
            // Removed, and maybe open: what was dirty has no other place, and stays dirty.
            Ok(None) => return Ok(Exported::Done),
            Err(error) => return Err(self.mirrors.extents_unsure(ino, error).await),
        };
        Counts::add(&self.context.counts.bytes_flushed, size);
        if !valid {
            return Ok(Exported::Later);
        }
        for &ByteRange { start, end } in &snapshot.ranges {
            if let Some(journal) = &self.journal {
                journal.forget(ino, start, end);
            }
        }
        mirror.flushed(snapshot, after.data.generation, after.size)?;
        self.space.made.notify_waiters();
        if !self.nodes.is_open(ino) {
            mirror.idle();
        }
        Ok(Exported::Done)
    }

    /// The object that was written, and when that was, where the store tells no ETag.
    async fn native_of(
        &self,
        bucket: &Bucket,
        going: &Going<'_>,
        info: ObjectInfo,
    ) -> Result<(Native, i64)> {
        let (etag, modified_ms) = match info.etag {
            Some(etag) => (Some(etag), 0),
            None => {
                let now = bucket.head(Component::Link, &going.key).await?;
                (now.etag, now.last_modified_unix_ms)
            }
        };
        let native = Native {
            etag,
            object_bytes: info.size,
            end: info.size,
            ..Native::directory(going.link.id, going.key.clone(), going.link.exports(), false)
        };
        Ok((native, modified_ms))
    }

    /// The object is not what we know of it: it is ours, because a crash came between its PUT and
    /// the commit, or somebody else's, and then the import settles who has the name.
    pub(super) async fn settle(
        self: &Arc<Self>,
        going: &Going<'_>,
        there: Option<&ObjectRow>,
    ) -> Result<Exported> {
        let bucket = self.registry.bucket(going.link.id)?;
        let found = match bucket.head_attributes(Component::Link, &going.key).await {
            Ok(found) => Some(found),
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error),
        };
        let Some((info, metadata)) = found else {
            // Deleted behind our back, and changed here: what is here stays, as a new object.
            let key = going.key.as_bytes();
            self.meta.object_deleted_elsewhere(going.link.id, key).await?;
            return Ok(Exported::Later);
        };
        if wrote(&self.mirrors, going.inode.ino, info.size, &metadata).await? {
            return self.adopt_object(going, info, there).await;
        }
        // Or a rename of it copied it there, before it was changed.
        if let Some(native) = going.native().filter(|native| native.key != going.key)
            && let Some(copy) = self.resolver.find_copy(native, &going.key).await?
        {
            return self.adopt_object(going, copy, there).await;
        }
        let keys = std::slice::from_ref(&going.key);
        self.importer.import_keys(going.link, keys, Policy::ALL).await?;
        Ok(Exported::Later)
    }

    /// The object has just these attributes: an export of this very file wrote it, and nothing
    /// noted that. It goes there once more, over what we now know to be ours.
    async fn adopt_object(
        self: &Arc<Self>,
        going: &Going<'_>,
        info: ObjectInfo,
        there: Option<&ObjectRow>,
    ) -> Result<Exported> {
        let condition = match info.etag {
            Some(etag) => PutCondition::Matches(etag),
            None => PutCondition::Unchanged {
                size: info.size,
                modified_unix_ms: info.last_modified_unix_ms,
            },
        };
        Ok(self.put_file(going, &condition, there).await?.unwrap_or(Exported::Later))
    }

    /// Bytes of a changed file went with its object, but another export of it put the new one, and a
    /// crash came before that was noted: what is not here is in that one, too. `false`: the object
    /// is not of that kind.
    pub(super) async fn adopt_upload(&self, going: Going<'_>, had: &Native) -> Result<bool> {
        let (link, ino) = (going.link.id, going.inode.ino);
        let node = self.nodes.get(ino);
        let _object = node.object.lock().await;
        let row = self.meta.object(link, going.key.as_bytes()).await?;
        let bucket = self.registry.bucket(link)?;
        let (info, metadata) = match bucket.head_attributes(Component::Link, &going.key).await {
            Ok(found) => found,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(false),
            Err(error) => return Err(error),
        };
        let is_row = row.as_ref().is_some_and(|row| row.object.ino == Some(ino));
        if !is_row || !wrote(&self.mirrors, ino, info.size, &metadata).await? {
            return Ok(false);
        }
        let (native, modified_ms) = self.native_of(&bucket, &going, info).await?;
        let (content, row) = (ExportContent::Old, row.map(|row| row.version));
        let export = ExportCommit { native, modified_ms, content, row };
        let _change = node.change.lock().await;
        if self.meta.inode(ino).await?.native.as_ref() != Some(had) {
            return Ok(false);
        }
        self.meta.commit_export(ino, &export).await?;
        Ok(true)
    }
}
