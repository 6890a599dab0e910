//! A mount that follows a writer elsewhere: what is open here is brought in step with what that one
//! made durable, and the doors are told.

use std::sync::Arc;
use std::time::Duration;

use weir_types::Result;

use super::registry::Registry;
use crate::data::mirrors::Mirrors;
use crate::data::nodes::Nodes;

/// How often it is looked whether the metadata is newer, in milliseconds. It costs no request.
const LOOK_MS: u64 = 200;

/// Follows until the mount ends.
pub(crate) async fn follow_loop(mirrors: Arc<Mirrors>, nodes: Arc<Nodes>, links: Arc<Registry>) {
    let mut seen = None;
    loop {
        tokio::time::sleep(Duration::from_millis(LOOK_MS)).await;
        let newest = mirrors.newest();
        if seen != Some(newest) {
            match catch_up(&mirrors, &nodes).await {
                Ok(()) => seen = Some(newest),
                Err(error) => tracing::debug!(%error, "following the writer failed: tried again"),
            }
        }
        for (ino, moved) in mirrors.take_moved() {
            links.file_changed(ino, moved);
        }
        links.notify_doors().await;
    }
}

async fn catch_up(mirrors: &Mirrors, nodes: &Nodes) -> Result<()> {
    for node in nodes.all_followed() {
        mirrors.catch_up(&node, false).await?;
    }
    Ok(())
}
