//! Storage classes of objects: they move in place, as what is renamed is copied.

use std::sync::Arc;

use weir_meta::{ExportCommit, ExportContent, ObjectRow};
use weir_object::{ClassChange, Component};
use weir_types::{ErrorKind, Ino, Native, Result, StorageClass};

use super::exporter::Exporter;
use super::registry::Link;

impl Exporter {
    /// Moves the object of a file into another class, if nothing happened to either since its row was read, and has the
    /// metadata know it as it is then. Who calls this holds the link's lock of imports: one that met the object between the
    /// copy and the commit would take it for another one. Two reads, one HEAD, one COPY and a commit.
    ///
    /// # Errors
    /// As [`weir_object::Bucket::change_class`].
    pub(crate) async fn change_class(
        &self,
        link: &Arc<Link>,
        row: &ObjectRow,
        (from, to): (StorageClass, StorageClass),
    ) -> Result<ClassChange> {
        let (Some(ino), Some(etag)) = (row.object.ino, row.object.etag.as_deref()) else {
            return Ok(ClassChange::Another);
        };
        let bucket = self.bucket_to_write(link).await?;
        let node = self.nodes.get(ino);
        // While the copy is there and the metadata does not say so, nobody may look at both.
        let _object = node.object.lock().await;
        let Some(native) = self.unchanged(link, row, ino).await? else {
            return Ok(ClassChange::Another);
        };
        let changed = bucket.change_class(Component::Link, (&native.key, etag), from, to).await?;
        fail::fail_point!("engine::class-changed");
        let ClassChange::Moved(info) = &changed else { return Ok(changed) };
        let export = ExportCommit {
            native: Native { etag: info.etag.clone(), ..native.clone() },
            modified_ms: info.last_modified_unix_ms,
            content: ExportContent::Copied(native),
            row: Some(row.version),
        };
        let _change = node.change.lock().await;
        self.meta.commit_export(ino, &export).await?;
        Ok(changed)
    }

    /// What a file is in the link, if it is this object and nothing that was written here is to become another one.
    async fn unchanged(&self, link: &Link, row: &ObjectRow, ino: Ino) -> Result<Option<Native>> {
        let now = self.meta.object(link.id, &row.key).await?;
        if now.as_ref() != Some(row) || self.meta.is_to_export(link.id, ino).await? {
            return Ok(None);
        }
        let inode = match self.meta.inode(ino).await {
            Ok(inode) => inode,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        if self.detacher.has_changes(&inode) {
            return Ok(None);
        }
        Ok(inode.native.filter(|native| {
            native.link == link.id
                && native.key.as_bytes() == row.key
                && native.etag == row.object.etag
                && !(native.detached || native.lost)
        }))
    }
}
