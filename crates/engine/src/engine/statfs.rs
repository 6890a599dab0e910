//! How much there is, and how much of it is used, as `df` shows it.

use weir_meta::QuotaOf;
use weir_types::{Ino, Result};

use super::Engine;
use crate::data::quotas::{Quota, Whose};
use crate::volume::boxed::{Boxed, boxed};

/// What a volume without a size is shown as: 1 PiB.
const TOTAL_BYTES: u64 = 1 << 50;

/// Sizes for `statfs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statfs {
    /// Bytes that there can be. A bucket has no end, so without a size or quota this is 1 PiB, or more when
    /// that is used.
    pub total_bytes: u64,
    /// Bytes that files take.
    pub used_bytes: u64,
    /// Inodes in use.
    pub files: u64,
    /// Inodes that there can be, where a quota says so.
    pub files_max: Option<u64>,
}

impl Engine {
    /// Sizes for `statfs` of this inode: those of the volume, or of the quota of a tree around it. One read
    /// round, a few more where there are quotas.
    pub fn statfs(&self, ino: Ino) -> Boxed<'_, Result<Statfs>> {
        boxed(async move {
            let capacity = &self.data.writer.capacity;
            let (usage, used_bytes) = capacity.usage().await?;
            let total_bytes = match capacity.limit() {
                Some(limit) => limit,
                None => TOTAL_BYTES.max(used_bytes.saturating_mul(2)),
            };
            let volume = Statfs { total_bytes, used_bytes, files: usage.inodes, files_max: None };
            if !self.data.quotas.any() {
                return Ok(volume);
            }
            // What is above all exports of a door is none.
            let found = self.data.meta.inodes(&[ino]).await?.pop().flatten();
            let Some(whose) = found.as_ref().map(Whose::of) else { return Ok(volume) };
            Ok(within(volume, &self.data.quotas.over(whose).await?))
        })
    }
}

/// The same as the quotas of trees show it: of bytes and of files each by the one that leaves least.
fn within(volume: Statfs, quotas: &[(QuotaOf, Quota)]) -> Statfs {
    let mut shown = volume;
    let mut files_left = u64::MAX;
    for (_, quota) in quotas.iter().filter(|(of, _)| matches!(of, QuotaOf::Tree(_))) {
        let used = quota.used;
        if let Some(max) = quota.row.bytes_max
            && max.saturating_sub(used.bytes) < shown.total_bytes.saturating_sub(shown.used_bytes)
        {
            // Files that were there before may take more.
            (shown.total_bytes, shown.used_bytes) = (max.max(used.bytes), used.bytes);
        }
        if let Some(max) = quota.row.files_max
            && max.saturating_sub(used.files) < files_left
        {
            files_left = max.saturating_sub(used.files);
            (shown.files_max, shown.files) = (Some(max.max(used.files)), used.files);
        }
    }
    shown
}

#[cfg(test)]
mod tests {
    use weir_meta::QuotaUsed;
    use weir_types::TreeId;

    use super::*;

    #[test]
    fn df_shows_the_quota_that_leaves_least() {
        let volume = Statfs { total_bytes: 1 << 50, used_bytes: 500, files: 9, files_max: None };
        let quota = |nth, bytes_max, files_max, bytes, files| {
            let used = QuotaUsed { bytes, files };
            (QuotaOf::Tree(TreeId(nth)), Quota::of(bytes_max, files_max, used))
        };
        let inner = quota(1, Some(1_000), None, 100, 3);
        let outer = quota(2, Some(500), Some(8), 400, 5);
        let least = Statfs { total_bytes: 500, used_bytes: 400, files: 5, files_max: Some(8) };
        assert_eq!(within(volume, &[inner.clone(), outer]), least);
        let alone = Statfs { total_bytes: 1_000, used_bytes: 100, ..volume };
        assert_eq!(within(volume, &[inner]), alone);
        let past = quota(3, Some(100), Some(2), 300, 4);
        let full = Statfs { total_bytes: 300, used_bytes: 300, files: 4, files_max: Some(4) };
        assert_eq!(within(volume, &[past]), full);
    }
}
