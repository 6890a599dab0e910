//! What was set aside, over the admin door.
//!
//! `GET /recover`, `POST /recover/merge` (`{"label"}`, which may be null: all), `POST
//! /recover/extract` (`{"label", "directory"}`), `POST /recover/discard` (`{"label"}`), `GET
//! /recover/progress`.

use std::path::PathBuf;
use std::sync::Arc;

use axum::extract::State;
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use serde_json::{Value, json};
use weir_engine::{AsideView, ExtractReport, MergeReport, RecoverProgress};
use weir_types::{ErrorKind, FsError};

use super::Failed;
use super::disks::wholly;
use crate::daemon::Shared;

type Answer<T> = Result<Json<T>, Failed>;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/recover", get(list))
        .route("/recover/merge", post(merge))
        .route("/recover/extract", post(extract))
        .route("/recover/discard", post(discard))
        .route("/recover/progress", get(progress))
}

async fn list(State(shared): State<Arc<Shared>>) -> Answer<Vec<AsideView>> {
    Ok(Json(shared.engine.recover_list().await?))
}

async fn progress(State(shared): State<Arc<Shared>>) -> Json<RecoverProgress> {
    Json(shared.engine.recover_progress())
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Which {
    label: Option<String>,
}

async fn merge(
    State(shared): State<Arc<Shared>>,
    Json(Which { label }): Json<Which>,
) -> Answer<MergeReport> {
    wholly(async move { shared.engine.recover_merge(label.as_deref()).await }).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Extract {
    label: Option<String>,
    directory: PathBuf,
}

async fn extract(
    State(shared): State<Arc<Shared>>,
    Json(Extract { label, directory }): Json<Extract>,
) -> Answer<ExtractReport> {
    if shared.mountpoint().is_some_and(|mountpoint| directory.starts_with(mountpoint)) {
        let text = "this directory is in the volume itself: name one on a local disk";
        return Err(FsError::new(ErrorKind::Invalid, text).into());
    }
    wholly(async move { shared.engine.recover_extract(label.as_deref(), &directory).await }).await
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Discard {
    label: String,
}

async fn discard(
    State(shared): State<Arc<Shared>>,
    Json(Discard { label }): Json<Discard>,
) -> Answer<Value> {
    wholly(async move {
        shared.engine.recover_discard(&label).await?;
        Ok(json!({ "discarded": label }))
    })
    .await
}
