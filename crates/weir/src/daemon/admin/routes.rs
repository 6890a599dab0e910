//! From calls of the API to functions that answer them.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{ConnectInfo, RawQuery, State};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use weir_types::{ErrorKind, FsError, Result};

use super::peer::{OfFiles, Peer, may};
#[cfg(test)]
use crate::api::page::Page;
use crate::api::{Call, Method, Refusal};
use crate::daemon::shared::{DaemonState, panicked};

/// What the door answers.
#[derive(Default)]
pub(super) struct Routes {
    router: Router<Arc<DaemonState>>,
    #[cfg(test)]
    pub(super) page: Page,
}

impl Routes {
    /// Answers a call with `handle`, which ends when who asked goes away.
    pub(super) fn on<C: Call, F>(
        mut self,
        handle: impl Fn(Arc<DaemonState>, C) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<C::Answer>> + Send + 'static,
    {
        #[cfg(test)]
        self.page.add::<C>();
        let answer = move |shared, call: Result<C>| async move {
            let answer = handle(shared, call?).await?;
            Ok::<_, Failed>(Json(answer).into_response())
        };
        let method = match C::METHOD {
            Method::Get => get(move |State(shared), RawQuery(query): RawQuery| {
                answer(shared, from_query(query.as_deref().unwrap_or_default()))
            }),
            Method::Post => {
                post(move |State(shared), body: Bytes| answer(shared, from_body(&body)))
            }
        };
        self.router = self.router.route(C::PATH, method);
        self
    }

    /// Answers a call about files with `handle`, if who asks may ask that of them.
    pub(super) fn by_owner<C: Call + OfFiles + Sync, F>(
        self,
        handle: impl Fn(Arc<DaemonState>, C) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<C::Answer>> + Send + 'static,
    {
        self.by_peer(move |shared: Arc<DaemonState>, peer, call: C| {
            let handle = handle.clone();
            async move {
                may(&shared, peer, &call).await?;
                to_its_end(handle(shared, call)).await
            }
        })
    }

    /// Answers a call with `handle`, which is told who asks.
    pub(super) fn by_peer<C: Call, F>(
        mut self,
        handle: impl Fn(Arc<DaemonState>, Peer, C) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<C::Answer>> + Send + 'static,
    {
        let answer = move |shared, peer, call: Result<C>| async move {
            let answer = handle(shared, peer, call?).await?;
            Ok::<_, Failed>(Json(answer).into_response())
        };
        let method = match C::METHOD {
            Method::Get => {
                get(move |State(shared), ConnectInfo(peer), RawQuery(query): RawQuery| {
                    answer(shared, peer, from_query(query.as_deref().unwrap_or_default()))
                })
            }
            Method::Post => post(move |State(shared), ConnectInfo(peer), body: Bytes| {
                answer(shared, peer, from_body(&body))
            }),
        };
        self.router = self.router.route(C::PATH, method);
        self
    }

    /// Answers a call with `handle`, which goes on to its end whoever goes away.
    pub(super) fn wholly<C: Call, F>(
        self,
        handle: impl Fn(Arc<DaemonState>, C) -> F + Clone + Send + Sync + 'static,
    ) -> Self
    where
        F: Future<Output = Result<C::Answer>> + Send + 'static,
    {
        self.on(move |shared, call| to_its_end(handle(shared, call)))
    }

    pub(super) fn into_router(self) -> Router<Arc<DaemonState>> {
        self.router
    }
}

async fn to_its_end<T: Send + 'static>(
    change: impl Future<Output = Result<T>> + Send + 'static,
) -> Result<T> {
    tokio::spawn(change).await.map_err(panicked)?
}

fn from_query<C: Call>(query: &str) -> Result<C> {
    serde_urlencoded::from_str(query).map_err(|error| misunderstood::<C>(error))
}

fn from_body<C: Call>(body: &[u8]) -> Result<C> {
    let body = if body.is_empty() { b"{}" } else { body };
    serde_json::from_slice(body).map_err(|error| misunderstood::<C>(error))
}

fn misunderstood<C: Call>(error: impl std::fmt::Display) -> FsError {
    FsError::new(ErrorKind::Invalid, format!("{}: {error}", C::PATH))
}

/// An error as an answer.
pub(super) struct Failed(FsError);

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        let (status, refusal) = Refusal::of(&self.0);
        (status, Json(refusal)).into_response()
    }
}

impl From<FsError> for Failed {
    fn from(error: FsError) -> Self {
        Self(error)
    }
}

#[cfg(test)]
mod tests {
    use tokio::sync::oneshot;

    use super::*;
    use crate::api::{GetUsed, MakeLink, Unmount};

    #[tokio::test]
    async fn a_change_goes_on_without_who_asked_for_it() {
        let (go, may_go) = oneshot::channel::<()>();
        let (done, is_done) = oneshot::channel();
        let asked = tokio::spawn(to_its_end(async move {
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

    #[test]
    fn what_is_not_needed_may_be_left_out_and_what_nobody_knows_is_refused() {
        assert_eq!(from_query::<GetUsed>("").expect("reads").since_unix_ms, None);
        assert_eq!(from_query::<GetUsed>("since_unix_ms=7").expect("reads").since_unix_ms, Some(7));
        assert!(!from_body::<Unmount>(b"").expect("reads").lazy);
        let strange = from_body::<Unmount>(br#"{"lazzy": true}"#).expect_err("a wrong word");
        assert!(strange.to_string().contains("/v1/unmount: unknown field `lazzy`"), "{strange}");
        let little = from_body::<MakeLink>(b"").expect_err("which directory?");
        assert_eq!(little.kind(), ErrorKind::Invalid);
        assert!(from_query::<GetUsed>("since=7").is_err());
    }
}
