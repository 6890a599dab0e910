//! Storage classes over the admin door.

use std::sync::Arc;

use weir_engine::{LifecyclePlan, LifecycleView};
use weir_types::Result;

use super::quotas::find;
use super::routes::Routes;
use crate::api::{GetLifecycle, PlanLifecycle, RunLifecycle, SetLifecycle};
use crate::daemon::shared::DaemonState;

pub(super) fn add(routes: Routes) -> Routes {
    routes.on(get).on(plan).wholly(set).wholly(run)
}

async fn get(shared: Arc<DaemonState>, GetLifecycle {}: GetLifecycle) -> Result<LifecycleView> {
    shared.engine.lifecycle().await
}

async fn plan(
    shared: Arc<DaemonState>,
    PlanLifecycle { path, rule }: PlanLifecycle,
) -> Result<LifecyclePlan> {
    let dir = find(&shared.engine, &path).await?;
    shared.engine.plan_lifecycle(dir, rule).await
}

async fn set(
    shared: Arc<DaemonState>,
    SetLifecycle { path, rule }: SetLifecycle,
) -> Result<LifecycleView> {
    let dir = find(&shared.engine, &path).await?;
    shared.engine.set_lifecycle(dir, rule).await
}

async fn run(shared: Arc<DaemonState>, RunLifecycle {}: RunLifecycle) -> Result<LifecycleView> {
    shared.engine.begin_lifecycle_pass().await
}
