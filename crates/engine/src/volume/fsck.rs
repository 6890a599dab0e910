//! Checking a volume: the metadata against itself, its extents against the objects, and if asked
//! every byte against its checksum.

use std::collections::HashMap;
use std::sync::Arc;

use futures::TryStreamExt;
use futures::stream::{self, StreamExt};
use schemars::JsonSchema;
use serde::Serialize;
use weir_meta::{Meta, SegmentUse, check};
use weir_object::{BucketUrl, Component, StripeSet};
use weir_segment::{Scanned, scan_records};
use weir_types::{ErrorKind, Result, SegmentId, UnixTime, VolumeFormat};

use super::age::{age_in_bucket, is_older};
use super::connector::Connector;
use super::format::{read_format_in, stripe_set};
use super::metadata::Metadata;

/// Segments read at once when every byte is checked.
const PARALLEL: usize = 4;

/// What to check.
#[derive(Clone)]
pub struct FsckOptions {
    /// The volume.
    pub url: BucketUrl,
    /// How to reach it.
    pub connector: Connector,
    /// Read every segment and check every record: one GET each.
    pub data: bool,
    /// Where the metadata's database is reached, if not at the URL in `volume.json`.
    pub metadata_url: Option<String>,
}

/// What was found.
#[derive(Clone, Debug, Default, Serialize, JsonSchema)]
pub struct FsckReport {
    /// Inodes in use.
    pub inodes: u64,
    /// Bytes that files take.
    pub stored_bytes: u64,
    /// Segments that the metadata names.
    pub segments: u64,
    /// Bytes of their objects.
    pub object_bytes: u64,
    /// Snapshots that were checked: each as the volume itself.
    pub snapshots: u64,
    /// Objects that nothing names: harmless, the collector takes them.
    pub unnamed_objects: u64,
    /// Records whose checksum was checked.
    pub records_checked: u64,
    /// All that is wrong.
    pub problems: Vec<String>,
}

/// Checks a volume without changing it; it may be mounted meanwhile (then what changes while it is
/// read may be reported as wrong). One LIST for each 1,000 segments, and with `data` one GET for
/// each. `progress` is told segments done and segments in all.
pub async fn fsck(options: FsckOptions, progress: impl Fn(u64, u64)) -> Result<FsckReport> {
    let first = options.connector.connect(&options.url)?;
    let format = read_format_in(&first).await?;
    let buckets = stripe_set(&format, first, &options.connector).await?;
    let timeout_ms = options.connector.options.timeout_ms;
    let instead = options.metadata_url.as_deref();
    let metadata = Metadata::of(&format, &buckets, instead, timeout_ms)?.hasty();
    let kv = metadata.follow(Component::Check).await?;
    let meta = Meta::open(kv.clone(), Arc::new(|| UnixTime(0))).await?;
    let usage = meta.usage().await?;
    let mut report = FsckReport {
        inodes: usage.inodes,
        stored_bytes: usage.stored_bytes,
        problems: check(&*kv).await?.into_iter().map(|p| p.0).collect(),
        ..FsckReport::default()
    };
    if metadata.is_durable_at_once() {
        // First the one that is never ahead: a mount goes on meanwhile.
        let in_bucket = age_in_bucket(&buckets, &format.id).await?;
        let known = meta.age().await?;
        report.problems.extend(is_older(&options.url, known, in_bucket).map(|e| e.to_string()));
    }
    let segments = all_segments(&meta, &mut report).await?;
    check_snapshots(&meta, &segments, &mut report).await?;
    compare_objects(&buckets, &segments, &mut report).await?;
    if options.data {
        check_bytes(&buckets, &segments, &mut report, progress).await?;
    }
    kv.close().await?;
    Ok(report)
}

/// Opens the metadata of a volume for reading and reads from it. Answers where it is: `slate`, or the
/// URL of its database.
pub async fn look_at_metadata(
    format: &VolumeFormat,
    url: &BucketUrl,
    connector: &Connector,
) -> Result<String> {
    let buckets = stripe_set(format, connector.connect(url)?, connector).await?;
    let metadata = Metadata::of(format, &buckets, None, connector.options.timeout_ms)?.hasty();
    let kv = metadata.follow(Component::Check).await?;
    let read = Meta::open(kv.clone(), Arc::new(|| UnixTime(0))).await?.usage().await;
    let _ = kv.close().await;
    read.map(|_| metadata.place.to_string())
}

