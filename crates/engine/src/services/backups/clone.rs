//! A volume that begins as a snapshot of another one and shares its segments.
//!
//! The rows are copied; segments stay where they are, and the clone reads them there. What must always hold: the snapshot
//! is held before anything is named, and a clone never changes or removes an object of where it came from.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use schemars::JsonSchema;
use serde::Serialize;
use weir_meta::kv::Kv;
use weir_meta::{Adding, Sum, dump, load};
use weir_object::{BucketUrl, StripeSet};
use weir_types::{ErrorKind, FsError, Origin, Result, VolumeFormat, VolumeId};

use super::held::Held;
use super::making::Making;
use super::progress::BackupProgress;
use super::segments::wanted;
use super::source::Source;
use crate::volume::connector::Connector;
use crate::volume::context::Clock;
use crate::volume::format::{check_no_segments, empty_places, origins_of};
use crate::volume::host::Host;
use crate::volume::metadata::{Metadata, Place};

/// What becomes a volume of its own, and where.
#[derive(Clone)]
pub struct CloneOptions {
    /// The volume that it comes from.
    pub from: BucketUrl,
    /// The snapshot that it begins as, which must be held.
    pub snapshot: String,
    /// The new volume's first bucket.
    pub to: BucketUrl,
    /// More buckets to spread its segments over.
    pub stripe: Vec<BucketUrl>,
    /// The database for its metadata; `None` or `slate` is the bucket.
    pub metadata: Option<String>,
    /// Go on with imports and exports of links: else they stand still until somebody says so.
    pub keep_links: bool,
    /// How buckets are reached, both volumes' by the same keys.
    pub connector: Connector,
    /// This process.
    pub host: Host,
    /// The time.
    pub clock: Clock,
}

/// A volume that shares segments with another one.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct ClonedVolume {
    /// Its name.
    pub volume: VolumeId,
    /// Where it came from.
    pub from: String,
    /// The snapshot of that, which is held for it.
    pub snapshot: String,
    /// Rows of its metadata.
    pub rows: u64,
    /// Segments that it shares.
    pub segments: u64,
    /// Bytes of their objects.
    pub object_bytes: u64,
    /// Links that stand still.
    pub paused_links: u64,
}

/// Makes a volume of a snapshot. No segment is read or copied; reads and writes all rows of metadata twice. Ended
/// anywhere it leaves no volume, and the same call begins anew.
///
/// # Errors
/// `Exists` if there is a volume, or segments of one, `NotFound` if there is no such snapshot, `Conflict` if nobody holds it.
pub async fn clone_volume(
    options: CloneOptions,
    progress: &BackupProgress,
) -> Result<ClonedVolume> {
    let source = Source::open(&options.from, &options.connector, &options.snapshot).await?;
    let origin = origin(&options, &source)?;
    let place = options.metadata.as_deref().map_or(Ok(Place::Bucket), Place::parse)?;
    let urls = std::iter::once(&options.to).chain(&options.stripe);
    let format = VolumeFormat {
        id: VolumeId(uuid::Uuid::new_v4().to_string()),
        stripe_set: urls.clone().map(ToString::to_string).collect(),
        created_unix_s: (options.clock.now)().parts().0,
        metadata: None,
        ..source.format.clone()
    };
    let format = format.with_metadata(place.stored()).with_origin(origin);
    let own = empty_places(&format, urls, &options.connector).await?;
    check_no_segments(&own).await?;
    let held = Held::begin(&own[0], &options.host).await?;
    let keys = source.buckets.keys().clone();
    let origins = origins_of(&format, &options.connector)?;
    let to = StripeSet::new(own)?.opened_by(keys).beginning_in(origins);
    let making = Making {
        url: &options.to,
        format,
        to,
        held: &held,
        clock: &options.clock,
        keep_links: options.keep_links,
        timeout_ms: options.connector.options.timeout_ms,
    };
    let cloning = Cloning { options: &options, source: &source, making, progress };
    let done = cloning.run().await;
    let ended = held.end().await;
    let done = done?;
    ended.map(|()| done)
}

/// Where the clone begins: a snapshot that is whole and held.
fn origin(options: &CloneOptions, source: &Source) -> Result<Origin> {
    let state = match (&source.row.state, source.row.held) {
        (Some(state), true) => state,
        (None, _) => {
            let text = format!("snapshot {} is not whole: choose another one", options.snapshot);
            return Err(FsError::new(ErrorKind::Conflict, text));
        }
        (Some(_), false) => {
            let text = format!(
                "nobody holds snapshot {name}: what a clone needs could be deleted (`weir snapshot hold {url} {name}`)",
                name = options.snapshot,
                url = options.from
            );
            return Err(FsError::new(ErrorKind::Conflict, text));
        }
    };
    let mut buckets = source.format.stripe_set.clone();
    // As it is reached now, which may be another name than it was made under.
    buckets[0] = options.from.to_string();
    Ok(Origin {
        stripe_set: buckets,
        volume: source.format.id.clone(),
        snapshot: options.snapshot.clone(),
        // A clone that has no segment of its own yet has what it shares.
        newest_segment: source
            .buckets
            .newest_shared()
            .map_or(state.newest_segment, |newest| newest.max(state.newest_segment))
            .to_string(),
    })
}

struct Cloning<'a> {
    options: &'a CloneOptions,
    source: &'a Source,
    making: Making<'a>,
    progress: &'a BackupProgress,
}

impl Cloning<'_> {
    async fn run(self) -> Result<ClonedVolume> {
        let metadata = self.making.metadata()?;
        let made = self.make(&metadata).await;
        self.making.end(&metadata, made).await
    }

    async fn make(&self, metadata: &Metadata) -> Result<ClonedVolume> {
        let kv = self.making.begin(metadata).await?;
        let copied = self.rows(&kv).await?;
        let shared = wanted(&self.making.meta(kv.clone()).await?).await?;
        kv.close().await?;
        fail::fail_point!("engine::clone-loaded");
        if !self.making.read_back(metadata).await?.is_of_same(&copied) {
            let text = "what was read back of the metadata is not what was written: try again";
            return Err(FsError::new(ErrorKind::Corrupt, text));
        }
        let paused_links = self.making.pause_links(metadata).await?;
        Ok(ClonedVolume {
            volume: self.making.format.id.clone(),
            from: self.options.from.to_string(),
            snapshot: self.options.snapshot.clone(),
            rows: copied.rows,
            segments: shared.len() as u64,
            object_bytes: shared.iter().map(|(_, bytes)| bytes).sum(),
            paused_links,
        })
    }

    async fn rows(&self, kv: &Arc<dyn Kv>) -> Result<Sum> {
        let (mut adding, mut after) = (Adding::default(), None);
        loop {
            let page = dump(&**self.source.view.kv(), after.as_deref()).await?;
            page.rows.iter().for_each(|(key, value)| adding.add(key, value));
            self.progress.rows.fetch_add(page.rows.len() as u64, Ordering::Relaxed);
            load(&**kv, page.rows).await?;
            fail::fail_point!("engine::clone-loading");
            after = page.next;
            if after.is_none() {
                kv.sync().await?;
                return Ok(adding.end());
            }
        }
    }
}
