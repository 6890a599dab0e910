//! Quotas over the admin door.

use std::sync::Arc;

use weir_engine::{Engine, QuotaSubject, QuotaView};
use weir_types::{Ino, Result};

use super::routes::Routes;
use crate::api::{GetQuotas, ListQuotas, QuotaTarget, RemoveQuota, SetQuota};
use crate::daemon::shared::DaemonState;

pub(super) fn add(routes: Routes) -> Routes {
    routes.on(list).on(of).wholly(set).wholly(remove)
}

async fn list(shared: Arc<DaemonState>, ListQuotas {}: ListQuotas) -> Result<Vec<QuotaView>> {
    shared.engine.quotas().await
}

async fn of(shared: Arc<DaemonState>, GetQuotas { path }: GetQuotas) -> Result<Vec<QuotaView>> {
    shared.engine.quotas_over(find(&shared.engine, &path).await?).await
}

async fn set(shared: Arc<DaemonState>, SetQuota { target, change }: SetQuota) -> Result<QuotaView> {
    let subject = subject(&shared.engine, target).await?;
    shared.engine.set_quota(subject, change).await
}

async fn remove(
    shared: Arc<DaemonState>,
    RemoveQuota { target }: RemoveQuota,
) -> Result<QuotaView> {
    let subject = subject(&shared.engine, target).await?;
    shared.engine.remove_quota(subject).await
}

async fn subject(engine: &Engine, target: QuotaTarget) -> Result<QuotaSubject> {
    Ok(match target {
        QuotaTarget::Directory(path) => QuotaSubject::Directory(find(engine, &path).await?.0),
        QuotaTarget::User(uid) => QuotaSubject::User(uid),
        QuotaTarget::Group(gid) => QuotaSubject::Group(gid),
    })
}

/// What has this path below the volume's root.
pub(super) async fn find(engine: &Engine, path: &str) -> Result<Ino> {
    let mut at = Ino::ROOT;
    for name in path.split('/').filter(|name| !matches!(*name, "" | ".")) {
        let found = engine.lookup(at, name.as_bytes()).await;
        at = found.map_err(|error| error.within(format!("/{path} of the volume")))?.ino;
    }
    Ok(at)
}
