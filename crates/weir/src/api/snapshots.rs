//! Snapshots of the volume.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_engine::{
    DiffOptions, DiffPage, DumpingView, ScheduleView, SnapshotOptions, SnapshotRule,
    SnapshotTotals, SnapshotView,
};

use super::call::call;

/// All snapshots of the volume, oldest first.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListSnapshots {}
call!(Get "/v1/snapshots", ListSnapshots => Vec<SnapshotView>);

/// What all snapshots hold together.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetSnapshotTotals {}
call!(Get "/v1/snapshots/totals", GetSnapshotTotals => SnapshotTotals);

/// Keeps the volume as it is now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct CreateSnapshot(pub(crate) SnapshotOptions);
call!(Post "/v1/snapshots/create", CreateSnapshot => SnapshotView);

/// Deletes a snapshot.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DeleteSnapshot {
    pub(crate) name: String,
}
call!(Post "/v1/snapshots/delete", DeleteSnapshot => DeletedSnapshot);

/// What came of a [`DeleteSnapshot`].
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
pub(crate) struct DeletedSnapshot {
    /// The name of the snapshot that was.
    pub(crate) deleted: String,
}

/// Says whether a snapshot may be deleted.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct HoldSnapshot {
    pub(crate) name: String,
    /// Nobody may, until it is let go.
    pub(crate) held: bool,
}
call!(Post "/v1/snapshots/hold", HoldSnapshot => SnapshotView);

/// The rules by which snapshots are made by themselves, and what there is of them.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct GetSnapshotSchedule {}
call!(Get "/v1/snapshots/schedule", GetSnapshotSchedule => ScheduleView);

/// Replaces these rules.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct SetSnapshotSchedule {
    /// None: no snapshot is made by itself any more. What was made stays.
    pub(crate) rules: Vec<SnapshotRule>,
    /// The newest of them gets a dump of its metadata.
    #[serde(default)]
    pub(crate) dump: bool,
}
call!(Post "/v1/snapshots/schedule/set", SetSnapshotSchedule => ScheduleView);

/// Keeps the rows of a snapshot's metadata in the volume's bucket.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DumpSnapshot {
    pub(crate) name: String,
}
call!(Post "/v1/snapshots/dump", DumpSnapshot => SnapshotView);

/// Dumps that the daemon writes at this moment.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ListDumping {}
call!(Get "/v1/snapshots/dumping", ListDumping => Vec<DumpingView>);

/// Some of what is different between two snapshots, or a snapshot and the volume as it is now.
#[derive(Debug, Serialize, Deserialize, JsonSchema)]
#[serde(transparent)]
pub(crate) struct DiffSnapshots(pub(crate) DiffOptions);
call!(Post "/v1/snapshots/diff", DiffSnapshots => DiffPage);
