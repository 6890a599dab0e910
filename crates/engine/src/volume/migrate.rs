//! Moving a volume's metadata from one engine to another.
//!
//! The rows are copied while nobody else can change them, both sides are compared, and then one
//! conditional PUT of `volume.json` says where they are from now on. What must always hold:
//!
//! - Until that PUT the volume is where it was, unchanged; after it the other engine has every row.
//! - Whoever ends this at any point leaves a volume that can be mounted. A copy that was begun is
//!   begun anew.
//! - Nobody writes the volume meanwhile: this has the right to write, as a mount has, and the old
//!   engine fences whoever opened it before. A mount that begins meanwhile looks at both again when it
//!   has fenced this one ([`super::claim::confirm`]).

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Serialize;
use weir_meta::kv::Kv;
use weir_meta::{Meta, Sum, copy, sum};
use weir_object::{BucketUrl, Component, StripeSet};
use weir_types::{ErrorKind, FsError, Result, Settings, VolumeFormat};

use super::age::{age_in_bucket, is_older};
use super::claim::{check_clean, claim_idle, end_lease, write_lease};
use super::connector::Connector;
use super::context::Clock;
use super::format::{read_format_in, replace_format, stripe_set};
use super::host::Host;
use super::metadata::{Metadata, Place};

/// What is to be moved, and where to.
#[derive(Clone)]
pub struct MigrateOptions {
    /// The volume.
    pub url: BucketUrl,
    /// How to reach it.
    pub connector: Connector,
    /// `slate`, or the URL of a database.
    pub to: String,
    /// Where the database is reached that has, or had, the metadata, if not at the URL in
    /// `volume.json`.
    pub metadata_url: Option<String>,
    /// Remove the metadata where it was, now or when an earlier run left it.
    pub remove_old: bool,
    /// This process.
    pub host: Host,
    /// The time.
    pub clock: Clock,
}

/// What a migration does at the moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MigrateStep {
    /// The rows are counted and summed up.
    Counting,
    /// They are copied.
    Copying,
    /// They are read back and compared.
    Comparing,
}

/// What a migration did.
#[derive(Clone, Debug, Serialize, JsonSchema)]
pub struct MigrateReport {
    /// Where the metadata was: `slate`, or the URL of a database.
    pub from: String,
    /// Where it is.
    pub to: String,
    /// Whether anything was moved: not if it was there already.
    pub moved: bool,
    /// Rows that were copied.
    pub rows: u64,
    /// Bytes of their keys and values.
    pub bytes: u64,
    /// XXH3 of all rows, the same on both sides.
    pub xxh3: String,
    /// Whether the metadata was removed where it was.
    pub removed_old: bool,
}

/// How far it is: the step, rows done, and rows in all once they are counted.
pub type MigrateProgress<'a> = &'a (dyn Fn(MigrateStep, u64, Option<u64>) + Sync);

struct Migration {
    options: MigrateOptions,
    format: VolumeFormat,
    buckets: StripeSet,
    from: Metadata,
    to: Metadata,
    /// The name under which this has the right to write.
    id: String,
}

/// Moves a volume's metadata. It must be unmounted, after a clean end. Reads all rows of the source
/// twice and those of the target once.
pub async fn migrate(
    options: MigrateOptions,
    progress: MigrateProgress<'_>,
) -> Result<MigrateReport> {
    let to = Place::parse(&options.to)?;
    let first = options.connector.connect(&options.url)?;
    let format = read_format_in(&first).await?;
    let buckets = stripe_set(&format, first, &options.connector).await?;
    let timeout_ms = options.connector.options.timeout_ms;
    let at = |place| Metadata::at(place, &buckets, &format.id, timeout_ms);
    let stored = Place::of(&format)?;
    if to == stored {
        return remove_left(&options, at(stored), at).await;
    }
    let problems = format.clone().with_metadata(to.stored()).problems();
    if !problems.is_empty() {
        return Err(FsError::new(ErrorKind::Unsupported, problems.join("; ")));
    }
    let instead = options.metadata_url.as_deref().filter(|_| stored != Place::Bucket);
    let from = Metadata::of(&format, &buckets, instead, timeout_ms)?;
    let (to, id) = (at(to), uuid::Uuid::new_v4().to_string());
    let migration = Migration { options, format, buckets, from, to, id };
    let held = migration.check_idle().await?;
    write_lease(&migration.options.host, &migration.buckets, &migration.id).await?;
    fail::fail_point!("engine::migrate-leased");
    let moved = match migration.changes_address_only() {
        true => migration.change_address().await,
        false => migration.run(held, progress).await,
    };
    fail::fail_point!("engine::migrate-done");
    let ended = end_lease(&migration.buckets, &migration.id).await;
    let mut report = moved?;
    ended?;
    if migration.options.remove_old && !migration.changes_address_only() {
        migration.from.remove().await?;
        report.removed_old = true;
    }
    Ok(report)
}

