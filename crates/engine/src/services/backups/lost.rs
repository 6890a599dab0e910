//! Metadata that was lost, restored from a dump: the segments are where they were.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use schemars::JsonSchema;
use serde::Serialize;
use weir_meta::kv::Kv;
use weir_meta::{Adding, Meta, Restore, Sum, sum};
use weir_object::{BucketUrl, Component, StripeSet};
use weir_types::{ErrorKind, FsError, Ino, Result, VolumeFormat, VolumeId};

use super::dumps::chosen;
use super::held::Held;
use super::manifest::BackupView;
use super::progress::BackupProgress;
use super::rows::read_rows;
use super::segments::{Wanted, present, wanted};
use crate::volume::claim::claim_idle;
use crate::volume::connector::Connector;
use crate::volume::context::Clock;
use crate::volume::format::{abandon, read_format_in, replace_format, stripe_set};
use crate::volume::host::Host;
use crate::volume::members::check_no_nodes;
use crate::volume::metadata::{Metadata, Place};

/// Which volume's metadata, and from what.
#[derive(Clone)]
pub struct RestoreMetadataOptions {
    /// The volume.
    pub url: BucketUrl,
    /// The dump; the newest without.
    pub dump: Option<String>,
    /// Where the metadata is to be, `slate` being the bucket; where it was without.
    pub metadata: Option<String>,
    /// Do away with metadata that can be read, or that is in a database which is away.
    pub accept_loss: bool,
    /// How buckets are reached.
    pub connector: Connector,
    /// This process.
    pub host: Host,
    /// The time.
    pub clock: Clock,
}

/// Metadata that was restored.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RestoredMetadata {
    /// Its dump.
    pub dump: BackupView,
    /// The volume's id now.
    pub volume: VolumeId,
    /// The one that it had: tiers have what was not flushed under it.
    pub before: VolumeId,
    /// Segments that it names and that are missing.
    pub missing: Vec<String>,
}

/// Restores the metadata of a volume from a dump in its bucket. Everything is read and held against its checksum before
/// anything is removed. Ended anywhere the volume is as it was, or nothing mounts it and the same call begins anew.
/// A GET for each 16 MiB of rows, twice; a LIST for each 1,000 segments; the writing of the rows, and one reading of them.
///
/// # Errors
/// `NotFound` without a dump, `Conflict` where somebody has the volume, or where its metadata may not be lost,
/// `Corrupt` if the rows are not those that were dumped.
pub async fn restore_metadata(
    options: RestoreMetadataOptions,
    progress: &BackupProgress,
) -> Result<RestoredMetadata> {
    let first = options.connector.connect(&options.url)?;
    let before = read_format_in(&first).await?;
    let buckets = stripe_set(&before, first, &options.connector).await?;
    claim_idle(&options.url, &options.host, &buckets).await?;
    let timeout_ms = options.connector.options.timeout_ms;
    let lost = Metadata::of(&before, &buckets, None, timeout_ms)?.hasty();
    let (at, dump) = chosen(buckets.first(), options.dump.as_deref()).await?;
    check_alone(&options, &lost).await?;
    if !options.accept_loss {
        check_lost(&options, &lost, &dump).await?;
    }
    let place = options.metadata.as_deref().map_or_else(|| Place::of(&before), Place::parse)?;
    let format = VolumeFormat {
        id: VolumeId(uuid::Uuid::new_v4().to_string()),
        ..before.clone().with_metadata(place.stored())
    };
    match format.problems() {
        problems if problems.is_empty() => {}
        problems => return Err(FsError::new(ErrorKind::Invalid, problems.join("; "))),
    }
    let metadata = Metadata::of(&format, &buckets, None, timeout_ms)?;
    let held = Held::begin(buckets.first(), &options.host).await?;
    let restoring =
        Restoring { options: &options, buckets: &buckets, at, dump, held: &held, progress };
    let done = restoring.run((&before, &lost), (&format, &metadata)).await;
    if done.is_err() && read_format_in(buckets.first()).await.is_ok_and(|now| now == before) {
        // In a database it has a name of its own, which no volume came to have.
        abandon(&metadata).await;
    }
    let dump = restoring.dump;
    let ended = held.end().await;
    let missing = done?;
    ended?;
    Ok(RestoredMetadata { dump, volume: format.id, before: before.id, missing })
}

