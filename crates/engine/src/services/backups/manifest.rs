//! What a place of backups says of itself and of each.

use futures::TryStreamExt;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::{SnapshotRow, Sum, check_snapshot_name};
use weir_object::{Bucket, Component};
use weir_types::{
    Codec, Encryption, ErrorCode, ErrorKind, FsError, Result, SegmentId, VolumeFormat, VolumeId,
};

use crate::volume::format::{BACKUP_PATH, VOLUME_KEY};

/// The newest form of backups that this build knows.
pub(super) const VERSION: u32 = 2;
/// The form of backups that are not encrypted: the first one, unchanged.
const PLAIN: u32 = 1;
/// The object that makes a backup whole.
pub(super) const MANIFEST: &str = "backup.json";

/// A backup that is whole.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct BackupView {
    /// The form of it.
    pub version: u32,
    /// Its name.
    pub name: String,
    /// The volume that it is of.
    pub volume: VolumeId,
    /// Where that was.
    pub url: String,
    /// Of when it is, in milliseconds since 1970.
    pub created_ms: u64,
    /// The volume's largest record.
    pub record_bytes: u64,
    /// Bytes at which its segments are full.
    pub segment_bytes: u64,
    /// How its records are compressed.
    pub codec: Codec,
    /// Files, directories and all else in it.
    pub files: u64,
    /// Bytes of its files, before compression.
    pub stored_bytes: u64,
    /// Segments that it needs.
    pub segments: u64,
    /// Bytes of their objects.
    pub object_bytes: u64,
    /// Objects that list them.
    pub lists: u32,
    /// Rows of its metadata.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub row_bytes: u64,
    /// Objects that have them.
    pub row_objects: u32,
    /// Names the first of those: each next one is named by the next number.
    pub rows_id: String,
    /// XXH3 of all rows.
    pub xxh3: String,
    /// What of the volume was damaged or missing when it was taken.
    pub damaged: Vec<String>,
    /// What opens the keys of its rows and segments. In version 2, and required there; else it is not encrypted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub encryption: Option<Encryption>,
}

/// The oldest form that can say it.
fn version_of(encryption: Option<&Encryption>) -> u32 {
    if encryption.is_some() { VERSION } else { PLAIN }
}

/// Where a backup is in its place.
pub(super) fn at(name: &str) -> String {
    format!("{BACKUP_PATH}/{name}")
}

/// The key of something of what is `at` a place.
pub(super) fn key(at: &str, what: &str) -> String {
    format!("{at}/{what}")
}

pub(super) fn rows_key(at: &str, number: u32) -> String {
    key(at, &format!("rows/{number:08}"))
}

pub(super) fn list_key(at: &str, number: u32) -> String {
    key(at, &format!("segments/{number:08}"))
}

impl BackupView {
    /// The rows of a snapshot of a volume, and no segments.
    pub(super) fn of_rows(
        (name, url, format, row): (&str, &str, &VolumeFormat, &SnapshotRow),
        rows_id: SegmentId,
        (row_objects, sum): (u32, Sum),
    ) -> Self {
        let state = row.state.as_ref();
        Self {
            version: version_of(format.encryption.as_ref()),
            name: name.to_owned(),
            volume: format.id.clone(),
            url: url.to_string(),
            created_ms: row.created_ms,
            record_bytes: format.record_bytes,
            segment_bytes: format.segment_bytes,
            codec: format.codec,
            files: state.map_or(0, |state| state.inodes),
            stored_bytes: state.map_or(0, |state| state.stored_bytes),
            segments: 0,
            object_bytes: 0,
            lists: 0,
            rows: sum.rows,
            row_bytes: sum.bytes,
            row_objects,
            rows_id: format!("{:032x}", rows_id.0),
            xxh3: format!("{:032x}", sum.xxh3),
            damaged: Vec::new(),
            encryption: format.encryption.clone(),
        }
    }

    /// Refuses rows that are not those that were taken.
    pub(super) fn check(&self, is: Sum, what: &str) -> Result<()> {
        let Self { rows, row_bytes, xxh3, .. } = self;
        let same = (is.rows, is.bytes) == (*rows, *row_bytes);
        match same && format!("{:032x}", is.xxh3) == *xxh3 {
            true => Ok(()),
            false => Err(self.others(is, what)),
        }
    }

    /// Refuses rows that are not those that were read, in whatever order they are.
    pub(super) fn check_loaded(&self, read: Sum, is: Sum) -> Result<()> {
        match read.is_of_same(&is) {
            true => Ok(()),
            false => Err(self.others(is, "what was loaded")),
        }
    }

