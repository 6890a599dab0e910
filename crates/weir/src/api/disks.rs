//! Disks and devices.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_door_block::attach::{AttachOptions, Attached};
use weir_engine::{DiskOptions, DiskView};

use super::call::call;

/// All disks of the volume.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListDisks {}
call!(Get "/v1/disks", ListDisks => Vec<DiskView>);

/// Makes a disk.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct CreateDisk(pub(crate) DiskOptions);
call!(Post "/v1/disks/create", CreateDisk => DiskView);

/// Changes the size of a disk.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ResizeDisk {
    pub(crate) name: String,
    /// The new size.
    pub(crate) size_bytes: u64,
    /// Whether what lies behind a smaller size may be lost.
    pub(crate) may_shrink: bool,
}
call!(Post "/v1/disks/resize", ResizeDisk => DiskView);

/// Removes a disk, or a snapshot, with its data.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteDisk {
    pub(crate) name: String,
}
call!(Post "/v1/disks/delete", DeleteDisk => Deleted);

/// What came of a [`DeleteDisk`].
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct Deleted {
    /// The name of the disk that was.
    pub(crate) deleted: String,
}

/// Keeps a disk as it is now, under a name of its own.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SnapshotDisk {
    /// The disk.
    pub(crate) name: String,
    /// The name of the snapshot.
    pub(crate) snapshot: String,
}
call!(Post "/v1/disks/snapshot", SnapshotDisk => DiskView);

/// Makes a disk with the bytes of a snapshot.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CloneDisk {
    /// The snapshot.
    pub(crate) name: String,
    /// The name of the disk.
    pub(crate) new: String,
}
call!(Post "/v1/disks/clone", CloneDisk => DiskView);

/// The devices of this machine that the daemon keeps.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListDevices {}
call!(Get "/v1/devices", ListDevices => Vec<Attached>);

/// Makes a disk a device of this machine.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct Attach(pub(crate) AttachOptions);
call!(Post "/v1/devices/attach", Attach => Attached);

/// Takes a device away.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct Detach {
    /// Its path, or the name of its disk.
    pub(crate) device: String,
}
call!(Post "/v1/devices/detach", Detach => Attached);
