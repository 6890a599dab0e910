//! Segments copied from one bucket to another, each checked on the way.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;
use futures::{StreamExt, TryStreamExt, stream};
use weir_meta::Meta;
use weir_object::{Component, StripeSet};
use weir_segment::{Scanned, scan_records};
use weir_types::{ErrorKind, Result, SegmentId};

use super::progress::BackupProgress;
use crate::volume::format::{SEGMENT_PATH, strangers};

/// Segments of metadata read at once.
const PAGE: usize = 1_000;

/// A segment and the bytes of its object.
pub(super) type Wanted = (SegmentId, u64);

/// What was copied.
#[derive(Default)]
pub(super) struct Copied {
    pub(super) segments: u64,
    pub(super) bytes: u64,
    /// What was damaged where it came from, or missing there.
    pub(super) damaged: Vec<String>,
}

/// Where segments are copied, and how.
pub(super) struct Copying<'a> {
    pub(super) from: &'a StripeSet,
    pub(super) to: &'a StripeSet,
    /// Copied at once.
    pub(super) jobs: usize,
    /// Whether nobody else has segments there: what is there is of an earlier try, or the place is not ours.
    pub(super) alone: bool,
    /// Whether those that are there already are read.
    pub(super) verify: bool,
    pub(super) progress: &'a BackupProgress,
}

/// Segments that are in these buckets, with the bytes of their objects. One LIST for each 1,000.
pub(super) async fn present(buckets: &StripeSet) -> Result<HashMap<SegmentId, u64>> {
    let mut found = HashMap::new();
    for bucket in buckets.iter() {
        let mut listing = bucket.list(Component::Data, SEGMENT_PATH);
        while let Some(object) = listing.try_next().await? {
            if let Some(id) = SegmentId::from_object_key(&object.key) {
                found.insert(id, object.size);
            }
        }
    }
    Ok(found)
}

impl Copying<'_> {
    /// Copies what is not there. One GET and one PUT for each, and with `verify` one GET for each that is there.
    pub(super) async fn all(&self, wanted: Vec<Wanted>) -> Result<Copied> {
        let there = present(self.to).await?;
        if self.alone {
            let needed: HashSet<SegmentId> = wanted.iter().map(|(id, _)| *id).collect();
            if let Some(stranger) = there.keys().find(|id| !needed.contains(id)) {
                return Err(strangers(self.to.bucket_for(*stranger).url()));
            }
        }
        self.progress.all(wanted.len() as u64, wanted.iter().map(|(_, bytes)| bytes).sum());
        let copying = wanted.into_iter().map(|(id, bytes)| {
            let is_there = there.get(&id) == Some(&bytes);
            async move {
                let done = self.one(id, bytes, is_there).await;
                self.progress.segment(bytes);
                done
            }
        });
        let mut copying = stream::iter(copying).buffer_unordered(self.jobs.max(1));
        let mut copied = Copied::default();
        while let Some(one) = copying.try_next().await? {
            copied.segments += one.segments;
            copied.bytes += one.bytes;
            copied.damaged.extend(one.damaged);
        }
        copied.damaged.sort_unstable();
        Ok(copied)
    }

    async fn one(&self, id: SegmentId, bytes: u64, is_there: bool) -> Result<Copied> {
        let key = id.object_key();
        let target = self.to.bucket_for(id);
        if is_there {
            let sound = !self.verify
                || match target.get_range(Component::Check, &key, 0..bytes).await {
                    Ok(whole) => damage(id, &whole).is_none(),
                    Err(error) if is_lost(&error) => false,
                    Err(error) => return Err(error),
                };
            if sound {
                return Ok(Copied::default());
            }
        }
        let whole = match self.from.bucket_for(id).get_range(Component::Data, &key, 0..bytes).await
        {
            Ok(whole) => whole,
            Err(error) if is_lost(&error) => {
                let damaged = vec![format!("segment {id}: {error}")];
                return Ok(Copied { damaged, ..Copied::default() });
            }
            Err(error) => return Err(error),
        };
        let damaged = damage(id, &whole).into_iter().collect();
        // What of it is sound may be all that somebody needs.
        target.put(Component::Data, &key, whole).await?;
        Ok(Copied { segments: 1, bytes, damaged })
    }
}

fn is_lost(error: &weir_types::FsError) -> bool {
    matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Corrupt)
}

/// What of a segment does not have its checksum.
fn damage(id: SegmentId, whole: &Bytes) -> Option<String> {
    match scan_records(id, whole) {
        Err(error) => Some(error.to_string()),
        Ok(scan) => scan.into_iter().find_map(|scanned| match scanned {
            Scanned::Record(_) => None,
            Scanned::Skipped { start, end, error } => {
                Some(format!("segment {id}: bytes {start} to {end}: {error}"))
            }
        }),
    }
}

/// The segments in which a state has bytes.
pub(super) async fn wanted(view: &Meta) -> Result<Vec<Wanted>> {
    let (mut wanted, mut after) = (Vec::new(), None);
    loop {
        let page = view.segments(after, PAGE).await?;
        let Some(last) = page.last() else { return Ok(wanted) };
        after = Some(last.id);
        let used = page.iter().filter(|segment| segment.live_bytes > 0);
        wanted.extend(used.map(|segment| (segment.id, segment.info.object_bytes)));
    }
}