/// Refuses where nodes share the volume, as far as its metadata can tell.
async fn check_alone(options: &RestoreMetadataOptions, metadata: &Metadata) -> Result<()> {
    let Ok(kv) = metadata.follow(Component::Check).await else { return Ok(()) };
    let checked = check_no_nodes(&options.url, &*kv).await;
    let _ = kv.close().await;
    // Metadata that is damaged may not tell.
    checked.or_else(|error| match error.kind() {
        ErrorKind::Conflict => Err(error),
        _ => Ok(()),
    })
}

/// Refuses where the metadata may not be lost.
async fn check_lost(
    options: &RestoreMetadataOptions,
    metadata: &Metadata,
    dump: &BackupView,
) -> Result<()> {
    let opened = async {
        let kv = metadata.follow(Component::Check).await?;
        let meta = Meta::open(kv.clone(), options.clock.now.clone()).await?;
        let root = meta.inode(Ino::ROOT).await.map(drop);
        let _ = kv.close().await;
        root
    };
    let url = &options.url;
    let why = match opened.await {
        Ok(()) => format!(
            "the metadata of {url} is there and can be read: `weir fsck {url}` says whether it is whole"
        ),
        Err(error) if error.kind() == ErrorKind::Retry => format!(
            "the metadata of {url} may not be lost: {error}. Bring its database or bucket back first, if that can be"
        ),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt) => {
            return Ok(());
        }
        Err(error) => return Err(error),
    };
    let text = format!(
        "{why}. With --accept-loss it is as dump `{}` has it, and what came later is lost",
        dump.name
    );
    Err(FsError::new(ErrorKind::Conflict, text))
}

struct Restoring<'a> {
    options: &'a RestoreMetadataOptions,
    buckets: &'a StripeSet,
    at: String,
    dump: BackupView,
    held: &'a Held,
    progress: &'a BackupProgress,
}

impl Restoring<'_> {
    /// Answers which segments are missing.
    async fn run(
        &self,
        (before, lost): (&VolumeFormat, &Metadata),
        (format, metadata): (&VolumeFormat, &Metadata),
    ) -> Result<Vec<String>> {
        let read = self.rows(None).await?;
        self.dump.check(read, "the objects of its rows")?;
        self.held.check().await?;
        // From here on to the end nothing opens it as metadata.
        metadata.remove().await?;
        let kv = metadata.create().await?;
        let mut restore = Restore::begin(&*kv).await?;
        fail::fail_point!("engine::metadata-removed");
        self.rows(Some((&kv, &mut restore))).await?;
        fail::fail_point!("engine::metadata-loaded");
        // Under its own id before it can be opened: what tiers have under the other one is of another time.
        replace_format(self.buckets.first(), before, format).await?;
        fail::fail_point!("engine::metadata-named");
        restore.end(&*kv).await?;
        kv.close().await?;
        let kv = metadata.follow(Component::Meta).await?;
        let there = sum(&*kv, &|_| ()).await;
        let meta = Meta::open(kv.clone(), self.options.clock.now.clone()).await?;
        let wanted = wanted(&meta).await;
        let _ = kv.close().await;
        self.dump.check_loaded(read, there?)?;
        if lost.place != Place::Bucket || metadata.place != Place::Bucket {
            self.remove_lost(lost).await;
        }
        self.missing(wanted?).await
    }

    /// Reads all rows, and loads them; what makes them metadata is not among those.
    async fn rows(&self, mut to: Option<(&Arc<dyn Kv>, &mut Restore)>) -> Result<Sum> {
        let mut adding = Adding::default();
        for number in 0..self.dump.row_objects {
            let (keys, of) = (self.buckets.keys(), (&self.at[..], &self.dump));
            let rows = read_rows(self.buckets.first(), keys, of, number).await?;
            rows.iter().for_each(|(key, value)| adding.add(key, value));
            if let Some((kv, restore)) = &mut to {
                self.progress.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
                restore.load(&***kv, rows).await?;
            }
        }
        Ok(adding.end())
    }

    /// What was lost is in nobody's way, but whoever still has it open is to see that it is no volume's.
    async fn remove_lost(&self, lost: &Metadata) {
        if let Err(error) = lost.remove().await {
            tracing::warn!(place = %lost.place, %error, "what is left of the lost metadata stays there");
        }
    }

    async fn missing(&self, wanted: Vec<Wanted>) -> Result<Vec<String>> {
        let there: HashMap<_, _> = present(self.buckets).await?;
        // What is shared with another volume is in its buckets.
        let missing = wanted
            .into_iter()
            .filter(|(id, bytes)| self.buckets.is_own(*id) && there.get(id) != Some(bytes));
        Ok(missing.map(|(id, _)| format!("segment {id}")).collect())
    }
}
