//! Throughput rules, the budget, and what was used.

use weir_types::Result;

use crate::data::admission::limit::Subject;
use crate::engine::Engine;
use crate::services::limits::{Period, ThroughputChange, ThroughputReport, Totals};
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// How the throughput of the mount stands. One look at the names below the root.
    pub fn throughput(&self) -> Boxed<'_, Result<ThroughputReport>> {
        boxed(self.limits.throughput())
    }

    /// Changes the rule of a directory or user, with its name for people; it holds within a second
    /// and over mounts. Files that are open past the daemon stay so until they are closed.
    /// One commit.
    pub fn set_throughput<'a>(
        &'a self,
        subject: Subject,
        name: &'a str,
        change: ThroughputChange,
    ) -> Boxed<'a, Result<ThroughputReport>> {
        boxed(self.limits.set_throughput(subject, name, change))
    }

    /// Tells where the metadata operations are counted; once, by the daemon that has the doors.
    pub fn count_metadata_by(&self, count: impl Fn() -> u64 + Send + Sync + 'static) {
        self.limits.count_metadata_by(count)
    }

    /// What was used of late: in a minute, or up to two.
    pub fn used_lately(&self) -> Boxed<'_, Period> {
        boxed(self.limits.used_lately())
    }

    /// What was used since `unix_ms`, or since the mount; never of more than a week ago. By all nodes that
    /// share the volume, of which others are told up to a minute late; one read then.
    pub fn used_since(&self, unix_ms: Option<u64>) -> Boxed<'_, Period> {
        boxed(async move {
            self.note_cold_reads().await;
            self.limits.used_since(unix_ms).await
        })
    }

    /// The same by this node alone.
    pub fn used_here_since(&self, unix_ms: Option<u64>) -> Boxed<'_, Period> {
        boxed(async move {
            self.note_cold_reads().await;
            self.limits.used_here_since(unix_ms).await
        })
    }

    /// Totals of each minute since about `unix_ms`, or since the mount, oldest first, and now; never
    /// of more than a week ago but for those of the mount.
    pub fn history(&self, unix_ms: Option<u64>) -> Boxed<'_, Vec<Totals>> {
        boxed(self.limits.history(unix_ms))
    }

    /// What was read of cold objects since the last note is on the bill, too.
    async fn note_cold_reads(&self) {
        if let Err(error) = self.lifecycle.note_reads().await {
            tracing::debug!(%error, "what was read is not noted");
        }
    }
}
