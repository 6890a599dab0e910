//! Actions, pins and states over the admin door.
//!
//! `GET /actions`, `POST /actions` (an `ActionRequest`), `GET /actions/{id}?wait_ms=N` (answers when
//! the action has ended, or after that time), `DELETE /actions/{id}`, `POST /pin` (`{"roots",
//! "recursive", "pinned"}`), `GET /state?ino=N`, `POST /states` (`{"inos": […]}`; an answer for
//! each, `null` for a file that is gone).

use std::sync::Arc;

use axum::extract::{Path, Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::{Deserialize, Serialize};
use weir_engine::{ActionId, ActionRequest, ActionView, FileState, Root};
use weir_types::{ErrorKind, Ino};

use super::{Failed, Which};
use crate::daemon::Shared;

/// Longest wait of one answer.
const WAIT_LONGEST_MS: u64 = 60_000;

type Answer<T> = Result<Json<T>, Failed>;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/actions", get(list).post(start))
        .route("/actions/{id}", get(one).delete(cancel))
        .route("/pin", post(pin))
        .route("/state", get(state))
        .route("/states", post(states))
}

async fn list(State(shared): State<Arc<Shared>>) -> Answer<Vec<ActionView>> {
    Ok(Json(shared.engine.actions().await?))
}

async fn start(
    State(shared): State<Arc<Shared>>,
    Json(request): Json<ActionRequest>,
) -> Answer<ActionView> {
    Ok(Json(shared.engine.start_action(request).await?))
}

#[derive(Deserialize)]
struct Wait {
    #[serde(default)]
    wait_ms: u64,
}

async fn one(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<ActionId>,
    Query(wait): Query<Wait>,
) -> Answer<ActionView> {
    let action = match wait.wait_ms {
        0 => shared.engine.action(id).await?,
        ms => shared.engine.wait_for_action(id, ms.min(WAIT_LONGEST_MS)).await?,
    };
    Ok(Json(action))
}

async fn cancel(State(shared): State<Arc<Shared>>, Path(id): Path<ActionId>) -> Answer<ActionView> {
    Ok(Json(shared.engine.cancel_action(id).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Pin {
    roots: Vec<Root>,
    recursive: bool,
    pinned: bool,
}

#[derive(Serialize)]
struct Pinned {
    files: u64,
}

async fn pin(State(shared): State<Arc<Shared>>, Json(pin): Json<Pin>) -> Answer<Pinned> {
    let files = shared.engine.pin(&pin.roots, pin.recursive, pin.pinned).await?;
    Ok(Json(Pinned { files }))
}

async fn state(State(shared): State<Arc<Shared>>, Query(which): Query<Which>) -> Answer<FileState> {
    Ok(Json(shared.engine.file_state(Ino(which.ino)).await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Several {
    inos: Vec<Ino>,
}

async fn states(
    State(shared): State<Arc<Shared>>,
    Json(asked): Json<Several>,
) -> Answer<Vec<Option<FileState>>> {
    let mut answer = Vec::with_capacity(asked.inos.len());
    for ino in asked.inos {
        answer.push(match shared.engine.file_state(ino).await {
            Ok(state) => Some(state),
            // Removed since the caller found it.
            Err(error) if error.kind() == ErrorKind::NotFound => None,
            Err(error) => return Err(error.into()),
        });
    }
    Ok(Json(answer))
}
