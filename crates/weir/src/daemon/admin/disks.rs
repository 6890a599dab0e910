//! Disks and devices over the admin door.

use std::sync::Arc;

use weir_door_block::attach::Attached;
use weir_engine::DiskView;
use weir_types::{ErrorKind, FsError, Result};

use super::routes::Routes;
use crate::api::{
    Attach, CloneDisk, CreateDisk, DeleteDisk, Deleted, Detach, ListDevices, ListDisks, ResizeDisk,
    SnapshotDisk,
};
use crate::daemon::shared::DaemonState;

pub(super) fn add(routes: Routes) -> Routes {
    let routes = routes.on(list).wholly(create).wholly(resize).wholly(delete);
    let routes = routes.wholly(snapshot).wholly(clone);
    routes.on(devices).wholly(attach).wholly(detach)
}

async fn list(shared: Arc<DaemonState>, ListDisks {}: ListDisks) -> Result<Vec<DiskView>> {
    shared.engine.disks().await
}

async fn create(shared: Arc<DaemonState>, CreateDisk(options): CreateDisk) -> Result<DiskView> {
    shared.engine.create_disk(options).await
}

async fn resize(shared: Arc<DaemonState>, call: ResizeDisk) -> Result<DiskView> {
    let ResizeDisk { name, size_bytes, may_shrink } = call;
    let disk = shared.engine.resize_disk(&name, size_bytes, may_shrink).await?;
    shared.block.resized(&name).await?;
    Ok(disk)
}

async fn delete(shared: Arc<DaemonState>, DeleteDisk { name }: DeleteDisk) -> Result<Deleted> {
    shared.engine.delete_disk(&name).await?;
    Ok(Deleted { deleted: name })
}

async fn snapshot(
    shared: Arc<DaemonState>,
    SnapshotDisk { name, snapshot }: SnapshotDisk,
) -> Result<DiskView> {
    shared.engine.snapshot_disk(&name, &snapshot).await
}

async fn clone(shared: Arc<DaemonState>, CloneDisk { name, new }: CloneDisk) -> Result<DiskView> {
    shared.engine.clone_disk(&name, &new).await
}

async fn devices(shared: Arc<DaemonState>, ListDevices {}: ListDevices) -> Result<Vec<Attached>> {
    Ok(shared.block.devices())
}

async fn attach(shared: Arc<DaemonState>, Attach(options): Attach) -> Result<Attached> {
    if shared.is_ending() {
        let text = "the daemon is about to end: start another one, then attach";
        return Err(FsError::new(ErrorKind::Retry, text));
    }
    shared.block.attach(options).await
}

async fn detach(shared: Arc<DaemonState>, Detach { device }: Detach) -> Result<Attached> {
    shared.block.detach(&device).await
}
