//! When segments and objects of links were used, and the storage classes that they are in for it.
//!
//! A segment without a row was used when it was made, and is in the first class. Rows only say what something costs:
//! where one is missing or behind, no byte is in another place.

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_types::{Ino, Result, SegmentId, StorageClass};

use crate::codec::{decode, decode_seen, encode, last_key, version};
use crate::kv::Key;
use crate::op::{Tries, Tx};
use crate::{Meta, keys};

/// Rows read or changed at once: each has a check of its segment, too.
const PAGE: usize = 1_000;
/// Rows looked at in one scan.
const SCANNED: usize = 10_000;

/// When a segment was used, and the storage class that it is in. Days are counted from 1970.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SegmentAge {
    /// The last day on which its bytes were written, or were read from the bucket.
    pub used_day: u32,
    /// The class that its object is in.
    pub class: StorageClass,
    /// The day on which it came there.
    pub since_day: u32,
    /// Size of the object.
    pub object_bytes: u64,
    /// The rules (by their number) after which it was to stay where it is though it is old enough, and the day.
    pub stays: Option<(u32, u32)>,
}

/// The same of a file's object in a linked bucket.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectAge {
    /// The object: of another one it says nothing.
    pub etag: Option<String>,
    /// Its age.
    pub age: SegmentAge,
}

/// Bytes of files that are objects of linked buckets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LinkedBytes {
    /// In each class, in the order of [`StorageClass::ALL`]; what no rule has looked at is in the first.
    pub in_class: [u64; StorageClass::ALL.len()],
    /// Objects of which an age is noted.
    pub noted: u64,
}

impl Meta {
    /// What is noted of the ages of these segments. One read round for each 1,000.
    pub async fn ages(&self, ids: &[SegmentId]) -> Result<Vec<Option<SegmentAge>>> {
        let mut ages = Vec::with_capacity(ids.len());
        for ids in ids.chunks(PAGE) {
            let wanted: Vec<_> = ids.iter().map(|id| keys::segment_age(*id)).collect();
            for (key, found) in wanted.iter().zip(&self.get(&wanted).await?) {
                ages.push(found.as_ref().map(|found| decode(key, &found.value)).transpose()?);
            }
        }
        Ok(ages)
    }

    /// Changes what is noted of the ages of those of these segments that there are: `change` is asked for each, and
    /// again where others changed one meanwhile; `None` leaves it. One read round and one commit for each 1,000, no
    /// commit where nothing changes.
    pub async fn change_ages(
        &self,
        ids: &[SegmentId],
        change: impl Fn(SegmentId, Option<SegmentAge>) -> Option<SegmentAge> + Send,
    ) -> Result<()> {
        for ids in ids.chunks(PAGE) {
            let mut wanted: Vec<_> = ids.iter().map(|id| keys::segment_age(*id)).collect();
            wanted.extend(ids.iter().map(|id| keys::segment(*id)));
            let mut tries = Tries::new("note the ages of segments");
            loop {
                tries.next().await?;
                let found = self.get(&wanted).await?;
                let (ages, segments) = found.split_at(ids.len());
                let (mut tx, mut changed) = (Tx::default(), false);
                for (at, id) in ids.iter().enumerate() {
                    let Some(segment) = &segments[at] else { continue };
                    let before: Option<_> = decode_seen(&wanted[at], ages[at].as_ref())?;
                    let Some(after) = change(*id, before.map(|seen| seen.value)) else { continue };
                    tx.check(wanted[at].clone(), version(ages[at].as_ref()));
                    // Who forgets the segment forgets this, too.
                    tx.check(keys::segment(*id), Some(segment.version));
                    tx.put(wanted[at].clone(), encode(&after)?);
                    changed = true;
                }
                if !changed || self.apply(tx).await? {
                    break;
                }
            }
        }
        Ok(())
    }

