//! Snapshots over the admin door.

use std::sync::Arc;

use weir_engine::{DiffPage, DumpingView, ScheduleView, SnapshotTotals, SnapshotView};
use weir_types::Result;

use super::routes::Routes;
use crate::api::{
    CreateSnapshot, DeleteSnapshot, DeletedSnapshot, DiffSnapshots, DumpSnapshot,
    GetSnapshotSchedule, GetSnapshotTotals, HoldSnapshot, ListDumping, ListSnapshots,
    SetSnapshotSchedule,
};
use crate::daemon::shared::DaemonState;

pub(super) fn add(routes: Routes) -> Routes {
    add_watching(routes)
        .on(list)
        .on(schedule)
        .on(diff)
        .on(dumping)
        .wholly(create)
        .wholly(delete)
        .wholly(hold)
        .wholly(dump)
        .wholly(set_schedule)
}

/// What everybody who may see the volume may ask.
pub(super) fn add_watching(routes: Routes) -> Routes {
    routes.on(totals)
}

async fn list(
    shared: Arc<DaemonState>,
    ListSnapshots {}: ListSnapshots,
) -> Result<Vec<SnapshotView>> {
    shared.engine.snapshots().await
}

async fn totals(
    shared: Arc<DaemonState>,
    GetSnapshotTotals {}: GetSnapshotTotals,
) -> Result<SnapshotTotals> {
    shared.engine.snapshot_totals().await
}

async fn create(
    shared: Arc<DaemonState>,
    CreateSnapshot(options): CreateSnapshot,
) -> Result<SnapshotView> {
    shared.engine.create_snapshot(&options).await
}

async fn delete(
    shared: Arc<DaemonState>,
    DeleteSnapshot { name }: DeleteSnapshot,
) -> Result<DeletedSnapshot> {
    shared.engine.delete_snapshot(&name).await?;
    Ok(DeletedSnapshot { deleted: name })
}

async fn hold(
    shared: Arc<DaemonState>,
    HoldSnapshot { name, held }: HoldSnapshot,
) -> Result<SnapshotView> {
    shared.engine.hold_snapshot(&name, held).await
}

async fn schedule(
    shared: Arc<DaemonState>,
    GetSnapshotSchedule {}: GetSnapshotSchedule,
) -> Result<ScheduleView> {
    shared.engine.snapshot_schedule().await
}

async fn set_schedule(
    shared: Arc<DaemonState>,
    SetSnapshotSchedule { rules, dump }: SetSnapshotSchedule,
) -> Result<ScheduleView> {
    shared.engine.set_snapshot_schedule(rules, dump).await
}

async fn dump(
    shared: Arc<DaemonState>,
    DumpSnapshot { name }: DumpSnapshot,
) -> Result<SnapshotView> {
    shared.engine.dump_snapshot(&name).await
}

async fn dumping(
    shared: Arc<DaemonState>,
    ListDumping {}: ListDumping,
) -> Result<Vec<DumpingView>> {
    Ok(shared.engine.dumping())
}

async fn diff(shared: Arc<DaemonState>, DiffSnapshots(options): DiffSnapshots) -> Result<DiffPage> {
    shared.engine.diff_snapshots(&options).await
}
