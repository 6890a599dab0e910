//! What somebody must say is meant: many deletions, and another directory at a link's URL.

use std::sync::Arc;

use weir_object::Component;
use weir_types::{LinkId, Result};

use super::parts::Links;
use super::registry::{Link, root_of};
use super::views::{HeldDeletions, LinkView};

impl Links {
    /// Links of which deletions are held, by path.
    pub(crate) fn held_deletions(&self) -> Vec<(String, HeldDeletions)> {
        let held = |link: Arc<Link>| Some((link.path(), link.state().held?));
        self.registry.all().into_iter().filter_map(held).collect()
    }

    /// Lets the next import remove as many files as the last one held, and takes the directory of a
    /// `file://` link for what it is by now; imports all of the link.
    pub(crate) async fn confirm_link(self: &Arc<Self>, id: LinkId) -> Result<LinkView> {
        self.context.check_writable()?;
        let link = self.registry.get(id)?;
        self.trust_root(&link).await?;
        {
            let mut state = link.state();
            state.confirmed = state.held.map(|held| held.files);
        }
        link.ask();
        self.registry.wake();
        self.link_view(&link).await
    }

    /// Takes the directory at the link's URL for the link's.
    async fn trust_root(self: &Arc<Self>, link: &Link) -> Result<()> {
        let root = root_of(&link.record())?;
        let record = link.change_record(|record| record.root = root);
        link.state().root_strange = false;
        self.meta.set_link(link.id, &record.encode()?).await
    }

    /// Another directory is at the link's URL than the one that was: it is the same if any object
    /// that is known is in it (numbers of file systems may change with a boot).
    pub(super) async fn recognise_root(self: &Arc<Self>, link: &Link) -> Result<()> {
        const SAMPLE: usize = 100;
        let record = link.record();
        if root_of(&record)? == record.root {
            link.state().root_strange = false;
            return Ok(());
        }
        let bucket = self.registry.connect(&record)?;
        let rows = self.meta.objects(link.id, None, None, SAMPLE).await?;
        let rows: Vec<_> = rows.into_iter().filter(|row| row.object.etag.is_some()).collect();
        let mut known = rows.is_empty();
        for row in rows {
            let there = bucket.head_listed(Component::Link, &row.key).await?;
            if there.is_some_and(|there| there.etag == row.object.etag) {
                known = true;
                break;
            }
        }
        match known {
            true => self.trust_root(link).await,
            false => Ok(()),
        }
    }
}
