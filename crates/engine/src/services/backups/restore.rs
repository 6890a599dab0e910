//! A volume made of a backup.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use schemars::JsonSchema;
use serde::Serialize;
use weir_meta::kv::Kv;
use weir_meta::{Adding, Meta, Sum, first_row, load, sum};
use weir_object::{Bucket, BucketUrl, Component, StripeSet};
use weir_types::{ErrorKind, FORMAT_VERSION, FsError, Result, Settings, VolumeFormat, VolumeId};

use super::held::Held;
use super::keep::backups;
use super::manifest::{BackupView, opened};
use super::progress::BackupProgress;
use super::rows::read_rows;
use super::segments::{Copied, Copying, Wanted, wanted};
use crate::services::links::paused::pause_all;
use crate::volume::context::Clock;
use crate::volume::format::{Connector, VOLUME_KEY, abandon, empty_places, encode, exists};
use crate::volume::host::Host;
use crate::volume::metadata::{Metadata, Place};

/// Which backup becomes a volume, and where.
#[derive(Clone)]
pub struct RestoreVolumeOptions {
    /// The place of backups.
    pub from: BucketUrl,
    /// Which one; the newest without.
    pub backup: Option<String>,
    /// The volume's first bucket.
    pub to: BucketUrl,
    /// More buckets to spread segments over.
    pub stripe: Vec<BucketUrl>,
    /// The database for the metadata; `None` or `slate` is the bucket.
    pub metadata: Option<String>,
    /// Go on with imports and exports of links: else they stand still until somebody says so.
    pub keep_links: bool,
    /// How backups are reached.
    pub connector: Connector,
    /// How the volume's buckets are reached.
    pub to_connector: Connector,
    /// Segments that are copied at once.
    pub jobs: usize,
    /// This process.
    pub host: Host,
    /// The time.
    pub clock: Clock,
}

/// A volume that was restored.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct RestoredVolume {
    /// Its backup.
    pub backup: BackupView,
    /// Its name now.
    pub volume: VolumeId,
    /// Segments that were not there from an earlier try.
    pub copied: u64,
    /// Bytes of their objects.
    pub copied_bytes: u64,
    /// Links that stand still.
    pub paused_links: u64,
    /// What is damaged or missing: files that need it cannot be read there.
    pub damaged: Vec<String>,
}

/// Makes a volume of a backup, with an id of its own. A GET and a PUT for each segment that is not there from an earlier try, a
/// GET for each 16 MiB of rows. Ended anywhere it leaves no volume, and the same call goes on.
///
/// # Errors
/// `Exists` if there is a volume, `NotFound` if there is no such backup, `Corrupt` if the rows are not what was taken.
pub async fn restore_volume(
    options: RestoreVolumeOptions,
    progress: &BackupProgress,
) -> Result<RestoredVolume> {
    let from = opened(options.connector.connect(&options.from)?).await?;
    let backup = chosen(&options, &from).await?;
    let place = options.metadata.as_deref().map_or(Ok(Place::Bucket), Place::parse)?;
    let urls = std::iter::once(&options.to).chain(&options.stripe);
    let format = VolumeFormat {
        format_version: FORMAT_VERSION,
        id: VolumeId(uuid::Uuid::new_v4().to_string()),
        stripe_set: urls.clone().map(ToString::to_string).collect(),
        record_bytes: backup.record_bytes,
        segment_bytes: backup.segment_bytes,
        codec: backup.codec,
        created_unix_s: (options.clock.now)().parts().0,
        metadata: None,
        encryption: None,
    };
    let format = format.with_metadata(place.stored()).with_encryption(backup.encryption.clone());
    let keys = options.connector.unlock(&options.from, format.encryption.as_ref()).await?;
    let buckets = empty_places(&format, urls, &options.to_connector).await?;
    let held = Held::begin(&buckets[0], &options.host).await?;
    let to = StripeSet::new(buckets)?.opened_by(keys);
    let restoring =
        Restoring { options: &options, format, from, to, backup, held: &held, progress };
    let done = restoring.run().await;
    let ended = held.end().await;
    let done = done?;
    ended.map(|()| done)
}

async fn chosen(options: &RestoreVolumeOptions, from: &Bucket) -> Result<BackupView> {
    if let Some(name) = &options.backup {
        return BackupView::read(from, name).await;
    }
    let newest = backups(&options.from, &options.connector).await?.pop();
    newest.ok_or_else(|| {
        let text = format!("there is no backup in {}", options.from);
        FsError::new(ErrorKind::NotFound, text)
    })
}

