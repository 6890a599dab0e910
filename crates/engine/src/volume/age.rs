//! How old the metadata is, where it is in a database: a number that rises at each mount and in each hour
//! of one. The database has it, and then the bucket: so a database that has less than the bucket was
//! restored to a moment before, or is a standby that was as far behind. What it does not know of, the
//! collector would take for nobody's; so no mount writes it unasked. What was lost since the number rose
//! last is not noticed.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_meta::Meta;
use weir_object::{BucketUrl, Component, StripeSet};
use weir_types::{ErrorCode, ErrorKind, FsError, Result, VolumeFormat, VolumeId};

use super::context::Context;
use super::format::AGE_KEY;
use super::metadata::Metadata;
use super::options::{AcceptLoss, MountOptions};

/// How often it rises, in seconds: 720 PUTs a month, half a cent.
const RISE_S: u64 = 3_600;

#[derive(Debug, Serialize, Deserialize)]
struct Record {
    /// Another volume's record, left in this place, says nothing.
    volume: VolumeId,
    age: u64,
}

/// The age as the bucket has it. One GET.
pub(crate) async fn age_in_bucket(buckets: &StripeSet, volume: &VolumeId) -> Result<u64> {
    let bytes = match buckets.first().get(Component::Volume, AGE_KEY).await {
        Ok(bytes) => bytes,
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(0),
        Err(error) => return Err(error),
    };
    let record: Record = serde_json::from_slice(&bytes).map_err(|e| {
        let text = format!("{AGE_KEY} of {} is damaged: remove it", buckets.first().url());
        FsError::new(ErrorKind::Corrupt, text).with_source(e)
    })?;
    Ok(if record.volume == *volume { record.age } else { 0 })
}

/// Why a database of age `known` is not the one that the volume had last, if it is not.
pub(crate) fn is_older(url: &BucketUrl, known: u64, in_bucket: u64) -> Option<FsError> {
    let text = format!(
        "the database is older than {url}: it knows {known} mounts and hours of it, and the bucket \
         {in_bucket}. It was restored from a backup, or lost its last commits: bring it to its last \
         state if that can be had; or go on with the volume as it was then by --accept-loss all: what \
         came later is lost then, and so is all that this tier and journal have not brought to the bucket"
    );
    let error = FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::MetadataOlder);
    (known < in_bucket).then_some(error)
}

/// Makes the metadata older than both were. One commit, then one PUT: whatever comes between, the
/// bucket never has more than the database.
pub(crate) async fn rise(
    meta: &Meta,
    buckets: &StripeSet,
    volume: &VolumeId,
    in_bucket: u64,
) -> Result<()> {
    let age = meta.raise_age(in_bucket).await?;
    meta.sync().await?;
    let record = Record { volume: volume.clone(), age };
    let text = serde_json::to_vec(&record)
        .map_err(|e| FsError::new(ErrorKind::Bug, "encode the age").with_source(e))?;
    buckets.first().replace(Component::Volume, AGE_KEY, Bytes::from(text)).await
}

/// What the bucket says of the age of the metadata.
pub(crate) struct Aged {
    /// That age, of a volume whose metadata has one.
    pub(crate) in_bucket: Option<u64>,
    /// The metadata is of a time before, and that was accepted.
    pub(crate) older: bool,
}

/// Refuses metadata that is older than the bucket, unless the loss of what came later was accepted.
pub(crate) async fn aged(
    meta: &Meta,
    options: &MountOptions,
    buckets: &StripeSet,
    (format, metadata): (&VolumeFormat, &Metadata),
) -> Result<Aged> {
    if !metadata.is_durable_at_once() {
        return Ok(Aged { in_bucket: None, older: false });
    }
    let (in_bucket, known) = tokio::try_join!(age_in_bucket(buckets, &format.id), meta.age())?;
    match is_older(&options.url, known, in_bucket) {
        Some(error) if options.accept_loss != AcceptLoss::All => Err(error),
        Some(_) => {
            tracing::warn!(known, in_bucket, "the volume goes on as it was when its database was");
            Ok(Aged { in_bucket: Some(in_bucket), older: true })
        }
        None => Ok(Aged { in_bucket: Some(in_bucket), older: false }),
    }
}

/// Has it rise in each hour of a mount.
pub(crate) async fn age_loop(context: Arc<Context>, meta: Arc<Meta>, buckets: StripeSet) {
    while !context.is_fenced() {
        tokio::time::sleep(Duration::from_secs(RISE_S)).await;
        if let Err(error) = rise(&meta, &buckets, &context.format.id, 0).await {
            tracing::warn!(%error, "the age of the metadata was not noted: tried again in an hour");
        }
    }
}
