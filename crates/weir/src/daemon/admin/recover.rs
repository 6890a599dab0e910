//! What was set aside, over the admin door.

use std::sync::Arc;

use weir_engine::{AsideView, ExtractReport, MergeReport, RecoverProgress};
use weir_types::{ErrorKind, FsError, Result};

use super::routes::Routes;
use crate::api::{
    DiscardAside, Discarded, ExtractAside, GetRecoverProgress, ListAside, MergeAside,
};
use crate::daemon::shared::DaemonState;

pub(super) fn add(routes: Routes) -> Routes {
    routes.on(list).on(progress).wholly(merge).wholly(extract).wholly(discard)
}

async fn list(shared: Arc<DaemonState>, ListAside {}: ListAside) -> Result<Vec<AsideView>> {
    shared.engine.recover_list().await
}

async fn progress(
    shared: Arc<DaemonState>,
    GetRecoverProgress {}: GetRecoverProgress,
) -> Result<RecoverProgress> {
    Ok(shared.engine.recover_progress())
}

async fn merge(shared: Arc<DaemonState>, MergeAside { label }: MergeAside) -> Result<MergeReport> {
    shared.engine.recover_merge(label.as_deref()).await
}

async fn extract(
    shared: Arc<DaemonState>,
    ExtractAside { label, directory }: ExtractAside,
) -> Result<ExtractReport> {
    if shared.mountpoint().is_some_and(|mountpoint| directory.starts_with(mountpoint)) {
        let text = "this directory is in the volume itself: name one on a local disk";
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    shared.engine.recover_extract(label.as_deref(), &directory).await
}

async fn discard(
    shared: Arc<DaemonState>,
    DiscardAside { label }: DiscardAside,
) -> Result<Discarded> {
    shared.engine.recover_discard(&label).await?;
    Ok(Discarded { discarded: label })
}
