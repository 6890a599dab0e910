//! The clients, what they hold, and the rows by which they may come back: together, with what has to be done in
//! the engine when one of them goes.

use std::collections::HashSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, MutexGuard};
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;
use weir_engine::Engine;
use weir_types::{ErrorKind, Result};

use crate::protocol::numbers::told;
use crate::protocol::status::{Served, Status};
use crate::state::back::Back;
use crate::state::clients::{Claim, Clients, Created, Creating, Exchanged, NewSession, Principal};
use crate::state::delegations::Delegation;
use crate::state::grace::{CLIENT_ROWS, Grace, row_of};
use crate::state::held::{Held, LetGo};
use crate::state::rows;
use crate::state::sessions::{Session, SessionId};

/// A client that is silent for so long is forgotten, also where nobody wants what it holds.
const COURTESY: Duration = Duration::from_secs(24 * 3_600);
/// A server that ends waits so long for the locks of a client.
const LEAVE_WAIT: Duration = Duration::from_secs(5);

/// All of it, under one lock that is held for a few lines.
pub(crate) struct All {
    pub(crate) clients: Clients,
    pub(crate) held: Held,
    pub(crate) grace: Grace,
}

/// What the server knows of its clients.
pub(crate) struct Books {
    pub(crate) engine: Arc<Engine>,
    all: Mutex<All>,
    pub(crate) lease: Duration,
    /// Nothing is kept: the volume is not written.
    pub(crate) read_only: bool,
    /// Rows of clients change one after the other. Whether what they hold outlives this node.
    rows: tokio::sync::Mutex<bool>,
    /// When rows were looked for that nothing is left of.
    pub(crate) swept: Mutex<Instant>,
    /// There may be some.
    pub(crate) rows_left: AtomicBool,
    /// A delegation ended.
    pub(crate) returned: Notify,
}

impl Books {
    /// Reads who was here before.
    pub(crate) async fn open(
        engine: Arc<Engine>,
        (lease, most): (Duration, (usize, usize)),
        read_only: bool,
        mut random: Box<dyn FnMut() -> u64 + Send>,
    ) -> Result<Self> {
        let rows = engine.kept(CLIENT_ROWS).await?;
        let before = rows::before(rows, engine.session().is_some());
        if !read_only && !before.rows.is_empty() {
            engine.keep(before.rows).await?;
        }
        let of_before: HashSet<Bytes> = before.owners.into_iter().collect();
        let boot = (random() as u32).max(1);
        let clients = Clients::new(lease, u64::from(boot) << 32);
        let all = All {
            clients,
            held: Held::new(boot, most, random),
            grace: Grace::new(of_before, Instant::now() + lease),
        };
        let (all, rows) = (Mutex::new(all), tokio::sync::Mutex::new(false));
        let swept = Mutex::new(Instant::now());
        let (rows_left, returned) = (AtomicBool::new(!read_only), Notify::new());
        Ok(Self { engine, all, lease, read_only, rows, swept, rows_left, returned })
    }

