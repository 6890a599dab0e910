//! Segments: which there are, how much of each is alive, who uses them, and how they end.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use weir_types::{
    ChunkIndex, ErrorKind, Extent, FsError, Ino, RecordRef, Result, SegmentId, StorageClass,
};

use crate::codec::{Seen, counter, decode, decode_seen, encode, last_key, version};
use crate::kv::Key;
use crate::op::{Tries, Tx};
use crate::snapshots::SnapshotsSeen;
use crate::{Meta, keys};

/// Back references read or removed at once.
const PAGE: usize = 2_000;
/// Segments looked at in one scan.
const SCANNED: usize = 10_000;

/// What is known of a segment since it was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentInfo {
    /// File bytes its records hold, decoded.
    pub raw_bytes: u64,
    /// Size of the object.
    pub object_bytes: u64,
    /// Records in it.
    pub records: u32,
    /// When it was made, in milliseconds since 1970.
    pub created_ms: u64,
}

/// All segments of a volume together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SegmentBytes {
    /// How many there are.
    pub segments: u64,
    /// The bytes of their objects.
    pub bytes: u64,
    /// Of those the bytes in each of the storage classes but the first, in their order.
    pub cold: [u64; StorageClass::COLD.len()],
}

/// A segment and how much of it is alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SegmentUse {
    /// Its name.
    pub id: SegmentId,
    /// What it is.
    pub info: SegmentInfo,
    /// File bytes that extents have in it; bytes shared by two files count twice.
    pub live_bytes: u64,
}

/// A chunk that uses a segment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reference {
    /// The file.
    pub ino: Ino,
    /// The chunk.
    pub chunk: ChunkIndex,
    /// Those of its extents that lie in the segment.
    pub extents: Vec<Extent>,
}

impl Tx {
    /// Puts the rows of these segments.
    pub(crate) fn put_segments(&mut self, list: &[(SegmentId, SegmentInfo)]) -> Result<()> {
        for (id, info) in list {
            self.put(keys::segment(*id), encode(info)?);
        }
        Ok(())
    }
}

impl Meta {
    /// Up to `limit` segments after `after`, oldest first. Two read rounds.
    pub async fn segments(
        &self,
        after: Option<SegmentId>,
        limit: usize,
    ) -> Result<Vec<SegmentUse>> {
        let after = after.map(keys::segment);
        let page = self.kv.scan(&[keys::SEGMENT], after.as_deref(), limit).await?;
        let ids = page.iter().map(|(key, _)| segment_of(key)).collect::<Result<Vec<_>>>()?;
        let live_keys: Vec<_> = ids.iter().map(|id| keys::live(*id)).collect();
        let live = self.get(&live_keys).await?;
        let mut uses = Vec::with_capacity(page.len());
        for (at, (key, found)) in page.iter().enumerate() {
            let live_bytes = counter(&live_keys[at], live[at].as_ref())?.max(0).cast_unsigned();
            uses.push(SegmentUse { id: ids[at], info: decode(key, &found.value)?, live_bytes });
        }
        Ok(uses)
    }

