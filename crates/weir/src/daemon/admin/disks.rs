//! Disks and devices over the admin door.
//!
//! `GET /disks`, `POST /disks/create` (a `DiskOptions`), `POST /disks/resize` (`{"name",
//! "size_bytes", "may_shrink"}`), `POST /disks/delete` (`{"name"}`), `POST /disks/snapshot`
//! (`{"name", "snapshot"}`), `POST /disks/clone` (`{"name", "new"}`), `GET /devices`, `POST
//! /devices/attach` (an `AttachOptions`), `POST /devices/detach` (`{"device"}`, or the disk's name).

use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_door_block::attach::{AttachOptions, Attached};
use weir_engine::{DiskOptions, DiskView};
use weir_types::{ErrorKind, FsError};

use super::Failed;
use crate::daemon::Shared;

type Answer<T> = Result<Json<T>, Failed>;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/disks", get(list))
        .route("/disks/create", post(create))
        .route("/disks/resize", post(resize))
        .route("/disks/delete", post(delete))
        .route("/disks/snapshot", post(snapshot))
        .route("/disks/clone", post(clone))
        .route("/devices", get(devices))
        .route("/devices/attach", post(attach))
        .route("/devices/detach", post(detach))
}

async fn list(State(shared): State<Arc<Shared>>) -> Answer<Vec<DiskView>> {
    Ok(Json(shared.engine.disks().await?))
}

async fn create(
    State(shared): State<Arc<Shared>>,
    Json(options): Json<DiskOptions>,
) -> Answer<DiskView> {
    Ok(Json(shared.engine.create_disk(options).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Resize {
    name: String,
    size_bytes: u64,
    may_shrink: bool,
}

async fn resize(
    State(shared): State<Arc<Shared>>,
    Json(Resize { name, size_bytes, may_shrink }): Json<Resize>,
) -> Answer<DiskView> {
    let disk = shared.engine.resize_disk(&name, size_bytes, may_shrink).await?;
    shared.block.resized(&name).await?;
    Ok(Json(disk))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Delete {
    name: String,
}

async fn delete(
    State(shared): State<Arc<Shared>>,
    Json(Delete { name }): Json<Delete>,
) -> Answer<Value> {
    shared.engine.delete_disk(&name).await?;
    Ok(Json(json!({ "deleted": name })))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Snapshot {
    name: String,
    snapshot: String,
}

async fn snapshot(
    State(shared): State<Arc<Shared>>,
    Json(Snapshot { name, snapshot }): Json<Snapshot>,
) -> Answer<DiskView> {
    Ok(Json(shared.engine.snapshot_disk(&name, &snapshot).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Clone {
    name: String,
    new: String,
}

async fn clone(
    State(shared): State<Arc<Shared>>,
    Json(Clone { name, new }): Json<Clone>,
) -> Answer<DiskView> {
    Ok(Json(shared.engine.clone_disk(&name, &new).await?))
}

async fn devices(State(shared): State<Arc<Shared>>) -> Json<Vec<Attached>> {
    Json(shared.block.devices())
}

async fn attach(
    State(shared): State<Arc<Shared>>,
    Json(options): Json<AttachOptions>,
) -> Answer<Attached> {
    if shared.is_ending() {
        let text = "the daemon is about to end: start another one, then attach";
        return Err(FsError::new(ErrorKind::Retry, text).into());
    }
    Ok(Json(shared.block.attach(options).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Detach {
    device: String,
}

async fn detach(
    State(shared): State<Arc<Shared>>,
    Json(Detach { device }): Json<Detach>,
) -> Answer<Attached> {
    Ok(Json(shared.block.detach(&device).await?))
}
