//! Links over the admin door.

use std::sync::Arc;

use weir_engine::{HiddenObject, LinkPlan, LinkView, PlannedExports};
use weir_types::Result;

use super::routes::Routes;
use crate::api::{ListHidden, ListLinks, ListPending, MakeLink, PlanLink, RefreshLink, Unlink};
use crate::daemon::shared::DaemonState;

/// Most objects of one answer.
const PAGE_MAX: usize = 10_000;
const PAGE_DEFAULT: usize = 1_000;

/// What users may ask, too.
pub(super) fn add_watching(routes: Routes) -> Routes {
    routes.on(list)
}

pub(super) fn add(routes: Routes) -> Routes {
    let routes = add_watching(routes).on(make).on(end).on(plan);
    routes.on(pending).on(hidden).on(refresh)
}

async fn list(shared: Arc<DaemonState>, ListLinks {}: ListLinks) -> Result<Vec<LinkView>> {
    shared.engine.links().await
}

async fn make(
    shared: Arc<DaemonState>,
    MakeLink { ino, path, options }: MakeLink,
) -> Result<LinkView> {
    shared.engine.link_bucket(ino, &path, options).await
}

async fn end(shared: Arc<DaemonState>, Unlink { ino }: Unlink) -> Result<LinkView> {
    shared.engine.unlink_bucket(ino).await
}

async fn plan(shared: Arc<DaemonState>, PlanLink(options): PlanLink) -> Result<LinkPlan> {
    shared.engine.plan_link(options).await
}

async fn pending(
    shared: Arc<DaemonState>,
    ListPending { link, limit }: ListPending,
) -> Result<PlannedExports> {
    shared.engine.planned_exports(link, page(limit)).await
}

async fn hidden(
    shared: Arc<DaemonState>,
    ListHidden { link, after, limit }: ListHidden,
) -> Result<Vec<HiddenObject>> {
    shared.engine.hidden_objects(link, after.as_deref(), page(limit)).await
}

async fn refresh(
    shared: Arc<DaemonState>,
    RefreshLink { link, keys, confirm }: RefreshLink,
) -> Result<LinkView> {
    match confirm {
        true => shared.engine.confirm_link(link).await,
        false => shared.engine.refresh_link(link, keys).await,
    }
}

fn page(limit: Option<usize>) -> usize {
    limit.unwrap_or(PAGE_DEFAULT).clamp(1, PAGE_MAX)
}
