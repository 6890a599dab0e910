//! Dumps: the rows of a snapshot's metadata, kept in the volume's own bucket for the day when the metadata is lost.
//!
//! What must always hold:
//!
//! - A dump is removed before its snapshot is: so all segments that it names are there as long as it is.
//! - Metadata that is restored is a volume's when all of it is there; before, nothing mounts what is there of it.
//! - It has an id of its own, so that no tier takes what it holds of the lost metadata for a part of it: numbers of inodes
//!   and generations are given out anew.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};
use weir_meta::{Meta, SnapshotRow};
use weir_object::{Bucket, BucketUrl, Component, StripeSet};
use weir_types::{ErrorKind, FsError, Result, SegmentId, VolumeFormat, VolumeId};

use super::manifest::{BackupView, MANIFEST, key};
use super::progress::BackupProgress;
use super::rows::{Written, write_rows};
use super::segments::wanted;
use crate::volume::connector::Connector;
use crate::volume::format::read_format_in;

/// Below this key dumps are, in the volume's first bucket.
const DUMP_PATH: &str = "dumps";
/// Requests at once.
const PARALLEL: usize = 16;

/// Where the dump of a snapshot is.
fn at(volume: &VolumeId, number: u32) -> String {
    format!("{DUMP_PATH}/{}/{number:010}", volume.0)
}

/// Writes the dump of a snapshot. Over one that there is, or that another node writes, it puts the same: a snapshot never
/// changes, and neither do the names of what a dump is made of. Reads all rows; a PUT for each 16 MiB of them.
pub(crate) async fn write_dump(
    (url, format): (&str, &VolumeFormat),
    buckets: &StripeSet,
    (name, row, view): (&str, &SnapshotRow, &Meta),
    progress: &BackupProgress,
) -> Result<()> {
    let (bucket, at) = (buckets.first(), at(&format.id, row.number));
    let wanted = wanted(view).await?;
    let rows_id = SegmentId::new(row.created_ms, u128::from(row.number));
    let of = (buckets.keys(), view);
    let Written { objects, sum } = write_rows(bucket, (&at, rows_id), of, progress).await?;
    fail::fail_point!("engine::dump-rows");
    let rows = BackupView::of_rows((name, url, format, row), rows_id, (objects, sum));
    let object_bytes = wanted.iter().map(|(_, bytes)| bytes).sum();
    let dump = BackupView { segments: wanted.len() as u64, object_bytes, ..rows };
    dump.write(bucket, &at).await
}

/// Removes the dump of a snapshot, or what is there of one. What makes it whole goes first. A LIST, and a DELETE for each
/// object.
pub(crate) async fn remove_dump(bucket: &Bucket, volume: &VolumeId, number: u32) -> Result<()> {
    remove(bucket, &at(volume, number)).await
}

async fn remove(bucket: &Bucket, at: &str) -> Result<()> {
    let listing = bucket.list(Component::Meta, &key(at, ""));
    let objects: Vec<_> = listing.map_ok(|object| object.key).try_collect().await?;
    if objects.contains(&key(at, MANIFEST)) {
        BackupView::remove(bucket, at).await?;
    }
    stream::iter(objects.iter().map(Ok))
        .try_for_each_concurrent(PARALLEL, |key| bucket.delete(Component::Meta, key))
        .await
}

/// Removes dumps of which the volume has no snapshot: of such as were killed when they were deleted, and of the metadata
/// from before a restore. A LIST for each 1,000 objects of dumps, and what `known` costs, which answers the numbers of the
/// snapshots there are.
pub(crate) async fn sweep_dumps(
    bucket: &Bucket,
    volume: &VolumeId,
    known: impl AsyncFnOnce() -> Result<HashSet<u32>>,
) -> Result<()> {
    let found = places(bucket).await?;
    if found.is_empty() {
        return Ok(());
    }
    // Behind the listing: whatever was listed had its snapshot by then.
    let known: HashSet<_> = known().await?.iter().map(|number| at(volume, *number)).collect();
    for left in found.into_iter().filter(|at| !known.contains(at)) {
        tracing::info!(dump = left, "removing a dump of which there is no snapshot");
        remove(bucket, &left).await?;
    }
    Ok(())
}

/// Where there are dumps, or parts of some.
async fn places(bucket: &Bucket) -> Result<Vec<String>> {
    let mut found: Vec<String> = Vec::new();
    let mut listing = bucket.list(Component::Meta, DUMP_PATH);
    while let Some(object) = listing.try_next().await? {
        let ends: Vec<_> = object.key.match_indices('/').map(|(at, _)| at).collect();
        let Some(at) = ends.get(2).map(|end| &object.key[..*end]) else { continue };
        if found.last().is_none_or(|last| last != at) {
            found.push(at.to_owned());
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}

/// The dumps that are in a volume's own bucket, oldest first: all of them that are whole, of the volume as it is and of
/// what it was before its metadata was restored. A LIST for each 1,000 objects, and a GET for each dump.
pub async fn dumps(url: &BucketUrl, connector: &Connector) -> Result<Vec<BackupView>> {
    let bucket = connector.connect(url)?;
    read_format_in(&bucket).await?;
    Ok(all(&bucket).await?.into_iter().map(|(_, dump)| dump).collect())
}

/// All that are whole, and where they are.
pub(super) async fn all(bucket: &Bucket) -> Result<Vec<(String, BackupView)>> {
    let reading = stream::iter(places(bucket).await?).map(|at| async move {
        match BackupView::read_at(bucket, &at).await {
            Ok(dump) => Ok(Some((at, dump))),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    });
    let found: Vec<_> = reading.buffer_unordered(PARALLEL).try_collect().await?;
    let mut found: Vec<_> = found.into_iter().flatten().collect();
    found.sort_unstable_by(|a, b| (a.1.created_ms, &a.1.name).cmp(&(b.1.created_ms, &b.1.name)));
    Ok(found)
}

/// The dump of this name; the newest one without.
pub(super) async fn chosen(bucket: &Bucket, name: Option<&str>) -> Result<(String, BackupView)> {
    let mut all = all(bucket).await?;
    if let Some(name) = name {
        all.retain(|(_, dump)| dump.name == name);
    }
    all.pop().ok_or_else(|| {
        let url = bucket.url();
        let text = match name {
            Some(name) => format!("there is no dump `{name}` in {url}: `weir backups {url}` lists them"),
            None => format!(
                "there is no dump of the metadata in {url}: `weir restore-volume` of a backup makes a volume of that"
            ),
        };
        FsError::new(ErrorKind::NotFound, text)
    })
}
