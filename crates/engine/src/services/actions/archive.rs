//! Archiving: what was written is in the bucket, and stays there.

use std::sync::Arc;

use weir_meta::ExportName;
use weir_types::{ErrorKind, FsError, Result};

use super::action::Action;
use super::feed::Feed;
use super::found::Found;
use crate::services::actions::parts::Actions;
use crate::services::links::Link;

/// Files that failed and are tried again.
const FAILED_MAX: usize = 10_000;

pub(super) async fn run(actions: &Arc<Actions>, action: &Arc<Action>) -> Result<()> {
    let mut feed = Feed::begin(actions, action);
    let mut failed = Vec::new();
    while let Some(page) = feed.page().await {
        match actions.archive(&page).await {
            Ok(()) => action.done(page.len() as u64, page.iter().map(|file| file.size).sum()),
            // One of them, maybe: each is tried by itself.
            Err(error) if failed.len() + page.len() > FAILED_MAX => {
                page.iter().for_each(|file| action.refuse(file, &error.to_string()));
            }
            Err(_) => failed.extend(page),
        }
    }
    for file in failed {
        match actions.archive(std::slice::from_ref(&file)).await {
            Ok(()) => action.done(1, file.size),
            Err(error) => action.refuse(&file, &error.to_string()),
        }
    }
    feed.end().await
}

impl Actions {
    /// Returns when these files are in the bucket as they were when it was called.
    async fn archive(self: &Arc<Self>, files: &[Found]) -> Result<()> {
        let mut inos = Vec::new();
        for file in files {
            let inode = self.meta.inode(file.ino).await?;
            match self.links.resolver.link_where_it_is(&inode, file.dir).await? {
                // Its object is all it needs: no segment on the way.
                Some(link) if self.export(&link, file).await? => {}
                _ => inos.push(file.ino),
            }
        }
        // What was stored through mappings is not known before somebody looked.
        self.mirrors.scan_mapped_writes(&inos).await?;
        let unflushed = |ino: &_| self.tier.find(*ino).is_some_and(|mirror| mirror.has_unflushed());
        let unflushed: Vec<_> = inos.into_iter().filter(unflushed).collect();
        if !unflushed.is_empty() {
            self.flusher.flush_files(&unflushed).await?;
        }
        self.meta.sync().await?;
        self.durability.settle_journal().await
    }

    /// Writes a file to its object; `false` if it is none that can be exported. What was begun goes
    /// on whatever becomes of the action: half a PUT would be an object that nobody knows of.
    async fn export(self: &Arc<Self>, link: &Arc<Link>, file: &Found) -> Result<bool> {
        let named = ExportName { dir: file.dir, name: file.name().to_vec() };
        let (actions, link, ino) = (self.clone(), link.clone(), file.ino);
        let exporting =
            tokio::spawn(
                async move { actions.links.exporter.export_asked(&link, ino, &named).await },
            );
        exporting.await.map_err(|e| FsError::new(ErrorKind::Bug, format!("export: {e}")))?
    }
}
