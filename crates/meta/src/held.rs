//! Segments that only snapshots use.
//!
//! A segment in which the volume has no bytes any more stays as long as a snapshot has some. Which one
//! does is read in that snapshot's own metadata: there the segment's counter is as it was. For each
//! such segment a row names one snapshot that holds it, so that none is asked again before that one
//! goes; a segment without such a row may be forgotten, and then none holds it.

use weir_types::{Result, SegmentId};

use crate::codec::{counter, decode, encode, last_key};
use crate::kv::Key;
use crate::op::Tx;
use crate::{Meta, SegmentInfo, keys};

/// Rows read or changed at once.
const PAGE: usize = 2_000;

impl Meta {
    /// The bytes that extents have in each of these segments. One read round.
    pub async fn live_bytes(&self, ids: &[SegmentId]) -> Result<Vec<u64>> {
        let wanted: Vec<_> = ids.iter().map(|id| keys::live(*id)).collect();
        let found = self.get(&wanted).await?;
        let counts = wanted.iter().zip(&found).map(|(key, found)| counter(key, found.as_ref()));
        counts.map(|count| Ok(count?.max(0).cast_unsigned())).collect()
    }

    /// The bytes of the objects of these segments; 0 of those that are not known. One read round.
    pub async fn object_bytes(&self, ids: &[SegmentId]) -> Result<Vec<u64>> {
        let wanted: Vec<_> = ids.iter().map(|id| keys::segment(*id)).collect();
        let found = self.get(&wanted).await?;
        let infos = wanted.iter().zip(&found).map(|(key, found)| match found {
            Some(found) => Ok(decode::<SegmentInfo>(key, &found.value)?.object_bytes),
            None => Ok(0),
        });
        infos.collect()
    }

    /// By which snapshot each of these segments is noted to be held. One read round.
    pub async fn held(&self, ids: &[SegmentId]) -> Result<Vec<Option<u32>>> {
        let wanted: Vec<_> = ids.iter().map(|id| keys::held(*id)).collect();
        let found = self.get(&wanted).await?;
        let rows = wanted.iter().zip(&found);
        rows.map(|(key, row)| row.as_ref().map(|row| decode(key, &row.value)).transpose()).collect()
    }

    /// All notes of what is held, in the order of the segments: up to `limit` behind `after`, each with
    /// its snapshot. One read.
    pub async fn held_segments(
        &self,
        after: Option<SegmentId>,
        limit: usize,
    ) -> Result<Vec<(SegmentId, u32)>> {
        let after = after.map(keys::held);
        let page = self.kv.scan(&[keys::HELD], after.as_deref(), limit).await?;
        let parsed = page.iter().map(|(key, row)| {
            let id = keys::parse_segment(key).unwrap_or(SegmentId::NATIVE);
            Ok((id, decode::<u32>(key, &row.value)?))
        });
        parsed.collect()
    }

    /// Notes by which snapshot segments are held; `None`: by none. One commit for each 2,000.
    pub async fn note_held(&self, notes: &[(SegmentId, Option<u32>)]) -> Result<()> {
        for notes in notes.chunks(PAGE) {
            let mut tx = Tx::default();
            for (id, by) in notes {
                match by {
                    Some(number) => tx.put(keys::held(*id), encode(number)?),
                    None => tx.delete(keys::held(*id)),
                }
            }
            self.apply(tx).await?;
        }
        Ok(())
    }

    /// The segments that are noted to be held by this snapshot. One read for each 2,000 that are held
    /// at all.
    pub async fn held_by(&self, number: u32) -> Result<Vec<SegmentId>> {
        let (mut all, mut after): (_, Option<Key>) = (Vec::new(), None);
        loop {
            let page = self.kv.scan(&[keys::HELD], after.as_deref(), PAGE).await?;
            for (key, row) in &page {
                if decode::<u32>(key, &row.value)? == number {
                    all.extend(keys::parse_segment(key));
                }
            }
            if page.len() < PAGE {
                return Ok(all);
            }
            after = last_key(&page);
        }
    }
}
