//! Which segments were read from the bucket: that keeps them warm, and costs more where they are cold.

use weir_meta::SegmentAge;
use weir_types::{Result, SegmentId};

use super::Lifecycle;
use crate::data::ages::{age_of, day_of};
use crate::volume::context::Counts;

impl Lifecycle {
    /// Notes what was read since this was done the last time: the day of those that somebody used, and what reading
    /// the cold ones costs. A read round for each 1,000 segments, a commit for each 1,000 of which the day is another.
    pub(crate) async fn note_reads(&self) -> Result<()> {
        let read = self.context.meter.take_segment_reads();
        let today = day_of(self.context.unix_ms());
        // What was made today is as young as can be, and in the first class.
        let old: Vec<SegmentId> =
            read.keys().copied().filter(|id| day_of(id.unix_ms()) < today).collect();
        if old.is_empty() {
            return Ok(());
        }
        let mut used = Vec::new();
        for (id, noted) in old.iter().zip(self.meta.ages(&old).await?) {
            let (age, read) = (age_of(*id, noted), read[id]);
            if let Some(at) = age.class.cold_index() {
                let counts = &self.context.counts.cold[at];
                Counts::add(&counts.requests, read.requests);
                Counts::add(&counts.read_bytes, read.bytes);
            }
            if read.used && age.used_day < today {
                used.push(*id);
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
