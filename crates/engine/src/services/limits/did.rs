//! What all nodes of a volume did, those that left, too.
//!
//! Each node says once a minute, and when it leaves, what it did since its mount. The node on duty adds up
//! what those did that are gone. So of a node that dies its last minute is not counted.

use weir_meta::sessions::SessionId;
use weir_meta::{SeenRow, ShareChange, ShareRow};
use weir_types::Result;

use crate::services::limits::history::Totals;
use crate::services::limits::kept::{decode, encode};
use crate::services::limits::{Limits, Period};
use crate::volume::together::Together;

impl Limits {
    /// What was used since `unix_ms`, or since the mount: by all nodes that share the volume. One read
    /// where there are others; while the metadata is away it is that of the last minute.
    pub(crate) async fn used_since(&self, unix_ms: Option<u64>) -> Period {
        let own = self.totals().await;
        let Some(together) = &self.context.together else {
            return self.history.since(unix_ms, own);
        };
        match self.all_did(own, together).await {
            Ok(all) => self.volume.since(unix_ms, all),
            Err(error) => {
                tracing::debug!(%error, "what other nodes did is as of the last minute");
                self.volume.since(unix_ms, self.volume.last().unwrap_or(own))
            }
        }
    }

    /// As [`Limits::sum_up`], where there is anybody else.
    pub(super) async fn sample_volume(&self, own: Totals) {
        if let Some(together) = &self.context.together
            && let Err(error) = self.sum_up(own, together).await
        {
            tracing::debug!(%error, "what all nodes did is summed up in a minute again");
        }
    }

    /// Takes note of what all did, says what this node did, and adds up what those did that are gone if it
    /// is on duty. One read and one commit, and where somebody is gone one more of each.
    pub(super) async fn sum_up(&self, own: Totals, together: &Together) -> Result<()> {
        self.say_did(own, together).await?;
        if together.is_on_duty() {
            self.settle_gone(together).await?;
        }
        self.volume.add(self.all_did(own, together).await?);
        Ok(())
    }

    /// Says what this node did. One commit.
    pub(super) async fn say_did(&self, own: Totals, together: &Together) -> Result<()> {
        let puts = vec![(ShareRow::Did(together.id()), encode(&own)?)];
        self.meta.change_shares(ShareChange { puts, ..ShareChange::default() }).await.map(drop)
    }

    /// What all did, with this of this node, which knows that best.
    pub(super) async fn all_did(&self, own: Totals, together: &Together) -> Result<Totals> {
        let mut all = own;
        for (row, found) in self.meta.did_rows().await? {
            if row != ShareRow::Did(together.id()) {
                all.add(&decode::<Totals>(&found)?.1);
            }
        }
        Ok(all)
    }

    async fn settle_gone(&self, together: &Together) -> Result<()> {
        let rows = self.meta.did_rows().await?;
        let live = together.live();
        let lives = |id: &SessionId| live.iter().any(|session| session.id == *id);
        let mut missing: Vec<(SessionId, &SeenRow)> = Vec::new();
        for (row, found) in &rows {
            if let ShareRow::Did(id) = row
                && !lives(id)
            {
                missing.push((*id, found));
            }
        }
        if missing.is_empty() {
            return Ok(());
        }
        let ids: Vec<_> = missing.iter().map(|(id, _)| *id).collect();
        let there = self.meta.are_there(&ids).await?;
        let before = rows.iter().find(|(row, _)| *row == ShareRow::DidBefore);
        let mut sum = before.map_or(Ok(Totals::default()), |(_, row)| Ok(decode(row)?.1))?;
        let mut change = ShareChange::default();
        for ((id, found), there) in missing.into_iter().zip(there) {
            if !there {
                sum.add(&decode::<Totals>(found)?.1);
                change.seen.push((ShareRow::Did(id), Some(found.0)));
                change.deletes.push(ShareRow::Did(id));
            }
        }
        if change.deletes.is_empty() {
            return Ok(());
        }
        change.seen.push((ShareRow::DidBefore, before.map(|(_, (version, _))| *version)));
        change.puts.push((ShareRow::DidBefore, encode(&sum)?));
        // Another one that was on duty may have done it.
        self.meta.change_shares(change).await.map(drop)
    }
}
