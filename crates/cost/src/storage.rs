//! The storage that a workload may run on.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_throughput::efs;
use weir_throughput::fsx::Deployment;

/// One choice of storage.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub enum Storage {
    /// EFS, regional; the stored size is that of the data set.
    Efs {
        /// How its throughput is set.
        mode: efs::Mode,
    },
    /// FSx for Lustre.
    FsxLustre {
        /// The deployment type.
        deployment: Deployment,
        /// Capacity in GiB, one that AWS sells.
        capacity_gib: u64,
        /// The data set is still in a linked bucket: the first run loads it.
        lazy: bool,
    },
    /// One EBS gp3 volume.
    Gp3 {
        /// GiB.
        size_gib: u64,
        /// Provisioned I/O operations a second.
        iops: u64,
        /// Provisioned MiB/s.
        mib_per_s: u64,
    },
    /// One EBS io2 Block Express volume.
    Io2 {
        /// GiB.
        size_gib: u64,
        /// Provisioned I/O operations a second.
        iops: u64,
    },
    /// The instance's own NVMe, filled from S3 before the first run of each life.
    InstanceStore,
    /// Amazon S3 Files.
    S3Files,
    /// Weir: objects in S3, and a tier on the instance's NVMe, or on gp3 where it has none.
    Weir {
        /// The data set is in the tier already.
        warm: bool,
    },
}
