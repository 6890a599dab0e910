//! What is packed anew is as old as it was.

use std::collections::BTreeSet;

use weir_meta::{SegmentAge, SegmentInfo};
use weir_types::{Result, SegmentId};

use super::{Collector, Moving};
use crate::data::ages::{age_of, day_of};

impl Collector {
    /// The last day on which any of the segments was used that these records are of. One read round.
    pub(super) async fn used_day(&self, moving: &Moving) -> Result<u32> {
        let old: BTreeSet<_> = moving.records.iter().map(|(record, ..)| record.segment).collect();
        let old: Vec<_> = old.into_iter().collect();
        let noted = self.meta.ages(&old).await?;
        let days = old.iter().zip(noted).map(|(id, noted)| age_of(*id, noted).used_day);
        Ok(days.max().unwrap_or_default())
    }

    /// What is packed anew does not get younger by it. One read round and one commit, none for what was used today.
    pub(super) async fn keep_age(
        &self,
        used_day: u32,
        segments: &[(SegmentId, SegmentInfo)],
    ) -> Result<()> {
        if used_day >= day_of(self.context.unix_ms()) {
            return Ok(());
        }
        let ids: Vec<_> = segments.iter().map(|(id, _)| *id).collect();
        let age = |id, before| Some(SegmentAge { used_day, ..age_of(id, before) });
        self.meta.change_ages(&ids, age).await
    }
}
