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
        let ids = rows.iter().filter_map(|(row, _)| match row {
            ShareRow::Did(id) if !lives(id) => Some(*id),
            _ => None,
        });
        let mut gone: Vec<SessionId> = ids.collect();
        if gone.is_empty() {
            return Ok(());
        }
        // Who joined since the last look is there.
        let mut there = self.meta.are_there(&gone).await?.into_iter();
        gone.retain(|_| there.next() == Some(false));
        if gone.is_empty() {
            return Ok(());
        }
        let change = added_up(&rows, &gone)?;
        // Another one that was on duty may have done it.
        self.meta.change_shares(change).await.map(drop)
    }
}

/// What becomes of the rows where these sessions are gone: what they did is in the sum of all such.
fn added_up(rows: &[(ShareRow, SeenRow)], gone: &[SessionId]) -> Result<ShareChange> {
    let before = rows.iter().find(|(row, _)| *row == ShareRow::DidBefore);
    let mut sum = Totals::default();
    let mut change = ShareChange::default();
    change.seen.push((ShareRow::DidBefore, before.map(|(_, (version, _))| *version)));
    if let Some((_, row)) = before {
        sum.add(&decode(row)?.1);
    }
    for (row, found) in rows {
        if let ShareRow::Did(id) = row
            && gone.contains(id)
        {
            sum.add(&decode(found)?.1);
            change.seen.push((*row, Some(found.0)));
            change.deletes.push(*row);
        }
    }
    change.puts.push((ShareRow::DidBefore, encode(&sum)?));
    Ok(change)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_those_did_that_are_gone_is_added_up_once() {
        let did = |gets, reads| {
            let totals = Totals { unix_ms: 7, get_requests: gets, reads, ..Totals::default() };
            encode(&totals).expect("encodes")
        };
        let row = |id, version, row| (ShareRow::Did(SessionId(id)), (version, row));
        let lives = row(1, 11, did(100, 200));
        let dead = [row(2, 12, did(10, 1)), row(3, 13, did(20, 2))];
        let rows: Vec<_> = dead.iter().cloned().chain([lives]).collect();
        let gone = [SessionId(2), SessionId(3)];
        let change = added_up(&rows, &gone).expect("adds up");
        assert_eq!(change.deletes, dead.clone().map(|(row, _)| row));
        let seen = [(ShareRow::DidBefore, None), (dead[0].0, Some(12)), (dead[1].0, Some(13))];
        assert_eq!(change.seen, seen, "nobody else adds them up");
        let [(ShareRow::DidBefore, sum)] = &change.puts[..] else { panic!("{change:?}") };
        let sum: Totals = decode(&(1, sum.clone())).expect("decodes").1;
        assert_eq!((sum.get_requests, sum.reads, sum.unix_ms), (30, 3, 0));
        // On top of those of before.
        let rows = [rows[0].clone(), (ShareRow::DidBefore, (20, did(5, 5)))];
        let change = added_up(&rows, &gone).expect("adds up");
        let sum: Totals = decode(&(1, change.puts[0].1.clone())).expect("decodes").1;
        assert_eq!((sum.get_requests, change.seen[0].1), (15, Some(20)));
    }
}
