//! Throughput rules, the budget, and what was used.

use weir_types::Result;

use crate::data::admission::limit::Subject;
use crate::engine::Engine;
use crate::services::limits::{Period, ThroughputChange, ThroughputReport};

impl Engine {
    /// How the throughput of the mount stands. One look at the names below the root.
    pub async fn throughput(&self) -> Result<ThroughputReport> {
        self.limits.throughput().await
    }

    /// Changes the rule of a directory or user, with its name for people; it holds within a second
    /// and over mounts. Files that are open past the daemon stay so until they are closed.
    /// One commit.
    pub async fn set_throughput(
        &self,
        whose: Subject,
        name: &str,
        change: ThroughputChange,
    ) -> Result<ThroughputReport> {
        self.limits.set_throughput(whose, name, change).await
    }

    /// Tells where the metadata operations are counted; once, by the daemon that has the doors.
    pub fn count_metadata_by(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        self.limits.count_metadata_by(count)
    }

    /// What was used of late: in a minute, or up to two.
    pub async fn used_lately(&self) -> Period {
        self.limits.used_lately().await
    }

    /// What was used since `unix_ms`, or since the mount; never of more than a week ago.
    pub async fn used_since(&self, unix_ms: Option<u64>) -> Period {
        self.limits.used_since(unix_ms).await
    }
}
