//! Which segments were read from the bucket: that keeps them warm, and costs more where they are cold.

use std::collections::HashMap;

use weir_meta::SegmentAge;
use weir_object::SegmentRead;
use weir_types::{Result, SegmentId};

use super::Lifecycle;
use crate::data::ages::{age_of, day_of};
use crate::volume::context::Counts;

impl Lifecycle {
    /// Notes what was read since this was done the last time: the day of those that somebody used, and what reading
    /// the cold ones costs. What cannot be noted now is noted the next time. A read round for each 1,000 segments, a commit
    /// for each 1,000 of which the day is another.
    pub(crate) async fn note_reads(&self) -> Result<()> {
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
