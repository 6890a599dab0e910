//! Which imports and exports are due, and having them done.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use weir_types::{ErrorKind, LinkId, Native, Result};

use super::parts::Links;
use super::registry::LinkRecord;
use crate::volume::together::BEAT_MS;

/// How often it is looked whether a poll is due.
const LOOK: Duration = Duration::from_secs(1);

impl Links {
    /// Takes up the links that the metadata has.
    pub(crate) async fn load_links(&self) -> Result<()> {
        for (id, bytes) in self.meta.links().await? {
            match LinkRecord::decode(id, &bytes) {
                Ok(record) => {
                    if !self.context.read_only {
                        self.place_link(id, &record).await?;
                    }
                    self.registry.add(id, record);
                }
                Err(error) => tracing::error!(%error, "a link is left alone"),
            }
        }
        Ok(())
    }

    /// Has the links be those that the metadata has by now. One read round.
    async fn follow_nodes(&self) -> Result<()> {
        let known = self.registry.all();
        let mut stored: BTreeMap<_, _> = self.meta.links().await?.into_iter().collect();
        for link in known {
            match stored.remove(&link.id) {
                None if !link.is_ending() => self.registry.remove(link.id),
                Some(bytes) if link.state().importing.is_none() => {
                    let record = LinkRecord::decode(link.id, &bytes)?;
                    link.change_record(|known| *known = record);
                }
                _ => {}
            }
        }
        for (id, bytes) in stored {
            self.registry.add(id, LinkRecord::decode(id, &bytes)?);
        }
        Ok(())
    }

    /// Has the directory of a link know that it is one.
    pub(crate) async fn place_link(&self, id: LinkId, record: &LinkRecord) -> Result<()> {
        let options = &record.options;
        let exports = !options.export.is_none();
        let root = Native::directory(id, String::new(), exports, options.lazy_dirs);
        let placed = self
            .meta
            .change_native(record.ino, |inode| inode.native.is_none().then(|| Some(root.clone())));
        match placed.await {
            // Removed with a parent of it, somehow: the link is empty.
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
            placed => placed.map(drop),
        }
    }
}

/// Takes up what other nodes did to links.
pub(crate) async fn follow_nodes_loop(links: Arc<Links>) {
    while !links.context.is_fenced() {
        tokio::time::sleep(Duration::from_millis(BEAT_MS)).await;
        if let Err(error) = links.follow_nodes().await {
            tracing::debug!(%error, "links of other nodes are looked at again");
        }
    }
}

/// Imports what is due, one import of a link at a time, and looks at objects that reads found to be
/// others than they should be.
pub(crate) async fn links_loop(links: Arc<Links>) {
    let mut tasks = JoinSet::new();
    loop {
        let _ = tokio::time::timeout(LOOK, links.registry.wake.notified()).await;
        while tasks.try_join_next().is_some() {}
        for link in links.registry.all() {
            let suspects = std::mem::take(&mut link.state().suspects);
            if !suspects.is_empty() {
                let (links, link) = (links.clone(), link.clone());
                tasks.spawn(async move { links.importer.look_at_suspects(&link, suspects).await });
            }
            if link.state().root_strange {
                let (links, link) = (links.clone(), link.clone());
                tasks.spawn(async move {
                    if let Err(error) = links.recognise_root(&link).await {
                        tracing::debug!(link = %link.id, %error, "a directory is not known again");
                    }
                });
            }
            let exports = link.exports() && links.context.is_on_duty();
            if exports && link.export.try_lock().is_ok() {
                let (links, link) = (links.clone(), link.clone());
                tasks.spawn(async move { links.exporter.export_due(&link).await });
            }
            if let Some(policy) = links.importer.due_import(&link) {
                let links = links.clone();
                tasks.spawn(async move { links.importer.import_due(&link, policy).await });
            }
        }
    }
}