    /// What is noted of the ages of these files' objects. One read round for each 1,000.
    pub async fn object_ages(&self, inos: &[Ino]) -> Result<Vec<Option<ObjectAge>>> {
        let mut ages = Vec::with_capacity(inos.len());
        for inos in inos.chunks(PAGE) {
            let wanted: Vec<_> = inos.iter().map(|ino| keys::object_age(*ino)).collect();
            for (key, found) in wanted.iter().zip(&self.get(&wanted).await?) {
                ages.push(found.as_ref().map(|found| decode(key, &found.value)).transpose()?);
            }
        }
        Ok(ages)
    }

    /// Notes the ages of files' objects, over what was noted before. One commit for each 1,000.
    pub async fn set_object_ages(&self, ages: &[(Ino, ObjectAge)]) -> Result<()> {
        for ages in ages.chunks(PAGE) {
            let mut tx = Tx::default();
            for (ino, age) in ages {
                tx.put(keys::object_age(*ino), encode(age)?);
            }
            self.apply(tx).await?;
        }
        Ok(())
    }

    /// Files of whose objects an age is noted, after `after`, with what is noted; up to 1,000. One read round.
    pub async fn aged_objects(&self, after: Option<Ino>) -> Result<Vec<(Ino, ObjectAge)>> {
        let after = after.map(keys::object_age);
        let page = self.kv.scan(&[keys::OBJECT_AGE], after.as_deref(), PAGE).await?;
        let parsed = page.iter().map(|(key, found)| {
            let ino = keys::parse_ino(key);
            ino.map(|ino| Ok((ino, decode(key, &found.value)?))).transpose()
        });
        parsed.filter_map(Result::transpose).collect()
    }

    /// Forgets the ages of these files' objects. One commit.
    pub async fn forget_object_ages(&self, inos: &[Ino]) -> Result<()> {
        let mut tx = Tx::default();
        inos.iter().for_each(|ino| tx.delete(keys::object_age(*ino)));
        self.apply(tx).await.map(drop)
    }

    /// The bytes of segments in each of the classes but the first, in their order. One scan for each 10,000 rows.
    pub(crate) async fn cold_bytes(&self) -> Result<[u64; StorageClass::COLD.len()]> {
        Ok(self.cold_bytes_of(keys::SEGMENT_AGE, |age: &SegmentAge| *age).await?.0)
    }

    /// The bytes of objects of linked buckets. A read for each link, and one scan for each 10,000 objects of which an
    /// age is noted.
    pub async fn linked_bytes(&self) -> Result<LinkedBytes> {
        let mut all = 0;
        for (link, _) in self.links().await? {
            all += self.link_usage(link).await?.bytes;
        }
        let (cold, noted) = self.cold_bytes_of(keys::OBJECT_AGE, |of: &ObjectAge| of.age).await?;
        let (mut in_class, mut left) = ([0; StorageClass::ALL.len()], all);
        for (class, bytes) in StorageClass::COLD.into_iter().zip(cold) {
            // Objects of a link that has ended are noted until the next pass.
            in_class[class.index()] = bytes.min(left);
            left = left.saturating_sub(bytes);
        }
        in_class[StorageClass::Standard.index()] = left;
        Ok(LinkedBytes { in_class, noted })
    }

    /// What rows with this tag say of each class but the first, and how many there are.
    async fn cold_bytes_of<T: DeserializeOwned>(
        &self,
        tag: u8,
        age: fn(&T) -> SegmentAge,
    ) -> Result<([u64; StorageClass::COLD.len()], u64)> {
        let (mut bytes, mut rows) = ([0; StorageClass::COLD.len()], 0);
        let mut after: Option<Key> = None;
        loop {
            let page = self.kv.scan(&[tag], after.as_deref(), SCANNED).await?;
            for (key, found) in &page {
                let age = age(&decode(key, &found.value)?);
                if let Some(at) = age.class.cold_index() {
                    bytes[at] += age.object_bytes;
                }
            }
            rows += page.len() as u64;
            if page.len() < SCANNED {
                return Ok((bytes, rows));
            }
            after = last_key(&page);
        }
    }
}

/// Whether a row is about ages and classes, by its key: where objects are copied it says nothing of the copies.
pub fn is_age(key: &[u8]) -> bool {
    matches!(key.first(), Some(&(keys::SEGMENT_AGE | keys::OBJECT_AGE)))
}
