//! Releasing files that somebody names: only what is in the bucket as it is, and in nobody's use.

use std::sync::Arc;
use std::time::Duration;

use weir_tier::Mirror;
use weir_types::Result;

use super::action::Action;
use super::feed::Feed;
use super::found::Found;
use crate::services::actions::parts::Actions;
use crate::volume::context::blocking;

/// Looks at a file that somebody is just reading or filling.
const TRIES: usize = 5;
/// Rest between them, in milliseconds.
const REST_MS: u64 = 20;

const OPEN: &str = "a program has it open or mapped: close it first";

pub(super) async fn run(actions: &Arc<Actions>, action: &Arc<Action>) -> Result<()> {
    let mut feed = Feed::begin(actions, action);
    while let Some(page) = feed.page().await {
        let mut going = Vec::new();
        for file in page {
            let Some(mirror) = actions.tier.find(file.ino) else {
                action.done(1, file.size);
                continue;
            };
            match actions.why_not_release(&file, &mirror).await {
                Ok(None) => going.push((file, mirror)),
                Ok(Some(why)) => action.refuse(&file, why),
                Err(error) => action.refuse(&file, &error.to_string()),
            }
        }
        actions.release_files(going, action).await;
    }
    feed.end().await
}

impl Actions {
    /// What keeps a file from being released.
    async fn why_not_release(&self, file: &Found, mirror: &Mirror) -> Result<Option<&'static str>> {
        if self.space.is_pinned(mirror) {
            return Ok(Some("it is pinned: unpin it first"));
        }
        if self.nodes.is_open(file.ino) {
            return Ok(Some(OPEN));
        }
        let inode = self.meta.inode(file.ino).await?;
        if !self.is_archived(&inode, Some(mirror)).await? {
            return Ok(Some("it has changes that are not in the bucket: archive it or wait"));
        }
        Ok(None)
    }

    async fn release_files(
        self: &Arc<Self>,
        mut going: Vec<(Found, Arc<Mirror>)>,
        action: &Action,
    ) {
        let mut why = OPEN.to_owned();
        for attempt in 0..TRIES {
            if going.is_empty() {
                return;
            }
            if attempt > 0 {
                tokio::time::sleep(Duration::from_millis(REST_MS)).await;
            }
            let (actions, mirrors) = (self.clone(), mirrors_of(&going));
            match blocking(move || {
                actions.tier.release(&mirrors, |mirror| actions.space.is_pinned(mirror))
            })
            .await
            {
                Ok(bytes) => self.space.released(bytes),
                Err(error) => why = error.to_string(),
            }
            for (file, mirror) in going.extract_if(.., |(_, mirror)| mirror.local_bytes() == 0) {
                // It holds nothing and is forgotten.
                mirror.idle();
                action.done(1, file.size);
            }
        }
        for (file, _) in going {
            action.refuse(&file, &why);
        }
    }
}

fn mirrors_of(files: &[(Found, Arc<Mirror>)]) -> Vec<Arc<Mirror>> {
    files.iter().map(|(_, mirror)| mirror.clone()).collect()
}
