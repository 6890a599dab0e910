//! Throughput and use over the admin door.
//!
//! `GET /throughput`, `POST /throughput` (`{"whose", "name", "change"}`), `GET /used?since_unix_ms=N`.

use std::sync::Arc;

use axum::extract::{Query, State};
use axum::routing::get;
use axum::{Json, Router};
use serde::Deserialize;
use weir_engine::{Spell, ThroughputChange, ThroughputReport, Whose};

use super::Failed;
use crate::daemon::Shared;

type Answer<T> = Result<Json<T>, Failed>;

pub(super) fn routes() -> Router<Arc<Shared>> {
    Router::new().route("/throughput", get(report).post(change)).route("/used", get(used))
}

async fn report(State(shared): State<Arc<Shared>>) -> Answer<ThroughputReport> {
    Ok(Json(shared.engine.throughput().await?))
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Wanted {
    whose: Whose,
    name: String,
    change: ThroughputChange,
}

async fn change(
    State(shared): State<Arc<Shared>>,
    Json(Wanted { whose, name, change }): Json<Wanted>,
) -> Answer<ThroughputReport> {
    Ok(Json(shared.engine.set_throughput(whose, &name, change).await?))
}

#[derive(Deserialize)]
struct Since {
    since_unix_ms: Option<u64>,
}

async fn used(State(shared): State<Arc<Shared>>, Query(since): Query<Since>) -> Json<Spell> {
    Json(shared.engine.used_since(since.since_unix_ms).await)
}