struct Restoring<'a> {
    options: &'a RestoreVolumeOptions,
    format: VolumeFormat,
    from: Bucket,
    to: StripeSet,
    backup: BackupView,
    held: &'a Held,
    progress: &'a BackupProgress,
}

impl Restoring<'_> {
    async fn run(self) -> Result<RestoredVolume> {
        let timeout_ms = self.options.to_connector.options.timeout_ms;
        let metadata = Metadata::of(&self.format, &self.to, None, timeout_ms)?;
        let made = self.make(&metadata).await;
        if made.is_err() {
            abandon(&metadata).await;
        }
        let (Copied { segments: copied, bytes: copied_bytes, damaged }, paused_links) = made?;
        // Last. Without an answer it may be a volume.
        let bytes = encode(&self.format)?;
        if !self.to.first().put_new(Component::Volume, VOLUME_KEY, bytes).await? {
            abandon(&metadata).await;
            return Err(exists(&self.options.to));
        }
        let (backup, volume) = (self.backup, self.format.id);
        Ok(RestoredVolume { backup, volume, copied, copied_bytes, paused_links, damaged })
    }

    async fn make(&self, metadata: &Metadata) -> Result<(Copied, u64)> {
        // What an earlier try left.
        metadata.remove().await?;
        let kv = metadata.create().await?;
        let wanted = self.rows(&kv).await?;
        kv.close().await?;
        self.compare(metadata).await?;
        let from = StripeSet::new(vec![self.from.clone()])?;
        let copying = Copying {
            from: &from,
            to: &self.to,
            jobs: self.options.jobs,
            verify: false,
            progress: self.progress,
        };
        let copied = copying.all(wanted).await?;
        let paused_links = match self.options.keep_links {
            true => 0,
            false => self.pause_links(metadata).await?,
        };
        fail::fail_point!("engine::restore-loaded");
        self.held.check().await?;
        Ok((copied, paused_links))
    }

    /// Loads all rows, and answers the segments that they name.
    async fn rows(&self, kv: &Arc<dyn Kv>) -> Result<Vec<Wanted>> {
        load(&**kv, vec![first_row()?]).await?;
        let mut adding = Adding::default();
        for number in 0..self.backup.row_objects {
            let rows = read_rows(&self.from, self.to.keys(), &self.backup, number).await?;
            rows.iter().for_each(|(key, value)| adding.add(key, value));
            self.progress.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
            load(&**kv, rows).await?;
            fail::fail_point!("engine::restore-loading");
        }
        self.check(adding.end(), "the objects of its rows")?;
        kv.sync().await?;
        wanted(&self.meta(kv.clone()).await?).await
    }

    /// Reads back what was loaded, as the next mount opens it.
    async fn compare(&self, metadata: &Metadata) -> Result<()> {
        let kv = metadata.follow(Component::Meta).await?;
        let there = sum(&*kv, &|_| ()).await;
        let _ = kv.close().await;
        self.check(there?, "what was loaded")
    }

    fn check(&self, is: Sum, what: &str) -> Result<()> {
        let BackupView { name, rows, row_bytes, xxh3, .. } = &self.backup;
        if (is.rows, is.bytes) == (*rows, *row_bytes) && format!("{:032x}", is.xxh3) == *xxh3 {
            return Ok(());
        }
        let text = format!(
            "backup `{name}` has {rows} rows in {row_bytes} bytes, and {what} {} in {}, or others: restore \
             another one",
            is.rows, is.bytes
        );
        Err(FsError::new(ErrorKind::Corrupt, text))
    }

    /// Has links neither import nor export: the volume that was backed up may still do so.
    async fn pause_links(&self, metadata: &Metadata) -> Result<u64> {
        let kv = metadata.follow(Component::Meta).await?;
        let some = self.meta(kv.clone()).await?.links().await;
        let _ = kv.close().await;
        if some?.is_empty() {
            return Ok(0);
        }
        let opened = metadata.open(("restore", true), &Settings::default(), None).await?;
        let meta = self.meta(opened.kv).await?;
        let paused = pause_all(&meta).await?;
        meta.close().await?;
        Ok(paused)
    }

    async fn meta(&self, kv: Arc<dyn Kv>) -> Result<Meta> {
        Meta::open(kv, self.options.clock.now.clone()).await
    }
}