    /// Everything.
    pub(crate) fn lock(&self) -> MutexGuard<'_, All> {
        self.all.lock()
    }

    pub(crate) async fn keep(&self, rows: Vec<(String, Option<Bytes>)>) -> Result<()> {
        match self.read_only || rows.is_empty() {
            true => Ok(()),
            false => self.engine.keep(rows).await,
        }
    }

    /// A client was heard by a session. What it is to be told of its state (`sr_status_flags`), and what its
    /// requests wait for.
    pub(crate) fn heard(
        &self,
        session: &Session,
        peer: SocketAddr,
        now: Instant,
    ) -> (u32, Option<Arc<Semaphore>>) {
        let All { clients, held, grace } = &mut *self.lock();
        clients.heard(session.client, peer, now);
        let mut flags = 0;
        let known = clients.by_id.get(&session.client);
        if known.is_some_and(|known| !known.complete && grace.may_claim(&known.owner)) {
            flags |= told::RECLAIM_NEEDED;
        }
        if session.back.as_ref().is_some_and(Back::is_down) {
            flags |= told::SESSION_NO_WAY_BACK;
            if !clients.is_reached(session.client) {
                flags |= told::NO_WAY_BACK;
            }
        }
        if held.delegations.any_revoked(session.client) {
            flags |= told::DELEGATIONS_REVOKED;
        }
        (flags, known.map(|known| known.turns.clone()))
    }

    /// `EXCHANGE_ID`.
    pub(crate) fn exchange(&self, claim: Claim) -> Result<Exchanged, Status> {
        let All { clients, held, .. } = &mut *self.lock();
        clients.exchange(claim, Instant::now(), |id| held.has_any(id))
    }

    /// `CREATE_SESSION`. A client that is new is in its row before it can hold anything.
    pub(crate) async fn create_session(
        &self,
        (client, sequence): (u64, u32),
        principal: &Principal,
        asked: NewSession,
    ) -> Served<Created> {
        let mut outlives = self.rows.lock().await;
        let creating = self.lock().clients.creating(client, sequence, principal)?;
        match creating {
            Creating::Again(created) => return Ok(created),
            Creating::More => {}
            Creating::Confirm { before } => {
                if let Some(before) = before {
                    self.drop_client(before, false).await;
                }
                let owner = self.lock().clients.by_id.get(&client).map(|c| c.owner.clone());
                let owner = owner.ok_or(Status::STALE_CLIENTID)?;
                self.outlive(&mut outlives).await?;
                let from = self.nodes_of(&owner).await?;
                self.keep(vec![(self.own_row(&owner), Some(owner))]).await?;
                if let Some(known) = self.lock().clients.by_id.get_mut(&client) {
                    known.from = from;
                }
            }
        }
        let mut all = self.lock();
        let mut session: SessionId = [0; 16];
        session[..8].copy_from_slice(&client.to_be_bytes());
        session[8..].copy_from_slice(&all.held.random().to_be_bytes());
        let created = all.clients.create(client, session, asked, Instant::now())?;
        Ok(created)
    }

    /// `RECLAIM_COMPLETE`: a client has claimed what it held.
    pub(crate) async fn reclaimed(&self, client: u64) -> Served<()> {
        let (owner, from) = {
            let All { clients, grace, .. } = &mut *self.lock();
            let client = clients.by_id.get_mut(&client).ok_or(Status::STALE_CLIENTID)?;
            if std::mem::replace(&mut client.complete, true) {
                return Err(Status::COMPLETE_ALREADY.into());
            }
            grace.complete(&client.owner);
            (client.owner.clone(), std::mem::take(&mut client.from))
        };
        if !from.is_empty() {
            self.claimed_from(&owner, &from).await;
        }
        self.end_grace_if_due().await;
        Ok(())
    }

    /// Ends the time of grace if it is due. Those who did not come may not come back as who they were: their rows
    /// are gone before anybody else gets anything. What fails is tried again.
    async fn end_grace_if_due(&self) {
        let _rows = self.rows.lock().await;
        let (gone, here) = {
            let All { clients, grace, .. } = &mut *self.lock();
            let Some(gone) = grace.due(Instant::now()) else { return };
            let here = clients.by_id.values().filter(|client| client.confirmed);
            (gone, here.map(|client| client.owner.clone()).collect::<HashSet<_>>())
        };
        let rows = gone.iter().filter(|owner| !here.contains(*owner));
        match self.keep(rows.map(|owner| (row_of(owner), None)).collect()).await {
            Ok(()) => {
                self.lock().grace.end();
                let missing = gone.len();
                tracing::info!(missing, "NFS: clients have claimed what they held before");
            }
            Err(error) => {
                tracing::warn!(
                    "NFS: nobody opens or locks anything new before rows are gone: {error}"
                );
            }
        }
    }

    /// Has a client go whose time is over, since another wants what it holds. `false` if its time is not.
    pub(crate) async fn expire(&self, client: u64) -> Result<bool> {
        if !self.lock().clients.is_expired(client, Instant::now()) {
            return Ok(false);
        }
        let _rows = self.rows.lock().await;
        let owner = self.lock().clients.by_id.get(&client).map(|c| c.owner.clone());
        if let Some(owner) = owner {
            // Before another has it: after a restart this one claims it no more.
            self.keep(vec![(self.own_row(&owner), None)]).await?;
        }
        self.drop_client(client, true).await;
        Ok(true)
    }

    /// A client goes by its own will, or by somebody's of this side.
    pub(crate) async fn destroy(&self, client: u64) -> Result<()> {
        let _rows = self.rows.lock().await;
        let owner = self.lock().clients.by_id.get(&client).map(|c| c.owner.clone());
        self.drop_client(client, false).await;
        match owner {
            Some(owner) => self.keep(vec![(self.own_row(&owner), None)]).await,
            None => Ok(()),
        }
    }

    /// Lets go of all that a client holds.
    async fn drop_client(&self, client: u64, silent: bool) {
        let (gone, held) = {
            let All { clients, held, .. } = &mut *self.lock();
            (clients.remove(client), held.take_all(client))
        };
        self.session_ended();
        if let Some(gone) = gone
            && silent
        {
            let (address, files) = (gone.address, held.files.len());
            tracing::warn!(%address, files, "an NFS client was silent and lost what it had open");
        }
        self.let_go(held).await;
    }

    /// The server ends: what clients hold is let go here, and theirs to claim from the next one. Where nodes share
    /// the volume it stands until then.
    pub(crate) async fn leave(&self) {
        if let Some(node) = self.engine.session() {
            let is_served = self.lock().clients.by_id.values().any(|client| client.confirmed);
            if is_served {
                return self.leave_to_others();
            }
            if let Err(error) = self.engine.locks_outlive_no_more(vec![node]).await {
                tracing::debug!("locks of this node stand a while after its end: {error}");
            }
        }
        let all: Vec<LetGo> = {
            let All { clients, held, .. } = &mut *self.lock();
            clients.by_id.keys().map(|client| held.take_all(*client)).collect()
        };
        for held in all {
            if tokio::time::timeout(LEAVE_WAIT, self.let_go(held)).await.is_err() {
                tracing::warn!("locks of NFS clients are let go later: the metadata is away");
                return;
            }
        }
    }

    /// Locks are let go here and nowhere else.
    fn leave_to_others(&self) {
        let All { clients, held, .. } = &mut *self.lock();
        for client in clients.by_id.keys() {
            for (ino, owner) in held.take_all(*client).locks {
                self.engine.forget_locks(ino, owner);
            }
        }
    }

    /// Ends a delegation by the client's will.
    pub(crate) fn end_delegation(&self, number: u64) -> Option<Delegation> {
        let ended = self.lock().held.delegations.end(number);
        self.returned.notify_waiters();
        ended
    }

    /// Takes from a client a delegation that it did not give back in time. It hears of it with its next request.
    pub(crate) fn revoke(&self, number: u64) -> bool {
        let given = self.lock().held.delegations.revoke(number);
        let revoked = given.is_some();
        drop(given);
        self.returned.notify_waiters();
        revoked
    }

    async fn let_go(&self, held: LetGo) {
        drop(held.delegations);
        self.returned.notify_waiters();
        for (ino, owner) in held.locks {
            if let Err(error) = self.engine.release_locks(ino, owner).await {
                tracing::warn!(%ino, "locks of an NFS client that went: {error}");
            }
        }
    }

    /// Clients that are to go though nobody asks: who is at another node cannot ask for a lock that is held here.
    fn gone(&self, all: &All, now: Instant) -> Vec<u64> {
        let mut gone = all.clients.silent(now, true, COURTESY.max(self.lease));
        if self.engine.session().is_some() {
            let silent = all.clients.silent(now, true, self.lease).into_iter();
            gone.extend(silent.filter(|client| all.held.tally(*client).locks > 0));
        }
        gone
    }

    /// What has to be done now and then: ends the time of grace, forgets who is long gone.
    pub(crate) async fn tend(&self) {
        let now = Instant::now();
        self.end_grace_if_due().await;
        self.sweep().await;
        let idle = {
            let held = &mut self.lock().held;
            held.forget_owners();
            held.delegations.tend(now)
        };
        drop(idle);
        let (gone, unconfirmed) = {
            let all = self.lock();
            (self.gone(&all, now), all.clients.silent(now, false, self.lease))
        };
        for client in unconfirmed {
            self.lock().clients.remove(client);
        }
        for client in gone {
            match self.expire(client).await {
                Ok(_) => {}
                Err(error) if error.kind() == ErrorKind::Fenced => return,
                Err(error) => tracing::warn!("an NFS client that is gone stays: {error}"),
            }
        }
    }
}
