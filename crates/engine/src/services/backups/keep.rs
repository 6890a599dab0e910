//! Which backups there are, and deleting some.

use std::collections::HashSet;

use futures::{StreamExt, TryStreamExt, stream};
use schemars::JsonSchema;
use serde::Serialize;
use weir_object::{Bucket, BucketUrl, Component};
use weir_types::{ErrorKind, FsError, Result, SegmentId};

use super::held::Held;
use super::manifest::{BackupView, at, key, list_key, names, opened};
use super::segments::present;
use crate::volume::connector::Connector;
use crate::volume::host::Host;

/// Requests at once.
const PARALLEL: usize = 16;

/// What was deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Deleted {
    /// The backups.
    pub deleted: Vec<String>,
    /// Segments that no other backup needs.
    pub segments: u64,
    /// Bytes of their objects.
    pub bytes: u64,
}

/// The backups of a place, oldest first. A LIST for each 1,000 objects of rows, and a GET for each backup.
pub async fn backups(url: &BucketUrl, connector: &Connector) -> Result<Vec<BackupView>> {
    let bucket = opened(connector.connect(url)?).await?;
    all(&bucket).await
}

async fn all(bucket: &Bucket) -> Result<Vec<BackupView>> {
    let (whole, _) = names(bucket).await?;
    let reading =
        stream::iter(whole).map(|name| async move { BackupView::read(bucket, &name).await });
    let mut all: Vec<_> = reading.buffer_unordered(PARALLEL).try_collect().await?;
    all.sort_unstable_by(|a, b| (a.created_ms, &a.name).cmp(&(b.created_ms, &b.name)));
    Ok(all)
}

/// Deletes backups, what was begun and never became one, and segments that no other backup needs. A LIST for each 1,000
/// segments, a GET for each 500,000 of those backups that stay, and a DELETE for each object.
///
/// # Errors
/// `NotFound`, and nothing is deleted, if there is none of one of these names.
pub async fn delete_backups(
    url: &BucketUrl,
    connector: &Connector,
    host: &Host,
    which: &[String],
) -> Result<Deleted> {
    let bucket = opened(connector.connect(url)?).await?;
    let held = Held::begin(&bucket, host).await?;
    let done = delete(&held, which).await;
    let ended = held.end().await;
    let done = done?;
    ended.map(|()| done)
}

async fn delete(held: &Held, which: &[String]) -> Result<Deleted> {
    let bucket = held.bucket();
    let (whole, begun) = names(bucket).await?;
    if let Some(none) = which.iter().find(|name| !whole.contains(name) && !begun.contains(name)) {
        let text = format!(
            "there is no backup `{}` in {}: nothing was deleted",
            none.escape_debug(),
            bucket.url()
        );
        return Err(FsError::new(ErrorKind::NotFound, text));
    }
    // First what makes them whole: then nobody restores half of one.
    for name in which.iter().filter(|name| whole.contains(name)) {
        BackupView::remove(bucket, &at(name)).await?;
        fail::fail_point!("engine::backup-unnamed");
    }
    let stay: Vec<_> = whole.iter().filter(|name| !which.contains(name)).collect();
    for name in which.iter().chain(&begun) {
        let listing = bucket.list(Component::Meta, &key(&at(name), ""));
        let objects: Vec<_> = listing.map_ok(|object| object.key).try_collect().await?;
        remove(held, Component::Meta, objects).await?;
    }
    let mut needed = HashSet::new();
    for name in stay {
        needed.extend(listed(bucket, name).await?);
    }
    let mut there = present(held.buckets()).await?;
    there.retain(|id, _| !needed.contains(id));
    held.check().await?;
    let (segments, bytes) = (there.len() as u64, there.values().sum());
    remove(held, Component::Data, there.keys().map(|id| id.object_key()).collect()).await?;
    Ok(Deleted { deleted: which.to_vec(), segments, bytes })
}

async fn remove(held: &Held, component: Component, objects: Vec<String>) -> Result<()> {
    let removing = stream::iter(objects.iter().map(Ok));
    removing.try_for_each_concurrent(PARALLEL, |key| held.delete(component, key)).await
}

/// The segments that a backup needs.
async fn listed(bucket: &Bucket, name: &str) -> Result<Vec<SegmentId>> {
    let view = BackupView::read(bucket, name).await?;
    let mut ids = Vec::new();
    for number in 0..view.lists {
        let bytes = bucket.get(Component::Meta, &list_key(&at(name), number)).await?;
        ids.extend(bytes.as_chunks::<16>().0.iter().map(|id| SegmentId(u128::from_le_bytes(*id))));
    }
    match ids.len() as u64 == view.segments {
        true => Ok(ids),
        false => {
            let text = format!(
                "the lists of backup `{name}` in {} name {} segments, and it has {}: segments are left \
                 where they are",
                bucket.url(),
                ids.len(),
                view.segments
            );
            Err(FsError::new(ErrorKind::Corrupt, text))
        }
    }
}