    fn others(&self, is: Sum, what: &str) -> FsError {
        let Self { name, rows, row_bytes, .. } = self;
        let text = format!(
            "backup `{name}` has {rows} rows in {row_bytes} bytes, and {what} {} in {}, or others: restore \
             another one",
            is.rows, is.bytes
        );
        FsError::new(ErrorKind::Corrupt, text)
    }

    /// One GET. `NotFound` if there is no whole backup of this name.
    pub(super) async fn read(bucket: &Bucket, name: &str) -> Result<Self> {
        check_snapshot_name(name)?;
        match Self::read_at(bucket, &at(name)).await {
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let text = format!(
                    "there is no backup `{name}` in {url}: `weir backups {url}` lists them",
                    url = bucket.url()
                );
                Err(FsError::new(ErrorKind::NotFound, text))
            }
            view => view,
        }
    }

    /// The same of what is `at` a place.
    pub(super) async fn read_at(bucket: &Bucket, at: &str) -> Result<Self> {
        let bytes = bucket.get(Component::Volume, &key(at, MANIFEST)).await?;
        let at = format!("{}/{}", bucket.url(), key(at, MANIFEST));
        let bad =
            |why: String| FsError::new(ErrorKind::Corrupt, format!("{at} cannot be read: {why}"));
        let value: serde_json::Value =
            serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
        match value.get("version").and_then(serde_json::Value::as_u64) {
            None => return Err(bad("it names no version".to_owned())),
            Some(version) if version > u64::from(VERSION) => {
                let text = format!(
                    "{at} is of version {version}, and this weir knows up to {VERSION}: use a newer weir"
                );
                return Err(
                    FsError::new(ErrorKind::Unsupported, text).coded(ErrorCode::VolumeNewer)
                );
            }
            Some(_) => {}
        }
        let view: Self = serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
        if view.version != version_of(view.encryption.as_ref()) {
            return Err(bad(format!("version {} with or without `encryption`", view.version)));
        }
        match view.encryption.as_ref().map(Encryption::problems).unwrap_or_default() {
            problems if problems.is_empty() => Ok(view),
            problems => Err(bad(problems.join("; "))),
        }
    }

    /// One PUT.
    pub(super) async fn write(&self, bucket: &Bucket, at: &str) -> Result<()> {
        let mut text = serde_json::to_vec_pretty(self)
            .map_err(|e| FsError::new(ErrorKind::Bug, "encode backup.json").with_source(e))?;
        text.push(b'\n');
        bucket.replace(Component::Volume, &key(at, MANIFEST), text).await
    }

    /// One DELETE.
    pub(super) async fn remove(bucket: &Bucket, at: &str) -> Result<()> {
        bucket.delete(Component::Volume, &key(at, MANIFEST)).await
    }
}

/// Names of what is there: whole backups, and such as were begun. One LIST for each 1,000 objects of rows.
pub(super) async fn names(bucket: &Bucket) -> Result<(Vec<String>, Vec<String>)> {
    let (mut whole, mut begun) = (Vec::new(), Vec::new());
    let mut listing = bucket.list(Component::Volume, BACKUP_PATH);
    while let Some(object) = listing.try_next().await? {
        let rest = object.key.strip_prefix(BACKUP_PATH).and_then(|rest| rest.strip_prefix('/'));
        let Some((name, what)) = rest.and_then(|rest| rest.split_once('/')) else { continue };
        if what == MANIFEST {
            whole.push(name.to_owned());
        } else if begun.last().is_none_or(|last| last != name) {
            begun.push(name.to_owned());
        }
    }
    begun.retain(|name| !whole.contains(name));
    Ok((whole, begun))
}

/// Refuses a place that is a volume: both have segments under the same keys. One HEAD.
pub(super) async fn check_place(bucket: &Bucket) -> Result<()> {
    match bucket.head(Component::Volume, VOLUME_KEY).await {
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
        Ok(_) => {
            let text =
                format!("{} is a volume, and no place for backups: name another one", bucket.url());
            Err(FsError::new(ErrorKind::Invalid, text))
        }
    }
}

/// The bucket of a place of backups, which is reached and is none of a volume.
pub(super) async fn opened(bucket: Bucket) -> Result<Bucket> {
    bucket.probe().await?;
    check_place(&bucket).await?;
    Ok(bucket)
}
