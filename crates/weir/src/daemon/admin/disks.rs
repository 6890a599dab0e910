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
use crate::daemon::{Shared, panicked};

type Answer<T> = Result<Json<T>, Failed>;

/// Does a change to its end, even if who asked for it goes away meanwhile.
pub(super) async fn wholly<T: Send + 'static>(
    change: impl Future<Output = Result<T, FsError>> + Send + 'static,
) -> Answer<T> {
    let done = tokio::spawn(change).await.map_err(panicked)?;
    Ok(Json(done?))
}

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
    wholly(async move { shared.engine.create_disk(options).await }).await
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
    wholly(async move {
        let disk = shared.engine.resize_disk(&name, size_bytes, may_shrink).await?;
        shared.block.resized(&name).await?;
        Ok(disk)
    })
    .await
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
    wholly(async move {
        shared.engine.delete_disk(&name).await?;
        Ok(json!({ "deleted": name }))
    })
    .await
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
    wholly(async move { shared.engine.snapshot_disk(&name, &snapshot).await }).await
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
    wholly(async move { shared.engine.clone_disk(&name, &new).await }).await
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
    wholly(async move { shared.block.attach(options).await }).await
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
    wholly(async move { shared.block.detach(&device).await }).await
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;

    #[tokio::test]
    async fn a_change_goes_on_without_who_asked_for_it() {
        let (go, may_go) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let asked = tokio::spawn(wholly(async move {
            let _ = may_go.await;
            let _ = done.send(7);
            Ok(())
        }));
        // It runs up to where it waits.
        tokio::task::yield_now().await;
        asked.abort();
        let _ = asked.await;
        go.send(()).expect("somebody waits for it");
        assert_eq!(is_done.await, Ok(7));
    }
}