/// The metadata is where it is to be: what an earlier run left at the other place may go.
async fn remove_left(
    options: &MigrateOptions,
    here: Metadata,
    at: impl Fn(Place) -> Metadata,
) -> Result<MigrateReport> {
    let mut report = MigrateReport {
        from: here.place.to_string(),
        to: here.place.to_string(),
        moved: false,
        rows: 0,
        bytes: 0,
        xxh3: String::new(),
        removed_old: false,
    };
    if options.remove_old {
        let old = match (&here.place, &options.metadata_url) {
            (Place::Postgres(_), _) => Place::Bucket,
            (Place::Bucket, Some(url)) => Place::parse(url)?,
            (Place::Bucket, None) => {
                let text = "the metadata is in the bucket: name the database that had it with --meta, \
                            so that it can be removed there";
                return Err(FsError::new(ErrorKind::Invalid, text));
            }
        };
        if old == here.place {
            let text = format!("{old} has the metadata: it cannot be removed there");
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        report.from = old.to_string();
        at(old).remove().await?;
        report.removed_old = true;
    }
    Ok(report)
}

/// A snapshot is a state of the metadata where that is now: it cannot come along.
async fn check_no_snapshots(url: &BucketUrl, meta: &Meta) -> Result<()> {
    let some = !meta.snapshots().await?.is_empty() || !meta.ending_snapshots().await?.is_empty();
    if !some && meta.held_segments(None, 1).await?.is_empty() {
        return Ok(());
    }
    let text = format!(
        "{url} has snapshots, which are kept with its metadata where that is now and cannot move: \
         delete them first (`weir snapshot delete`), and mount it until the collector has let go of \
         what they held"
    );
    Err(FsError::new(ErrorKind::Unsupported, text))
}

impl Migration {
    /// From one database to another: PostgreSQL's own tools copy one, and keep it consistent.
    fn changes_address_only(&self) -> bool {
        self.from.place != Place::Bucket && self.to.place != Place::Bucket
    }

    /// Refuses a volume that is mounted or did not end cleanly, before anything is disturbed.
    async fn check_idle(&self) -> Result<bool> {
        let url = &self.options.url;
        let held = claim_idle(url, &self.options.host, &self.buckets).await?;
        if !self.changes_address_only() {
            let kv = self.from.follow(Component::Meta).await?;
            let meta = self.meta(&kv).await?;
            let checked = match check_clean(url, &meta, held).await {
                Ok(()) => self.check_age(&self.from, &meta).await,
                refused => refused,
            };
            let checked = match checked {
                Ok(()) => check_no_snapshots(url, &meta).await,
                refused => refused,
            };
            let _ = kv.close().await;
            checked?;
        }
        Ok(held)
    }

    /// Refuses a database of before the volume's last mount: to the bucket it would be the last state.
    async fn check_age(&self, of: &Metadata, meta: &Meta) -> Result<()> {
        if !of.is_durable_at_once() {
            return Ok(());
        }
        let in_bucket = age_in_bucket(&self.buckets, &self.format.id).await?;
        let older = is_older(&self.options.url, meta.age().await?, in_bucket);
        older.map_or(Ok(()), Err)
    }

    async fn meta(&self, kv: &Arc<dyn Kv>) -> Result<Meta> {
        Meta::open(kv.clone(), self.options.clock.now.clone()).await
    }

    /// The same rows at another address, to which somebody else brought them.
    async fn change_address(&self) -> Result<MigrateReport> {
        let kv = self.to.follow(Component::Meta).await?;
        let meta = self.meta(&kv).await?;
        check_clean(&self.options.url, &meta, false).await?;
        self.check_age(&self.to, &meta).await?;
        let rows = sum(&*kv, &|_| ()).await?;
        let _ = kv.close().await;
        self.switch().await?;
        Ok(self.report(rows))
    }

    async fn run(&self, held: bool, progress: MigrateProgress<'_>) -> Result<MigrateReport> {
        let opened = self.from.open((&self.id, false), &Settings::default(), None).await?;
        let from = opened.kv;
        let meta = self.meta(&from).await?;
        // Nobody else can change it from here on; until here somebody could.
        check_clean(&self.options.url, &meta, held).await?;
        let copied = self.copy(&*from, progress).await?;
        fail::fail_point!("engine::migrate-compared");
        // Whoever opened it since then fenced this one, and this fails.
        meta.prove_writer().await?;
        self.switch().await?;
        if let Err(error) = meta.close().await {
            tracing::warn!(%error, "the metadata that was moved was not closed in order");
        }
        Ok(self.report(copied))
    }

    /// Copies all rows and reads them back.
    async fn copy(&self, from: &dyn Kv, progress: MigrateProgress<'_>) -> Result<Sum> {
        let counted = sum(from, &|rows| progress(MigrateStep::Counting, rows, None)).await?;
        let all = Some(counted.rows);
        // A copy that did not come to its end, or one of another time.
        self.to.remove().await?;
        fail::fail_point!("engine::migrate-emptied");
        let to = self.to.create().await?;
        let copying = |rows| {
            fail::fail_point!("engine::migrate-copying");
            progress(MigrateStep::Copying, rows, all);
        };
        let copied = copy(from, &*to, &copying).await?;
        fail::fail_point!("engine::migrate-copied");
        // As the next mount opens it.
        to.close().await?;
        let to = self.to.follow(Component::Meta).await?;
        let there = sum(&*to, &|rows| progress(MigrateStep::Comparing, rows, all)).await?;
        let _ = to.close().await;
        if counted.is_of_same(&copied) && copied.is_of_same(&there) {
            return Ok(copied);
        }
        let text = format!(
            "the copy in {} is not what {} has ({} rows in {} bytes there, {} in {} here): nothing was \
             changed; try again",
            self.to.place, self.from.place, there.rows, there.bytes, counted.rows, counted.bytes
        );
        Err(FsError::new(ErrorKind::Corrupt, text))
    }

    /// Says in `volume.json` where the metadata is from now on.
    async fn switch(&self) -> Result<()> {
        let format = self.format.clone().with_metadata(self.to.place.stored());
        fail::fail_point!("engine::migrate-switching");
        replace_format(self.buckets.first(), &self.format, &format).await?;
        fail::fail_point!("engine::migrate-switched");
        Ok(())
    }

    fn report(&self, sum: Sum) -> MigrateReport {
        MigrateReport {
            from: self.from.place.to_string(),
            to: self.to.place.to_string(),
            moved: true,
            rows: sum.rows,
            bytes: sum.bytes,
            xxh3: format!("{:032x}", sum.xxh3),
            removed_old: false,
        }
    }
}
