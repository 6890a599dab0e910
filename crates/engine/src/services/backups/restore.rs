//! A volume made of a backup.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use schemars::JsonSchema;
use serde::Serialize;
use weir_meta::kv::Kv;
use weir_meta::{Adding, Sum, is_age, load};
use weir_object::{Bucket, BucketUrl, StripeSet};
use weir_types::{ErrorKind, FORMAT_VERSION, FsError, Result, VolumeFormat, VolumeId};

use super::held::Held;
use super::keep::backups;
use super::making::Making;
use super::manifest::{BackupView, at, opened};
use super::progress::BackupProgress;
use super::rows::read_rows;
use super::segments::{Copied, Copying, Wanted, wanted};
use crate::volume::connector::Connector;
use crate::volume::context::Clock;
use crate::volume::format::empty_places;
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
/// `Exists` if there is a volume, or segments of another one, `NotFound` if there is no such backup, `Corrupt` if the rows are not what was taken.
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
        origins: Vec::new(),
    };
    let format = format.with_metadata(place.stored()).with_encryption(backup.encryption.clone());
    let keys = options.connector.unlock(&options.from, format.encryption.as_ref()).await?;
    let buckets = empty_places(&format, urls, &options.to_connector).await?;
    let held = Held::begin(&buckets[0], &options.host).await?;
    let making = Making {
        url: &options.to,
        format,
        to: StripeSet::new(buckets)?.opened_by(keys),
        held: &held,
        clock: &options.clock,
        keep_links: options.keep_links,
        timeout_ms: options.to_connector.options.timeout_ms,
    };
    let restoring = Restoring { options: &options, from, backup, making, progress };
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
    from: Bucket,
    backup: BackupView,
    making: Making<'a>,
    progress: &'a BackupProgress,
}

impl Restoring<'_> {
    async fn run(self) -> Result<RestoredVolume> {
        let metadata = self.making.metadata()?;
        let made = self.make(&metadata).await;
        let (copied, paused_links) = self.making.end(&metadata, made).await?;
        let Copied { segments: copied, bytes: copied_bytes, damaged } = copied;
        let (backup, volume) = (self.backup, self.making.format.id);
        Ok(RestoredVolume { backup, volume, copied, copied_bytes, paused_links, damaged })
    }

    async fn make(&self, metadata: &Metadata) -> Result<(Copied, u64)> {
        let kv = self.making.begin(metadata).await?;
        let (wanted, loaded) = self.rows(&kv).await?;
        kv.close().await?;
        if !self.making.read_back(metadata).await?.is_of_same(&loaded) {
            let text = "the rows that were loaded cannot be read back as they were: try again";
            return Err(FsError::new(ErrorKind::Corrupt, text));
        }
        let from = StripeSet::new(vec![self.from.clone()])?;
        let copying = Copying {
            from: &from,
            to: &self.making.to,
            jobs: self.options.jobs,
            alone: true,
            verify: false,
            progress: self.progress,
        };
        let copied = copying.all(wanted).await?;
        let paused_links = self.making.pause_links(metadata).await?;
        fail::fail_point!("engine::restore-loaded");
        Ok((copied, paused_links))
    }

    /// Loads all rows, and answers the segments that they name, and the sum of what was loaded.
    async fn rows(&self, kv: &Arc<dyn Kv>) -> Result<(Vec<Wanted>, Sum)> {
        let (mut adding, mut loaded) = (Adding::default(), Adding::default());
        let at = at(&self.backup.name);
        for number in 0..self.backup.row_objects {
            let of = (&at[..], &self.backup);
            let mut rows = read_rows(&self.from, self.making.to.keys(), of, number).await?;
            rows.iter().for_each(|(key, value)| adding.add(key, value));
            self.progress.rows.fetch_add(rows.len() as u64, Ordering::Relaxed);
            // The copies are young, and in the class of all that is new.
            rows.retain(|(key, _)| !is_age(key));
            rows.iter().for_each(|(key, value)| loaded.add(key, value));
            load(&**kv, rows).await?;
            fail::fail_point!("engine::restore-loading");
        }
        self.backup.check(adding.end(), "the objects of its rows")?;
        kv.sync().await?;
        let wanted = wanted(&self.making.meta(kv.clone()).await?).await?;
        Ok((wanted, loaded.end()))
    }
}
