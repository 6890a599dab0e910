//! Waiting for an import, and what it came to.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use weir_engine::{LinkId, LinkView};
use weir_types::{ErrorKind, FsError, Result};

use super::describe;
use crate::api::ListLinks;
use crate::client::Client;
use crate::progress::{Progress, Unit};
use crate::render;

/// An import of which nothing is seen for so long has ended as the last one did.
const SILENT: Duration = Duration::from_secs(10);

/// What tells one import that ended from another: when it did, and how.
pub(super) type Last = (Option<i64>, Option<String>);

pub(super) fn last(view: &LinkView) -> Last {
    (view.imported_unix_ms, view.import_error.clone())
}

/// Shows how an import goes until it has ended. It was asked for after `before`, and may not have
/// begun when `view` was told.
pub(super) async fn imported(
    client: &Client,
    before: &Last,
    mut view: LinkView,
) -> Result<LinkView> {
    let mut progress = Progress::new(Unit::Objects);
    let since = Instant::now();
    let mut began = false;
    loop {
        match &view.importing {
            Some(import) => {
                began = true;
                progress.show(import.listed, None, &describe::importing(import));
            }
            None if began || last(&view) != *before || since.elapsed() > SILENT => {
                return Ok(view);
            }
            // Its directories are imported when they are looked into.
            None if view.options.lazy_dirs => return Ok(view),
            None => {}
        }
        tokio::time::sleep(progress.interval()).await;
        view = one(client, view.id).await?;
    }
}

async fn one(client: &Client, id: LinkId) -> Result<LinkView> {
    let found = client.call(&ListLinks {}).await?.into_iter().find(|link| link.id == id);
    found.ok_or_else(|| FsError::new(ErrorKind::NotFound, "the link was taken away meanwhile"))
}

/// 1 if the last import failed.
pub(super) fn judge(view: &LinkView) -> Result<ExitCode> {
    match &view.import_error {
        None => Ok(ExitCode::SUCCESS),
        Some(error) => {
            render::tell(&format!("weir: the import of {} failed: {error}\n", view.options.url));
            Ok(ExitCode::FAILURE)
        }
    }
}
