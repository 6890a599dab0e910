//! Which segments, and objects of links, were read from their buckets: that keeps them warm, and costs more where they are cold.

use std::collections::HashMap;

use weir_meta::{ObjectAge, SegmentAge};
use weir_object::SegmentRead;
use weir_types::{LinkId, Result, SegmentId};

use super::Lifecycle;
use super::objects::object_age;
use super::parted::Parted;
use super::row::RulesRow;
use crate::data::ages::{age_of, day_of};
use crate::services::links::ObjectRead;
use crate::volume::context::Counts;

impl Lifecycle {
    /// Notes what was read since this was done the last time: the day of those that somebody used, and what reading
    /// the cold ones costs; on a mount that may not write the latter only. What cannot be noted now is noted the next time.
    /// A read round for each 1,000 segments, a commit for each 1,000 of which the day is another.
    pub(crate) async fn note_reads(&self) -> Result<()> {
        let of_objects = self.note_object_reads().await;
        self.note_segment_reads().await.and(of_objects)
    }

    async fn note_segment_reads(&self) -> Result<()> {
        let mut read = self.context.meter.take_segment_reads();
        let today = day_of(self.context.unix_ms());
        // What was made today is as young as can be, and in the first class.
        read.retain(|id, _| day_of(id.unix_ms()) < today);
        if read.is_empty() {
            return Ok(());
        }
        let noted = self.note(&mut read, today).await;
        if noted.is_err() && self.context.check_writable().is_ok() {
            self.context.meter.give_segment_reads_back(read);
        }
        noted
    }

    /// The same of objects of links that have rules. One read round for each 1,000, and one for their rows.
    async fn note_object_reads(&self) -> Result<()> {
        let registry = &self.links.registry;
        if registry.is_empty() {
            return Ok(());
        }
        let Parted { links, .. } = self.part(RulesRow::read(&self.meta).await?).await?;
        registry.reads.watch(!links.is_empty());
        let mut read = registry.reads.take();
        read.retain(|(link, _), _| links.iter().any(|(known, _)| known.id == *link));
        if read.is_empty() {
            return Ok(());
        }
        let noted = self.note_objects(&mut read).await;
        if noted.is_err() && self.context.check_writable().is_ok() {
            registry.reads.give_back(read);
        }
        noted
    }

    async fn note_objects(&self, read: &mut HashMap<(LinkId, String), ObjectRead>) -> Result<()> {
        let today = day_of(self.context.unix_ms());
        let objects: Vec<_> = read.keys().cloned().collect();
        let rows = self.meta.objects_of(&objects).await?;
        let files = objects.into_iter().zip(rows).filter_map(|(object, row)| {
            let row = row?;
            Some((object, row.ino?, row))
        });
        let files: Vec<_> = files.collect();
        let inos: Vec<_> = files.iter().map(|(_, ino, _)| *ino).collect();
        let (ages, mut used) = (self.meta.object_ages(&inos).await?, Vec::new());
        for ((object, ino, row), noted) in files.into_iter().zip(ages) {
            let (age, Some(read)) = (object_age(&row, noted), read.get_mut(&object)) else {
                continue;
            };
            if let Some(at) = age.class.cold_index() {
                let counts = &self.context.counts.cold[at];
                Counts::add(&counts.requests, std::mem::take(&mut read.requests));
                Counts::add(&counts.read_bytes, std::mem::take(&mut read.bytes));
            }
            if age.used_day < today {
                let age = SegmentAge { used_day: today, stays: None, ..age };
                used.push((ino, ObjectAge { etag: row.etag, age }));
            }
        }
        if self.context.check_writable().is_err() {
            return Ok(());
        }
        self.meta.set_object_ages(&used).await
    }

    async fn note(&self, read: &mut HashMap<SegmentId, SegmentRead>, today: u32) -> Result<()> {
        let ids: Vec<SegmentId> = read.keys().copied().collect();
        let ages = self.meta.ages(&ids).await?;
        let mut used = Vec::new();
        for (id, noted) in ids.iter().zip(ages) {
            let (age, Some(read)) = (age_of(*id, noted), read.get_mut(id)) else { continue };
            if read.used && age.used_day < today {
                used.push(*id);
            }
            if let Some(at) = age.class.cold_index() {
                let counts = &self.context.counts.cold[at];
                Counts::add(&counts.requests, std::mem::take(&mut read.requests));
                Counts::add(&counts.read_bytes, std::mem::take(&mut read.bytes));
            }
        }
        if self.context.check_writable().is_err() {
            return Ok(());
        }
        let use_today = |id: SegmentId, before| {
            let age = age_of(id, before);
            let used = SegmentAge { used_day: today, stays: None, ..age };
            (age.used_day < today).then_some(used)
        };
        self.meta.change_ages(&used, use_today).await
    }
}
