//! What a scrape is made of.

use std::time::Duration;

use weir_door_fuse::PassthroughState;
use weir_door_nfs::UseView;
use weir_engine::{
    ActionView, LinkView, QuotaView, ScheduleView, ScrubView, Status, ThroughputReport,
};
use weir_types::StorageClass;

use crate::api::{BlockStatus, NfsStatus};

/// What a scrape is made of.
#[derive(Debug)]
pub(crate) struct Told {
    pub(crate) status: Status,
    pub(crate) links: Vec<LinkView>,
    pub(crate) actions: Vec<ActionView>,
    pub(crate) passthrough: Option<PassthroughState>,
    pub(crate) block: BlockStatus,
    pub(crate) nfs: Option<NfsStatus>,
    pub(crate) nfs_uses: Vec<UseView>,
    pub(crate) throughput: ThroughputReport,
    pub(crate) quotas: Vec<QuotaView>,
    pub(crate) schedule: ScheduleView,
    pub(crate) scrub: Option<ScrubView>,
    pub(crate) lifecycle_stands_still: bool,
    /// Bytes in each of the storage classes but the first, as far as that is known.
    pub(crate) cold_bytes: Option<[u64; StorageClass::COLD.len()]>,
    /// Bytes of objects of links in each storage class, as far as that is known.
    pub(crate) linked_bytes: Option<[u64; StorageClass::ALL.len()]>,
    /// Reads and writes a second, of late.
    pub(crate) io_per_s: (f64, f64),
    /// Requests of the kernel, by name.
    pub(crate) ops: Vec<(&'static str, u64)>,
    pub(crate) uptime: Duration,
}
