//! Links over the admin door.
//!
//! `GET /links`, `POST /links` (`{"ino", "path", "options"}`), `DELETE /links?ino=N`,
//! `POST /links/plan` (options), `GET /links/pending?link=N&limit=N`,
//! `GET /links/hidden?link=N&after=KEY&limit=N`, `POST /links/refresh?link=N` (`{"keys": […]}`, or
//! no body for all of the link; with `&confirm=true` deletions that were held are done).

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::{get, post};
use axum::{Json, Router};
use serde::Deserialize;
use weir_engine::{HiddenObject, LinkId, LinkOptions, LinkPlan, LinkView, PlannedExports};
use weir_types::Ino;

use super::{Failed, Which};
use crate::daemon::Shared;

/// Most hidden objects of one answer.
const PAGE_LARGEST: usize = 10_000;
const PAGE_USUAL: usize = 1_000;

type Answer<T> = Result<Json<T>, Failed>;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new()
        .route("/links", get(list).post(link).delete(unlink))
        .route("/links/hidden", get(hidden))
        .route("/links/plan", post(plan))
        .route("/links/pending", get(pending))
        .route("/links/refresh", post(refresh))
}

async fn list(State(shared): State<Arc<Shared>>) -> Answer<Vec<LinkView>> {
    Ok(Json(shared.engine.links().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct NewLink {
    ino: Ino,
    path: String,
    options: LinkOptions,
}

async fn link(
    State(shared): State<Arc<Shared>>,
    Json(NewLink { ino, path, options }): Json<NewLink>,
) -> Answer<LinkView> {
    Ok(Json(shared.engine.link_bucket(ino, &path, options).await?))
}

async fn plan(
    State(shared): State<Arc<Shared>>,
    Json(options): Json<LinkOptions>,
) -> Answer<LinkPlan> {
    Ok(Json(shared.engine.plan_link(options).await?))
}

async fn pending(
    State(shared): State<Arc<Shared>>,
    Query(page): Query<Page>,
) -> Answer<PlannedExports> {
    let limit = page.limit.unwrap_or(PAGE_USUAL).clamp(1, PAGE_LARGEST);
    Ok(Json(shared.engine.planned_exports(page.link, limit).await?))
}

async fn unlink(State(shared): State<Arc<Shared>>, Query(which): Query<Which>) -> Answer<LinkView> {
    Ok(Json(shared.engine.unlink_bucket(Ino(which.ino)).await?))
}

#[derive(Deserialize)]
struct Page {
    link: LinkId,
    after: Option<String>,
    limit: Option<usize>,
}

async fn hidden(
    State(shared): State<Arc<Shared>>,
    Query(page): Query<Page>,
) -> Answer<Vec<HiddenObject>> {
    let limit = page.limit.unwrap_or(PAGE_USUAL).clamp(1, PAGE_LARGEST);
    Ok(Json(shared.engine.hidden_objects(page.link, page.after.as_deref(), limit).await?))
}

#[derive(Deserialize)]
struct WhichLink {
    link: LinkId,
    #[serde(default)]
    confirm: bool,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Changed {
    keys: Option<Vec<String>>,
}

async fn refresh(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<WhichLink>,
    changed: Option<Json<Changed>>,
) -> Answer<LinkView> {
    if which.confirm {
        return Ok(Json(shared.engine.confirm_link(which.link).await?));
    }
    let keys = changed.and_then(|Json(changed)| changed.keys);
    Ok(Json(shared.engine.refresh_link(which.link, keys).await?))
}
