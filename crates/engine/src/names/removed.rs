//! Files that were removed on a volume that nodes share: what each node does about them before a beat, and
//! what one of them does for all.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_trait::async_trait;
use futures::stream::{self, StreamExt, TryStreamExt};
use weir_meta::sessions::{Session, SessionId};
use weir_types::{Ino, Result};

use crate::names::tree::Names;
use crate::volume::together::BeforeBeat;

/// Orphans read at once.
const PAGE: usize = 10_000;
/// Orphans purged in one go, and how many goes at once.
const PURGED_AT_ONCE: (usize, usize) = (128, 4);

#[async_trait]
impl BeforeBeat for Names {
    /// One read for each 10,000 orphans, and what their holds need; another one for them where this node
    /// purges.
    async fn before_beat(&self) -> Result<()> {
        self.meta.leases().into_iter().for_each(|leases| leases.beat_begins());
        let gathers = self.context.is_on_duty() && self.orphans.may_gather();
        let live = self.context.together.as_ref().map(|together| together.live());
        let live = live.unwrap_or_default();
        let mut round = Vec::new();
        let mut after = None;
        loop {
            let page = self.meta.orphans(after, PAGE).await?;
            let closed = self.orphans.hold_open(&page).await?;
            self.drop_mirrors(&closed);
            if gathers {
                round.extend(self.orphans.unheld(&page, round.len(), &live).await?);
            }
            after = page.last().copied();
            if page.len() < PAGE {
                break;
            }
        }
        self.orphans.let_closed_go().await?;
        if gathers {
            self.orphans.gathered(round);
        }
        Ok(())
    }

    async fn after_look(&self, live: &[Session]) -> Result<()> {
        self.meta.leases().into_iter().for_each(|leases| leases.beat_answered());
        self.orphans.looked(live, self.context.is_on_duty());
        if let Some(together) = &self.context.together
            && let Err(error) = self.waits.say(&**self.meta.kv(), together.id()).await
        {
            tracing::debug!(%error, "who waits for locks is said with the next beat");
        }
        Ok(())
    }
}

impl Names {
    /// Has the mirrors of files go that others removed and nobody has open here.
    fn drop_mirrors(&self, orphans: &[Ino]) {
        for ino in orphans {
            if self.tier.find(*ino).is_some() && self.nodes.unlinked(*ino) {
                self.nodes.purge_soon(*ino);
            }
        }
    }

    async fn purge_unheld(&self, inos: &[Ino], live: &BTreeSet<SessionId>) -> Result<()> {
        let (each, at_once) = PURGED_AT_ONCE;
        let purges = inos.chunks(each).map(|inos| self.meta.purge_unheld(inos, live));
        let purges: Vec<_> = purges.collect();
        stream::iter(purges).buffer_unordered(at_once).try_collect().await
    }
}

/// Takes removed files out of the metadata that no node has open.
pub(crate) async fn orphans_loop(names: Arc<Names>) {
    loop {
        let (inos, live) = names.orphans.over().await;
        if let Err(error) = names.purge_unheld(&inos, &live).await {
            let files = inos.len();
            tracing::warn!(files, %error, "purge of removed files failed: tried again");
        }
        names.orphans.purged();
    }
}
