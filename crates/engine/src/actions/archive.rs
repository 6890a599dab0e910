//! Archiving: what was written is in the bucket, and stays there.

use std::sync::Arc;

use weir_types::Result;

use super::action::Action;
use super::feed::Feed;
use super::walk::Found;
use crate::engine::Core;

/// Files that failed and are tried again.
const FAILED_MOST: usize = 10_000;

pub(super) async fn run(core: &Arc<Core>, action: &Arc<Action>) -> Result<()> {
    let mut feed = Feed::begin(core, action);
    let mut failed = Vec::new();
    while let Some(page) = feed.page().await {
        match core.archive(&page).await {
            Ok(()) => action.done(page.len() as u64, page.iter().map(|file| file.size).sum()),
            // One of them, maybe: each is tried by itself.
            Err(error) if failed.len() + page.len() > FAILED_MOST => {
                page.iter().for_each(|file| action.refuse(file, &error.to_string()));
            }
            Err(_) => failed.extend(page),
        }
    }
    for file in failed {
        match core.archive(std::slice::from_ref(&file)).await {
            Ok(()) => action.done(1, file.size),
            Err(error) => action.refuse(&file, &error.to_string()),
        }
    }
    feed.end().await
}

impl Core {
    /// Returns when these files are in the bucket as they were when it was called.
    async fn archive(self: &Arc<Self>, files: &[Found]) -> Result<()> {
        let inos: Vec<_> = files.iter().map(|file| file.ino).collect();
        // What was stored through mappings is no news before somebody looked.
        self.catch_stores(&inos).await?;
        let news = |ino: &_| self.tier.find(*ino).is_some_and(|mirror| mirror.has_news());
        let news: Vec<_> = inos.into_iter().filter(news).collect();
        if !news.is_empty() {
            self.flush_files(&news).await?;
            self.seen(self.meta.sync().await)?;
            self.sync_journal().await?;
        }
        for file in files {
            self.export(file).await?;
        }
        Ok(())
    }

    /// Writes a file of a link to its object. Outside of links nothing is left to do.
    async fn export(&self, _file: &Found) -> Result<()> {
        Ok(())
    }
}
