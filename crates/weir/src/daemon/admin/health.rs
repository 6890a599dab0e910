//! `GET /healthz` and `GET /readyz`: whether the daemon lives, and whether somebody should look at it.

use std::sync::Arc;

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use weir_engine::Status;

use super::routes::Failed;
use crate::daemon::shared::DaemonState;

/// A bucket that fails for a shorter time is tried again, and nobody need know.
const TROUBLE_MS: u64 = 60_000;

/// 200 as long as the daemon serves. A bucket that is away is no reason to end it: what is here is
/// read and written meanwhile.
pub(super) async fn lives(State(shared): State<Arc<DaemonState>>) -> Result<Response, Failed> {
    let status = shared.engine.status().await?;
    Ok(answer(&over(&status, shared.is_ending())))
}

/// 200 if nothing is wrong; else 503, and what is, a line each.
pub(super) async fn ready(State(shared): State<Arc<DaemonState>>) -> Result<Response, Failed> {
    let status = shared.engine.status().await?;
    let mut why = over(&status, shared.is_ending());
    why.extend(wrong(&status));
    Ok(answer(&why))
}

fn answer(why: &[String]) -> Response {
    match why.is_empty() {
        true => (StatusCode::OK, "ok\n".to_owned()).into_response(),
        false => (StatusCode::SERVICE_UNAVAILABLE, why.join("\n") + "\n").into_response(),
    }
}

/// Why it will not serve any more.
fn over(status: &Status, ending: bool) -> Vec<String> {
    let fenced = status.fenced.then(|| "another writer took the volume over".to_owned());
    let ending = ending.then(|| "it was told to end".to_owned());
    fenced.into_iter().chain(ending).collect()
}

/// What somebody must look at.
fn wrong(status: &Status) -> Vec<String> {
    let lasting = |of: &&weir_object::Trouble| of.lasting && of.since_ms_ago >= TROUBLE_MS;
    let troubles = status.troubles.iter().filter(lasting);
    let mut why: Vec<String> = troubles
        .map(|of| format!("the bucket fails for {} s: {}", of.since_ms_ago / 1_000, of.error))
        .collect();
    let trouble = status.metadata.trouble.as_ref();
    why.extend(trouble.filter(|of| of.since_ms_ago >= TROUBLE_MS).map(|of| {
        format!("the metadata's database fails for {} s: {}", of.since_ms_ago / 1_000, of.error)
    }));
    why.extend(status.flush_failed.as_ref().map(|of| format!("a flush failed: {}", of.error)));
    if status.files_in_doubt > 0 {
        why.push(format!("the tier's disk lost bytes of {} files", status.files_in_doubt));
    }
    why
}
