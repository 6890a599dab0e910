//! What is damaged in the bucket and whole in the tier, or in that of another node, is sent off anew; what is nowhere is
//! told.

use std::collections::{BTreeSet, HashMap, HashSet};

use weir_meta::{Use, path_of};
use weir_types::{ByteRange, CHUNK_BYTES, ErrorKind, Ino, Result, SegmentId};

use super::parts::ScrubParts;
use super::row::Lost;
use crate::data::fetch::Priority;
use crate::volume::context::blocking;

/// What of a segment's object does not have its checksum.
pub(super) struct Damage {
    pub(super) segment: SegmentId,
    pub(super) ranges: Vec<ByteRange>,
    pub(super) why: String,
}

/// What became of damage.
#[derive(Default)]
pub(super) struct Mended {
    pub(super) segments: u64,
    pub(super) lost: Vec<Lost>,
}

impl ScrubParts {
    /// Sends off what is here of damaged segments. Reads all extents of the volume once, and once more where something
    /// was sent.
    pub(super) async fn repair(&self, damaged: &[Damage]) -> Result<Mended> {
        let uses = self.uses(damaged).await?;
        let mut sent = BTreeSet::new();
        for of in &uses {
            if self.send(of).await? {
                sent.insert(of.ino);
            }
        }
        if !sent.is_empty() {
            let inos: Vec<Ino> = sent.into_iter().collect();
            self.flusher.flush_files(&inos).await?;
        }
        let left = self.uses(damaged).await?;
        let mut mended = Mended::default();
        for of in damaged {
            let lost: Vec<_> =
                left.iter().filter(|left| left.extent.record.segment == of.segment).collect();
            let used = uses.iter().any(|used| used.extent.record.segment == of.segment);
            match (lost.is_empty(), used) {
                (true, true) => {
                    tracing::warn!(segment = %of.segment, why = of.why, "damage in the bucket: sent off anew");
                    mended.segments += 1;
                }
                (true, false) => mended.lost.extend(self.only_held(of).await?),
                (false, _) => mended.lost.extend(self.told(of, &lost).await?),
            }
        }
        Ok(mended)
    }

    /// Makes bytes that are local and clean, as the metadata has the file now, ones that are to leave; those that are not
    /// local come from another node first, if one has them. Answers whether all of them leave.
    async fn send(&self, of: &Use) -> Result<bool> {
        let ScrubParts { tier, nodes, mirrors, fetcher, .. } = self;
        if tier.find(of.ino).is_none() && !fetcher.has_peers() {
            return Ok(false);
        }
        let node = nodes.get(of.ino);
        // What another node changed is gone from it then.
        let mirror = match mirrors.open_mirror(&node).await {
            // Removed; or the bytes of a disk, which has none.
            Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::Invalid) => {
                return Ok(false);
            }
            mirror => mirror?,
        };
        let ByteRange { start, end } = bytes_of(of);
        let is_here = || mirror.missing(start, end).is_empty();
        if !is_here() && fetcher.has_peers() {
            let range = [ByteRange::new(start, end)];
            // What nobody has is told in the end.
            let _ = fetcher.fetch_whole(&mirror, &range, Priority::Hydrate).await;
        }
        let is_here = is_here();
        if is_here {
            let adopted = mirror.clone();
            blocking(move || adopted.adopt(start, end)).await?;
        }
        mirrors.idle_unless_open(&node, &mirror);
        Ok(is_here)
    }

    /// What the volume has in damaged places.
    async fn uses(&self, damaged: &[Damage]) -> Result<Vec<Use>> {
        let by_segment: HashMap<SegmentId, &Damage> =
            damaged.iter().map(|of| (of.segment, of)).collect();
        let wanted: HashSet<SegmentId> = by_segment.keys().copied().collect();
        let mut uses = self.meta.uses(&wanted).await?;
        uses.retain(|of| {
            let record = &of.extent.record;
            let (start, end) = (
                u64::from(record.position),
                u64::from(record.position) + u64::from(record.stored_bytes),
            );
            let damage = by_segment.get(&record.segment);
            damage.is_some_and(|of| of.ranges.iter().any(|r| r.start < end && start < r.end))
        });
        Ok(uses)
    }

    /// Damage in what only snapshots need, if any does.
    async fn only_held(&self, of: &Damage) -> Result<Option<Lost>> {
        let held = self.meta.held(&[of.segment]).await?[0].is_some();
        let is_used = self.meta.live_bytes(&[of.segment]).await?[0] > 0;
        // Nobody needs what is damaged of it.
        if !held || is_used {
            return Ok(None);
        }
        let bytes = of.ranges.iter().map(|range| range.len()).sum();
        let why = format!("only snapshots need it: {}", of.why);
        Ok(Some(Lost { path: String::new(), offset: 0, bytes, why }))
    }

    async fn told(&self, of: &Damage, lost: &[&Use]) -> Result<Vec<Lost>> {
        let mut told = Vec::with_capacity(lost.len());
        for lost in lost {
            let path = path_of(&**self.meta.kv(), lost.ino).await?;
            let path = path.map_or(String::new(), |path| format!("/{}", path.escape_ascii()));
            let ByteRange { start, end } = bytes_of(lost);
            tracing::error!(path, offset = start, why = of.why, "bytes of a file are lost");
            told.push(Lost { path, offset: start, bytes: end - start, why: of.why.clone() });
        }
        Ok(told)
    }
}

fn bytes_of(of: &Use) -> ByteRange {
    let start = of.chunk * CHUNK_BYTES + u64::from(of.extent.start);
    ByteRange::new(start, start + u64::from(of.extent.len))
}