async fn all_segments(
    meta: &Meta,
    report: &mut FsckReport,
) -> Result<HashMap<SegmentId, SegmentUse>> {
    let mut found = HashMap::new();
    let mut after = None;
    loop {
        let page = meta.segments(after, 1_000).await?;
        let Some(last) = page.last() else { break };
        after = Some(last.id);
        found.extend(page.into_iter().map(|s| (s.id, s)));
    }
    report.segments = found.len() as u64;
    report.object_bytes = found.values().map(|s| s.info.object_bytes).sum();
    Ok(found)
}

/// Each snapshot must be sound by itself, and the volume must know each segment that it has bytes in:
/// so the objects that are looked at are those of all snapshots.
async fn check_snapshots(
    meta: &Meta,
    segments: &HashMap<SegmentId, SegmentUse>,
    report: &mut FsckReport,
) -> Result<()> {
    for (name, row) in meta.snapshots().await? {
        let Some(state) = &row.state else { continue };
        let view = match meta.view_as(&row).await {
            Ok(view) => view,
            Err(error) => {
                report.problems.push(format!("snapshot {name}: {error}"));
                continue;
            }
        };
        report.snapshots += 1;
        let problems = check(&**view.kv()).await?;
        report.problems.extend(problems.into_iter().map(|p| format!("snapshot {name}: {p}")));
        let mut of_it = FsckReport::default();
        let used = all_segments(&view, &mut of_it).await?;
        for (id, _) in used.iter().filter(|(_, segment)| segment.live_bytes > 0) {
            if !segments.contains_key(id) {
                report.problems.push(format!("snapshot {name}: segment {id} is not kept"));
            }
            if *id > state.newest_segment {
                report.problems.push(format!("snapshot {name}: segment {id} is newer than it"));
            }
        }
    }
    Ok(())
}

/// Every named segment must be there in its bucket with its size.
async fn compare_objects(
    buckets: &StripeSet,
    segments: &HashMap<SegmentId, SegmentUse>,
    report: &mut FsckReport,
) -> Result<()> {
    let mut missing: HashMap<_, _> = segments.iter().map(|(id, s)| (*id, *s)).collect();
    for bucket in buckets.iter() {
        let mut listed = std::pin::pin!(bucket.list(Component::Check, "seg/"));
        while let Some(object) = listed.try_next().await? {
            let Some(id) = SegmentId::from_object_key(&object.key) else {
                continue;
            };
            match missing.remove(&id) {
                None => report.unnamed_objects += 1,
                Some(_) if buckets.bucket_for(id).url() != bucket.url() => {
                    report.problems.push(format!("segment {id} lies in {}", bucket.url()));
                }
                Some(segment) if segment.info.object_bytes != object.size => {
                    let wanted = segment.info.object_bytes;
                    let have = object.size;
                    report.problems.push(format!("segment {id} has {have} bytes, not {wanted}"));
                }
                Some(_) => {}
            }
        }
    }
    for bucket in buckets.origins().iter().flat_map(|origin| &origin.buckets) {
        let mut listed = std::pin::pin!(bucket.list(Component::Check, "seg/"));
        while let Some(object) = listed.try_next().await? {
            let id = SegmentId::from_object_key(&object.key);
            let shared = id.filter(|id| buckets.bucket_for(*id).url() == bucket.url());
            let Some((id, segment)) = shared.and_then(|id| Some((id, missing.remove(&id)?))) else {
                continue;
            };
            let (wanted, have) = (segment.info.object_bytes, object.size);
            if wanted != have {
                report.problems.push(format!("segment {id} has {have} bytes, not {wanted}"));
            }
        }
    }
    let gone = missing.keys().map(|id| format!("segment {id} is missing"));
    report.problems.extend(gone);
    Ok(())
}

async fn check_bytes(
    buckets: &StripeSet,
    segments: &HashMap<SegmentId, SegmentUse>,
    report: &mut FsckReport,
    progress: impl Fn(u64, u64),
) -> Result<()> {
    let mut reading = stream::iter(segments.keys().copied())
        .map(|id| async move {
            let bucket = buckets.bucket_for(id);
            (id, bucket.get(Component::Check, &id.object_key()).await)
        })
        .buffer_unordered(PARALLEL);
    let mut done = 0;
    while let Some((id, bytes)) = reading.next().await {
        match bytes {
            Ok(bytes) => match scan_records(id, &bytes) {
                Ok(scan) => {
                    for scanned in scan {
                        match scanned {
                            Scanned::Record(..) => report.records_checked += 1,
                            other => report.problems.push(format!("segment {id}: {other:?}")),
                        }
                    }
                }
                Err(error) => report.problems.push(error.to_string()),
            },
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        done += 1;
        progress(done, segments.len() as u64);
    }
    Ok(())
}
