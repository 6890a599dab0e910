//! How much is where, over the admin door.

use std::sync::Arc;

use weir_engine::Survey;
use weir_types::Result;

use super::routes::Routes;
use crate::api::GetSurvey;
use crate::daemon::shared::DaemonState;

/// What whoever watches the daemon may ask, on a port of the machine too.
pub(super) fn add_watching(routes: Routes) -> Routes {
    routes.wholly(survey)
}

async fn survey(shared: Arc<DaemonState>, GetSurvey {}: GetSurvey) -> Result<Survey> {
    shared.engine.survey().await
}
