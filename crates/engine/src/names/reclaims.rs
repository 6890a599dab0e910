//! Locks of NFS clients whose node has ended: they stand until the clients have claimed them at another node, or
//! their time is over. The node on duty looks to that.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use weir_meta::kv::Kv;
use weir_meta::reclaims::{LockStanding, ReclaimRow, outlive_no_more, outliving, standing};
use weir_meta::sessions::SessionId;
use weir_types::Result;

use crate::volume::fence::Fence;
use crate::volume::together::{BEAT_MS, Together};

/// Sessions that have ended and whose locks stand, and since when this node knows.
#[derive(Debug, Default)]
struct Ended(HashMap<SessionId, Instant>);

impl Ended {
    /// Takes note of a look, and answers those whose clients have had their time.
    fn look(&mut self, seen: &[(SessionId, ReclaimRow)], now: Instant) -> Vec<SessionId> {
        self.0.retain(|id, _| seen.iter().any(|(seen, _)| seen == id));
        let over = seen.iter().filter(|(id, row)| {
            let since = *self.0.entry(*id).or_insert(now);
            now.duration_since(since) >= Duration::from_millis(row.lease_ms)
        });
        over.map(|(id, _)| *id).collect()
    }
}

/// As the node on duty: ends the time of clients of sessions that have ended.
pub(crate) async fn reclaims_loop(together: Arc<Together>, fence: Arc<Fence>, kv: Arc<dyn Kv>) {
    let mut ended = Ended::default();
    while !fence.is_up() {
        tokio::time::sleep(Duration::from_millis(BEAT_MS)).await;
        if !together.is_on_duty() {
            // Whoever is on duty counts for itself.
            ended = Ended::default();
        } else if let Err(error) = end_those_due(&*kv, &mut ended).await {
            tracing::debug!(%error, "locks of a node that has ended stand a while longer");
        }
    }
}

/// One read, one more where any session has such locks, and one commit where some do not stand any longer.
async fn end_those_due(kv: &dyn Kv, ended: &mut Ended) -> Result<()> {
    let rows = outliving(kv).await?;
    if rows.is_empty() {
        return Ok(());
    }
    let ids: Vec<_> = rows.iter().map(|(id, _)| *id).collect();
    let standing = standing(kv, &ids).await?.into_iter();
    let seen = rows.into_iter().zip(standing).filter(|(_, is)| *is == LockStanding::Claimable);
    let due = ended.look(&seen.map(|(row, _)| row).collect::<Vec<_>>(), Instant::now());
    if !due.is_empty() {
        outlive_no_more(kv, &due).await?;
        tracing::info!(
            sessions = due.len(),
            "what NFS clients of nodes that ended did not claim is let go"
        );
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use weir_meta::kv::MemoryKv;
    use weir_meta::reclaims::outlive;
    use weir_meta::sessions::{NodeRow, end, join};
    use weir_types::UnixTime;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn clients_have_their_time_from_when_it_is_seen_that_their_node_has_ended() {
        let kv = MemoryKv::new();
        let text = String::new;
        let (name, host, tier, build) = (text(), text(), text(), text());
        let node = NodeRow { name, host, tier, build, since: UnixTime(7) };
        let ids = [SessionId(1), SessionId(2)];
        for id in ids {
            join(&kv, id, &node, &[]).await.expect("joins");
            outlive(&kv, id, ReclaimRow { lease_ms: 10_000 }).await.expect("says so");
        }
        let mut ended = Ended::default();
        let mut after_s = async |seconds| {
            tokio::time::sleep(Duration::from_secs(seconds)).await;
            end_those_due(&kv, &mut ended).await.expect("reads");
            standing(&kv, &ids).await.expect("reads")
        };
        use LockStanding::{Claimable, Ended as Over, Live};
        assert_eq!(after_s(100).await, [Live, Live]);
        end(&kv, ids[0]).await.expect("ends");
        assert_eq!(after_s(100).await, [Claimable, Live], "it was not seen before");
        assert_eq!(after_s(9).await, [Claimable, Live]);
        assert_eq!(after_s(1).await, [Over, Live]);
        assert_eq!(after_s(100).await, [Over, Live]);
    }
}
