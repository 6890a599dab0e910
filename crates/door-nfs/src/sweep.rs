//! Rows of clients and of what they did, and when they go.

use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::time::Instant;
use weir_engine::{LockStanding, SessionId as Node};
use weir_types::{ErrorKind, Result};

use crate::books::Books;
use crate::state::done::{DONE_ROWS, Done, row_of, session_of};
use crate::state::grace::CLIENT_ROWS;
use crate::state::rows::node_of;
use crate::state::sessions::SessionId;

/// How often rows are looked for that nothing is left of, where the lease is not shorter than half of it.
const SWEEP_EVERY: Duration = Duration::from_secs(60);

impl Books {
    /// What a slot did last of a session that is not known here. One read of the metadata.
    pub(crate) async fn done(&self, session: &SessionId, slot: u32) -> Result<Option<Done>> {
        let row = row_of(session, slot);
        let found = self.engine.kept(&row).await?;
        let own = found.iter().find(|(name, _)| *name == row);
        Ok(own.and_then(|(_, value)| Done::decode(value)))
    }

    /// A session ended: rows of what it did may be there.
    pub(crate) fn session_ended(&self) {
        self.rows_left.store(true, Ordering::Release);
    }

    /// Now and then: removes rows that nothing is left of. Those of what sessions did stay until all who came from the
    /// server before this one have come.
    pub(crate) async fn sweep(&self) {
        let now = Instant::now();
        let is_shared = self.engine.session().is_some();
        {
            let mut swept = self.swept.lock();
            let wanted = is_shared || self.rows_left.load(Ordering::Acquire);
            let every = SWEEP_EVERY.min(2 * self.lease);
            if !wanted || self.lock().grace.is_on() || now.duration_since(*swept) < every {
                return;
            }
            *swept = now;
        }
        self.rows_left.store(false, Ordering::Release);
        let mut removed = self.remove_done_rows().await;
        if is_shared && removed.is_ok() {
            removed = self.remove_client_rows().await;
        }
        if let Err(error) = removed {
            self.rows_left.store(true, Ordering::Release);
            if error.kind() != ErrorKind::Fenced {
                tracing::debug!("rows of NFS clients that are gone are removed later: {error}");
            }
        }
    }

    /// Of nodes that ended, and whose time is over.
    async fn remove_client_rows(&self) -> Result<()> {
        let rows = self.engine.kept(CLIENT_ROWS).await?;
        let of_nodes: Vec<_> =
            rows.iter().filter_map(|(row, _)| Some((row, node_of(row)?))).collect();
        let nodes: Vec<_> = of_nodes.iter().map(|(_, node)| *node).collect();
        let standing = self.engine.standing(&nodes).await?;
        let dead = of_nodes.iter().zip(standing).filter(|(_, is)| *is == LockStanding::Ended);
        self.keep(dead.map(|((row, _), _)| ((*row).clone(), None)).collect()).await
    }

    /// Of sessions that are no more.
    async fn remove_done_rows(&self) -> Result<()> {
        let own = self.engine.session();
        let rows = self.engine.kept(DONE_ROWS).await?;
        let (mut gone, mut of_others) = (Vec::new(), Vec::new());
        for (row, value) in rows {
            let node = Done::decode(&value).and_then(|done| done.node);
            match (own, node) {
                (Some(own), Some(node)) if node != own => of_others.push((row, node)),
                _ if self.is_known(&row) => {}
                _ => gone.push((row, None)),
            }
        }
        let nodes: Vec<Node> = of_others.iter().map(|(_, node)| *node).collect();
        let standing = self.engine.standing(&nodes).await?;
        let dead = of_others.into_iter().zip(standing).filter(|(_, is)| *is == LockStanding::Ended);
        gone.extend(dead.map(|((row, _), _)| (row, None)));
        self.keep(gone).await
    }

    fn is_known(&self, row: &str) -> bool {
        session_of(row).is_some_and(|id| self.lock().clients.session(&id).is_ok())
    }
}
