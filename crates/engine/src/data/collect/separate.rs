//! Segments whose files are to be in several storage classes: which files they have, and writing them anew, apart.

use std::collections::BTreeSet;

use weir_meta::SegmentUse;
use weir_types::{Ino, Result};

use super::Collector;

impl Collector {
    /// The files of which a segment has records, by its own index: some may have no use for them any more. One GET.
    pub(crate) async fn files_of(&self, segment: &SegmentUse) -> Result<BTreeSet<Ino>> {
        let (owners, _) = self.owners(segment).await?;
        Ok(owners.values().map(|owner| owner.ino).collect())
    }

    /// Writes what is in use of a segment into new ones: that of some files into one, that of the others into another. The
    /// segment is dead then, and goes after its grace. `false`, and nothing is done, where that is less than half of it, or
    /// a snapshot has the segment too: then both would be kept. A GET or more, two PUTs, and a commit for each chunk.
    pub(crate) async fn separate(
        &self,
        segment: &SegmentUse,
        some: &BTreeSet<Ino>,
    ) -> Result<bool> {
        if self.holders.sparse(vec![*segment]).await?.is_empty() {
            return Ok(false);
        }
        let mut taken = self.take_live(segment).await?;
        let records = std::mem::take(&mut taken.records);
        let (cold, warm): (Vec<_>, Vec<_>) =
            records.into_iter().partition(|(_, owner, _)| some.contains(&owner.ino));
        let cold_bytes: u64 = cold.iter().map(|(.., bytes)| bytes.len() as u64).sum();
        if cold_bytes * 2 < taken.raw_bytes || warm.is_empty() {
            return Ok(false);
        }
        for records in [cold, warm] {
            self.finish_move(super::Moving { records, used: taken.used.clone(), raw_bytes: 0 })
                .await?;
        }
        Ok(true)
    }
}