    /// How many segments there are, and the bytes of their objects: what is dead in them, too. One scan
    /// for each 10,000, and as much for what is noted of their ages.
    pub async fn segment_bytes(&self) -> Result<SegmentBytes> {
        let mut sum = SegmentBytes { cold: self.cold_bytes().await?, ..SegmentBytes::default() };
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[keys::SEGMENT], after.as_deref(), SCANNED).await?;
            for (key, found) in &page {
                let info: SegmentInfo = decode(key, &found.value)?;
                sum.segments += 1;
                sum.bytes += info.object_bytes;
            }
            if page.len() < SCANNED {
                return Ok(sum);
            }
            after = last_key(&page);
        }
    }

    /// Which of these are segments of the volume. One read round.
    pub async fn segment_known(&self, ids: &[SegmentId]) -> Result<Vec<bool>> {
        let wanted: Vec<_> = ids.iter().map(|id| keys::segment(*id)).collect();
        Ok(self.get(&wanted).await?.iter().map(Option::is_some).collect())
    }

    /// The chunks that use `segment` now: those of `owners` (all chunks that the segment's own
    /// index names) that still do, and those that came to share its records. One read round for
    /// each 2,000.
    pub async fn references(
        &self,
        segment: SegmentId,
        owners: &[(Ino, ChunkIndex)],
    ) -> Result<Vec<Reference>> {
        let mut maybe: BTreeSet<_> = owners.iter().copied().collect();
        let prefix = keys::back_refs(segment);
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&prefix, after.as_deref(), PAGE).await?;
            maybe.extend(page.iter().filter_map(|(key, _)| keys::parse_back_ref(key)));
            if page.len() < PAGE {
                break;
            }
            after = last_key(&page);
        }
        let maybe: Vec<_> = maybe.into_iter().collect();
        let mut references = Vec::new();
        for page in maybe.chunks(PAGE) {
            let wanted: Vec<_> =
                page.iter().map(|(ino, chunk)| keys::extents(*ino, *chunk)).collect();
            let found = self.get(&wanted).await?;
            for (((ino, chunk), key), found) in page.iter().zip(&wanted).zip(&found) {
                let Some(found) = found else { continue };
                let mut extents: Vec<Extent> = decode(key, &found.value)?;
                extents.retain(|extent| extent.record.segment == segment);
                if !extents.is_empty() {
                    references.push(Reference { ino: *ino, chunk: *chunk, extents });
                }
            }
        }
        Ok(references)
    }

    /// Lets a chunk use copies of records: each extent in an old record points at the same bytes
    /// of the new one. The new record's owner in its segment's index must be the old one's. No
    /// byte of the file changes, so its generation stays. `false`: the chunk uses none of them (any
    /// more), and nothing was done. One read round and one commit.
    pub async fn relocate(
        &self,
        ino: Ino,
        chunk: ChunkIndex,
        moves: &[(RecordRef, RecordRef)],
        segments: &[(SegmentId, SegmentInfo)],
    ) -> Result<bool> {
        if moves.iter().any(|(old, new)| old.raw_bytes != new.raw_bytes) {
            let context = format!("inode {ino}: a copied record has another length than the first");
            return Err(FsError::new(ErrorKind::Invalid, context));
        }
        let key = keys::extents(ino, chunk);
        let mut wanted = vec![key.clone()];
        wanted.extend(moves.iter().map(|(old, _)| keys::back_ref(old.segment, ino, chunk)));
        let by_old: BTreeMap<_, _> =
            moves.iter().map(|(old, new)| ((old.segment, old.position), new)).collect();
        let mut tries = Tries::new("relocate records");
        loop {
            tries.next().await?;
            let found = self.get(&wanted).await?;
            let seen: Option<Seen<Vec<Extent>>> = decode_seen(&key, found[0].as_ref())?;
            let Some(seen) = seen else { return Ok(false) };
            let mut after = seen.value.clone();
            for extent in &mut after {
                let record = &mut extent.record;
                if let Some(new) = by_old.get(&(record.segment, record.position)) {
                    *record = **new;
                }
            }
            if after == seen.value {
                return Ok(false);
            }
            let mut tx = Tx::default();
            tx.put_segments(segments)?;
            tx.set_extents(key.clone(), Some(seen.version), &seen.value, &after, false)?;
            // Who shared the old record shares the new one. Checked, because the rows may have been
            // read before a share that the extents show already.
            for (((_, new), row), found) in moves.iter().zip(&wanted[1..]).zip(&found[1..]) {
                tx.check(row.clone(), version(found.as_ref()));
                if found.is_some() {
                    let row = keys::back_ref(new.segment, ino, chunk);
                    tx.put(row, Bytes::from_static(&[1]));
                }
            }
            if self.apply(tx).await? {
                return Ok(true);
            }
        }
    }

    /// Forgets a segment that nothing uses; `false` if something does, or a snapshot is noted to hold
    /// it, or one was begun since `seen`. Its object may be deleted afterwards. Two read rounds and one commit for
    /// each 2,000 chunks that ever shared it.
    ///
    /// New uses of a known segment come only from extents that use it already, so none can come up
    /// once the count is 0; the check on the count holds that still to the end.
    pub async fn forget_segment(&self, id: SegmentId, seen: SnapshotsSeen) -> Result<bool> {
        let (segment_key, live_key) = (keys::segment(id), keys::live(id));
        let mut tries = Tries::new("forget a segment");
        loop {
            tries.next().await?;
            let begun = keys::NEXT_SNAPSHOT.to_vec();
            let age_key = keys::segment_age(id);
            let wanted = [
                segment_key.clone(),
                live_key.clone(),
                keys::held(id),
                begun.clone(),
                age_key.clone(),
            ];
            let found = self.get(&wanted).await?;
            let used = counter(&live_key, found[1].as_ref())? != 0 || found[2].is_some();
            if used || version(found[3].as_ref()) != seen.0 {
                return Ok(false);
            }
            let rows = self.kv.scan(&keys::back_refs(id), None, PAGE).await?;
            let last = rows.len() < PAGE;
            let mut tx = Tx::default();
            tx.check(segment_key.clone(), version(found[0].as_ref()));
            tx.check(live_key.clone(), version(found[1].as_ref()));
            tx.check(keys::held(id), None);
            tx.check(begun, seen.0);
            rows.into_iter().for_each(|(key, _)| tx.delete(key));
            if last {
                tx.delete(segment_key.clone());
                tx.delete(live_key.clone());
                tx.check(age_key.clone(), version(found[4].as_ref()));
                if found[4].is_some() {
                    tx.delete(age_key);
                }
            }
            if self.apply(tx).await? {
                if last {
                    return Ok(true);
                }
                tries = Tries::new("forget a segment");
            }
        }
    }
}

fn segment_of(key: &Key) -> Result<SegmentId> {
    keys::parse_segment(key).ok_or_else(|| {
        let context = format!("metadata key {} is too short; run a check", key.escape_ascii());
        FsError::new(ErrorKind::Corrupt, context)
    })
}
