//! What an export would do: nothing here writes, to a bucket or to the metadata.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::ToExport;
use weir_types::{ErrorKind, FileKind, LinkId, Result};

use super::Exporter;
use super::pass::Going;
use super::upload::ONE_PUT_BYTES;
use crate::services::links::registry::Link;
use crate::services::links::rule;

/// Notes read at once.
const PAGE: usize = 1_000;
/// The store copies no larger object.
const COPY_BYTES_MAX: u64 = 5 << 30;
/// Bytes of one part of an upload, as long as 10,000 of them suffice.
const PART_BYTES: u64 = 8 << 20;

/// What an export does to an object.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum PlannedChange {
    /// Its bytes are uploaded.
    Put,
    /// The store copies it from another key, which is deleted if deletions are exported.
    Copy,
    /// It is deleted.
    Delete,
    /// A directory was renamed or moved: each file in it is copied.
    MoveDirectory,
}

/// An export that waits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedExport {
    /// What happens.
    pub change: PlannedChange,
    /// To the object of this key below the link's URL.
    pub key: String,
    /// The key that it is copied from.
    pub from: Option<String>,
    /// Bytes of the object.
    pub bytes: u64,
    /// Requests that are billed as PUTs: PUT, COPY.
    pub puts: u64,
    /// Those that are billed as GETs, at most: HEAD.
    pub heads: u64,
    /// Somebody has the file open for writing: it waits for them.
    pub open: bool,
}

/// Exports that wait, and whether there are more.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct PlannedExports {
    /// The first ones.
    pub exports: Vec<PlannedExport>,
    /// These are not all.
    pub more: bool,
}

impl Exporter {
    /// What of a link waits for its export, up to `limit` changes. A read round or more for each.
    pub(crate) async fn planned_exports(
        self: &Arc<Self>,
        id: LinkId,
        limit: usize,
    ) -> Result<PlannedExports> {
        let link = self.registry.get(id)?;
        let mut planned = PlannedExports::default();
        let mut after = None;
        loop {
            let page = self.meta.to_export(id, after, PAGE).await?;
            let Some(last) = page.last() else { break };
            after = Some(last.ino);
            for file in &page {
                if planned.exports.len() >= limit {
                    return Ok(PlannedExports { more: true, ..planned });
                }
                planned.exports.extend(self.planned_file(&link, file).await?);
            }
        }
        let mut after: Option<Vec<u8>> = None;
        loop {
            let page = self.meta.removed_objects(id, after.as_deref(), PAGE).await;
            let page = page?;
            let Some(last) = page.last() else { return Ok(planned) };
            after = Some(last.clone());
            for key in &page {
                if planned.exports.len() >= limit {
                    return Ok(PlannedExports { more: true, ..planned });
                }
                planned.exports.extend(self.planned_deletion(&link, key).await?);
            }
        }
    }

    /// What an export of this file would do, if anything; as `export_one` decides it.
    async fn planned_file(
        self: &Arc<Self>,
        link: &Arc<Link>,
        file: &ToExport,
    ) -> Result<Option<PlannedExport>> {
        let inode = match self.meta.inode(file.ino).await {
            Ok(inode) if inode.nlink > 0 => inode,
            Ok(_) => return Ok(None),
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(error),
        };
        let Some((dir, name)) = self.resolver.place_of(link, &inode, file.name.as_ref()).await?
        else {
            return Ok(None);
        };
        if rule::is_conflict(&name) {
            return Ok(None);
        }
        let policy = link.record().options.export;
        let above = self.meta.inode(dir).await?.native.filter(|native| native.link == link.id);
        let Some(above) = above else {
            // With other names it may be in the link yet.
            let goes = policy.deleted && (inode.kind == FileKind::Directory || inode.nlink == 1);
            let left = inode.native.filter(|native| native.link == link.id && goes);
            return Ok(left.map(|native| deletion(native.key, native.object_bytes)));
        };
        let Some(key) = self.resolver.key_of(link, &inode, &above, (dir, &name)).await? else {
            return Ok(None);
        };
        if inode.kind == FileKind::Directory {
            let key = key + "/";
            let from = inode.native.map(|native| native.key).filter(|from| *from != key);
            let change = PlannedChange::MoveDirectory;
            return Ok(from.map(|from| PlannedExport { from: Some(from), change, ..put(key, 0) }));
        }
        let conditions = link.record().conditions.unwrap_or(weir_object::Conditions::ALL);
        let row = self.meta.object(link.id, key.as_bytes()).await?;
        let open = self.nodes.has_writers(inode.ino);
        let size = self.mirrors.merged(inode.clone()).size;
        let going = Going { link, inode, key: key.clone(), asked: false };
        let changed = going.inode.kind == FileKind::Regular
            && going.native().is_none_or(|_| self.detacher.has_changes(&going.inode));
        let writes = match going.native() {
            Some(native) if !changed && native.key == key => false,
            Some(native) if !changed && policy.new && native.object_bytes <= COPY_BYTES_MAX => {
                let (from, bytes) = (Some(native.key.clone()), native.object_bytes);
                let change = PlannedChange::Copy;
                return Ok(Some(PlannedExport { change, from, bytes, heads: 5, ..put(key, 0) }));
            }
            Some(_) if !changed => policy.new,
            Some(_) => policy.changed,
            None => policy.new || (row.is_some() && policy.changed),
        };
        let looks = u64::from(!(conditions.absent && conditions.matches));
        let planned = put(key, size);
        let heads = planned.heads + looks;
        Ok(writes.then_some(PlannedExport { heads, open, ..planned }))
    }

    async fn planned_deletion(&self, link: &Link, key: &[u8]) -> Result<Option<PlannedExport>> {
        let row = self.meta.object(link.id, key).await?;
        let known = row.filter(|row| row.object.removed && row.object.etag.is_some());
        let exported = link.record().options.export.deleted;
        let Some(row) = known.filter(|_| exported) else { return Ok(None) };
        if let Some(ino) = self.resolver.named_as(link, key).await?
            && self.meta.is_to_export(link.id, ino).await?
        {
            return Ok(None);
        }
        if self.resolver.is_kept_by_name(link, key).await? {
            return Ok(None);
        }
        Ok(Some(deletion(rule::show(key), row.object.object_bytes)))
    }
}

/// What it takes to upload an object of this size.
fn put(key: String, bytes: u64) -> PlannedExport {
    let parts = bytes.div_ceil(PART_BYTES).min(10_000);
    let (puts, heads) = if bytes <= ONE_PUT_BYTES { (1, 0) } else { (parts + 2, 1) };
    let change = PlannedChange::Put;
    PlannedExport { change, key, from: None, bytes, puts, heads, open: false }
}

fn deletion(key: String, bytes: u64) -> PlannedExport {
    PlannedExport { change: PlannedChange::Delete, puts: 0, heads: 1, ..put(key, bytes) }
}
