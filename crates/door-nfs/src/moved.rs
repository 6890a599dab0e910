//! Clients that come from another node, where nodes share the volume: what they held there they claim here.
//!
//! Then the row of a client names the node that serves it, and the locks of a node that serves clients outlive it
//! ([`weir_engine::Engine::locks_outlive`]). A client that is new here and has a row of a node that has ended takes
//! over what it had there. Nobody else waits meanwhile: those locks are simply held.

use std::time::Duration;

use weir_engine::{LockStanding, SessionId as Node};
use weir_types::Result;

use crate::books::Books;
use crate::protocol::status::{Served, Status};
use crate::state::grace::{CLIENT_ROWS, row_of};
use crate::state::rows::{node_of, row_at};

/// A client that comes from a node which is there waits so long for that one to be found dead. Then it lives, and the
/// client is served by both.
const FOUND_DEAD: Duration = Duration::from_secs(45);

impl Books {
    /// The row by which a client may come back.
    pub(crate) fn own_row(&self, owner: &[u8]) -> String {
        match self.engine.session() {
            Some(node) => row_at(owner, node),
            None => row_of(owner),
        }
    }

    /// Nodes that serve a client, or did.
    pub(crate) async fn nodes_of(&self, owner: &[u8]) -> Result<Vec<Node>> {
        let Some(own) = self.engine.session() else { return Ok(Vec::new()) };
        let rows = self.engine.kept(&row_of(owner)).await?;
        Ok(rows.iter().filter_map(|(row, _)| node_of(row)).filter(|node| *node != own).collect())
    }

    /// Where a client may claim a lock that it had: at these nodes, or, where that is none, at the server before this
    /// one.
    pub(crate) async fn may_claim(&self, client: u64) -> Served<Vec<Node>> {
        let (from, since, owner) = {
            let all = self.lock();
            let known = all.clients.by_id.get(&client).ok_or(Status::STALE_CLIENTID)?;
            match () {
                () if known.complete => return Err(Status::NO_GRACE.into()),
                () if all.grace.may_claim(&known.owner) => return Ok(Vec::new()),
                () if !known.from.is_empty() => {
                    (known.from.clone(), known.came, known.owner.clone())
                }
                () if all.grace.is_on() => return Err(Status::RECLAIM_BAD.into()),
                () => return Err(Status::NO_GRACE.into()),
            }
        };
        let standing = self.engine.standing(&from).await?;
        let is = |wanted| {
            let all = from.iter().zip(&standing);
            all.filter(move |(_, is)| **is == wanted).map(|(node, _)| *node).collect::<Vec<_>>()
        };
        match is(LockStanding::Claimable) {
            ended if !ended.is_empty() => Ok(ended),
            _ if since.elapsed() >= FOUND_DEAD => Err(Status::NO_GRACE.into()),
            _ => {
                // One that is there and has no row of the client any more let go of all that it had.
                let has = self.nodes_of(&owner).await?;
                let live = is(LockStanding::Live);
                let comes = live.iter().any(|node| has.contains(node));
                Err(if comes { Status::DELAY.into() } else { Status::NO_GRACE.into() })
            }
        }
    }

    /// A client has claimed what it had at nodes that have ended. Once all have, nothing of theirs stands any more.
    pub(crate) async fn claimed_from(&self, owner: &[u8], from: &[Node]) {
        if let Err(error) = self.claimed(owner, from).await {
            tracing::debug!("what NFS clients had at another node stands a while longer: {error}");
        }
    }

    async fn claimed(&self, owner: &[u8], from: &[Node]) -> Result<()> {
        let standing = self.engine.standing(from).await?;
        let ended = from.iter().zip(standing).filter(|(_, is)| *is != LockStanding::Live);
        let ended: Vec<Node> = ended.map(|(node, _)| *node).collect();
        self.keep(ended.iter().map(|node| (row_at(owner, *node), None)).collect()).await?;
        let left = self.engine.kept(CLIENT_ROWS).await?;
        let is_left = |node: &Node| left.iter().any(|(row, _)| node_of(row) == Some(*node));
        let done: Vec<_> = ended.into_iter().filter(|node| !is_left(node)).collect();
        match done.is_empty() {
            true => Ok(()),
            false => self.engine.locks_outlive_no_more(done).await,
        }
    }

    /// Before a client can hold anything: what it holds outlives this node.
    pub(crate) async fn outlive(&self, outlives: &mut bool) -> Result<()> {
        if !*outlives && self.engine.session().is_some() && !self.read_only {
            self.engine.locks_outlive(self.lease).await?;
        }
        *outlives = true;
        Ok(())
    }
}
