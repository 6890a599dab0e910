//! Clients: who they are, their sessions, and when they were heard last (RFC 8881, 18.35 and 18.36).

use std::collections::{BTreeMap, HashMap};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;
use weir_engine::SessionId as Node;
use weir_types::UnixTime;

use super::back::Back;
use super::records::next;
use super::sessions::{Channel, Session, SessionId};
use crate::protocol::numbers::exchange;
use crate::protocol::rpc::Credential;
use crate::protocol::status::Status;

/// Clients that are known at once, at most.
const CLIENTS_MAX: usize = 10_000;
/// Sessions of one client.
const SESSIONS_MAX: usize = 32;

/// Who speaks for a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Principal(Option<u32>);

impl Principal {
    pub(crate) fn of(credential: &Credential) -> Self {
        match credential {
            Credential::None => Self(None),
            Credential::Sys { uid, .. } => Self(Some(*uid)),
        }
    }
}

/// Requests of one client that are done at once; the others wait in turn, so that it leaves room for those of
/// other clients however many sessions it has.
const TURNS: usize = 128;

/// A client that is known.
pub(crate) struct Client {
    pub(crate) id: u64,
    pub(crate) owner: Bytes,
    verifier: [u8; 8],
    principal: Principal,
    pub(crate) confirmed: bool,
    /// The number of its next `CREATE_SESSION`.
    sequence: u32,
    /// What the last one was answered.
    answer: Option<Created>,
    pub(crate) sessions: Vec<SessionId>,
    /// When it was heard last.
    pub(crate) seen: Instant,
    pub(crate) address: SocketAddr,
    pub(crate) since: UnixTime,
    pub(crate) tls: bool,
    /// It said that it has claimed all.
    pub(crate) complete: bool,
    /// Nodes that it was at before, until it has claimed all.
    pub(crate) from: Vec<Node>,
    /// When it came here.
    pub(crate) came: Instant,
    pub(crate) requests: u64,
    pub(crate) bytes_read: u64,
    pub(crate) bytes_written: u64,
    pub(crate) turns: Arc<Semaphore>,
}

/// Who says that it is a client.
pub(crate) struct Claim {
    pub(crate) owner: Bytes,
    pub(crate) verifier: [u8; 8],
    pub(crate) principal: Principal,
    pub(crate) update: bool,
    pub(crate) address: SocketAddr,
    pub(crate) tls: bool,
    pub(crate) since: UnixTime,
}

/// What a client is told that says who it is.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Exchanged {
    pub(crate) id: u64,
    pub(crate) sequence: u32,
    pub(crate) flags: u32,
}

/// What a client is told that asks for a session.
#[derive(Clone, Debug)]
pub(crate) struct Created {
    pub(crate) session: SessionId,
    pub(crate) sequence: u32,
    pub(crate) fore: Channel,
    pub(crate) back: Channel,
    /// The connection that it was asked by is for calls to the client too.
    pub(crate) calls_back: bool,
}

/// The session that a client asks for.
pub(crate) struct NewSession {
    pub(crate) fore: Channel,
    pub(crate) back_channel: Channel,
    pub(crate) back: Option<Back>,
    pub(crate) calls_back: bool,
}

/// What becomes of a `CREATE_SESSION`.
pub(crate) enum Creating {
    /// It was answered before.
    Again(Created),
    /// The client is to be confirmed, in place of this one of the same name, if there is one.
    Confirm { before: Option<u64> },
    /// It is one more session of a client.
    More,
}

/// All clients.
pub(crate) struct Clients {
    pub(crate) by_id: BTreeMap<u64, Client>,
    pub(crate) sessions: HashMap<SessionId, Arc<Session>>,
    lease: Duration,
    last_id: u64,
}

impl Clients {
    /// Numbers clients from after `first`, which is another in each life of the server.
    pub(crate) fn new(lease: Duration, first: u64) -> Self {
        Self { by_id: BTreeMap::new(), sessions: HashMap::new(), lease, last_id: first }
    }

    fn named(&self, owner: &[u8], confirmed: bool) -> Option<&Client> {
        let is = |client: &&Client| client.owner == owner && client.confirmed == confirmed;
        self.by_id.values().find(is)
    }

    /// Whether its time is over: others may have what it held.
    pub(crate) fn is_expired(&self, id: u64, now: Instant) -> bool {
        self.by_id.get(&id).is_none_or(|client| now.duration_since(client.seen) > self.lease)
    }

    /// `EXCHANGE_ID`. `holds` says whether a client holds anything.
    pub(crate) fn exchange(
        &mut self,
        claim: Claim,
        now: Instant,
        holds: impl Fn(u64) -> bool,
    ) -> Result<Exchanged, Status> {
        let confirmed = self.named(&claim.owner, true);
        let told = |client: &Client, flags| Exchanged {
            id: client.id,
            sequence: client.sequence,
            flags: flags | exchange::USE_NON_PNFS,
        };
        if claim.update {
            let client = confirmed.ok_or(Status::NOENT)?;
            return match () {
                () if client.verifier != claim.verifier => Err(Status::NOT_SAME),
                () if client.principal != claim.principal => Err(Status::PERM),
                () => Ok(told(client, exchange::CONFIRMED)),
            };
        }
        if let Some(client) = confirmed {
            let is_here = holds(client.id) && !self.is_expired(client.id, now);
            match client.principal == claim.principal {
                true if client.verifier == claim.verifier => {
                    return Ok(told(client, exchange::CONFIRMED));
                }
                false if is_here => return Err(Status::CLID_INUSE),
                _ => {}
            }
        }
        if let Some(stale) = self.named(&claim.owner, false).map(|client| client.id) {
            self.by_id.remove(&stale);
        }
        if self.by_id.len() >= CLIENTS_MAX {
            return Err(Status::DELAY);
        }
        self.last_id += 1;
        let client = Client {
            id: self.last_id,
            owner: claim.owner,
            verifier: claim.verifier,
            principal: claim.principal,
            confirmed: false,
            sequence: 1,
            answer: None,
            sessions: Vec::new(),
            seen: now,
            address: claim.address,
            since: claim.since,
            tls: claim.tls,
            complete: false,
            from: Vec::new(),
            came: now,
            requests: 0,
            bytes_read: 0,
            bytes_written: 0,
            turns: Arc::new(Semaphore::new(TURNS)),
        };
        let exchanged = told(&client, 0);
        self.by_id.insert(client.id, client);
        Ok(exchanged)
    }

    /// The first half of `CREATE_SESSION`: whether one may be made.
    pub(crate) fn creating(
        &self,
        id: u64,
        sequence: u32,
        principal: &Principal,
    ) -> Result<Creating, Status> {
        let client = self.by_id.get(&id).ok_or(Status::STALE_CLIENTID)?;
        if let Some(answer) = client.answer.as_ref().filter(|a| a.sequence == sequence) {
            return Ok(Creating::Again(answer.clone()));
        }
        if client.sequence != sequence {
            return Err(Status::SEQ_MISORDERED);
        }
        if client.confirmed {
            return match client.sessions.len() < SESSIONS_MAX {
                true => Ok(Creating::More),
                false => Err(Status::DELAY),
            };
        }
        if client.principal != *principal {
            return Err(Status::CLID_INUSE);
        }
        let before = self.named(&client.owner, true).map(|client| client.id);
        Ok(Creating::Confirm { before })
    }

    /// The second half: it is made.
    pub(crate) fn create(
        &mut self,
        id: u64,
        session: SessionId,
        asked: NewSession,
        now: Instant,
    ) -> Result<Created, Status> {
        let NewSession { fore, back_channel, back, calls_back } = asked;
        let client = self.by_id.get_mut(&id).ok_or(Status::STALE_CLIENTID)?;
        client.confirmed = true;
        client.seen = now;
        client.sessions.push(session);
        let sequence = client.sequence;
        let created = Created { session, sequence, fore, back: back_channel, calls_back };
        client.sequence = next(client.sequence);
        client.answer = Some(created.clone());
        self.sessions.insert(session, Arc::new(Session::new(session, id, fore, back)));
        Ok(created)
    }

    /// The session of this name.
    pub(crate) fn session(&self, id: &SessionId) -> Result<Arc<Session>, Status> {
        self.sessions.get(id).cloned().ok_or(Status::BADSESSION)
    }

    /// The sessions of a client.
    pub(crate) fn sessions_of(&self, id: u64) -> impl Iterator<Item = &Arc<Session>> {
        let ids = self.by_id.get(&id).into_iter().flat_map(|client| &client.sessions);
        ids.filter_map(|id| self.sessions.get(id))
    }

    /// Whether a client can be asked for something.
    pub(crate) fn is_reached(&self, id: u64) -> bool {
        self.sessions_of(id).any(|session| session.back.as_ref().is_some_and(Back::is_up))
    }

    /// A client was heard.
    pub(crate) fn heard(&mut self, id: u64, address: SocketAddr, now: Instant) {
        if let Some(client) = self.by_id.get_mut(&id) {
            (client.seen, client.address) = (now, address);
            client.requests += 1;
        }
    }

    /// Ends a session.
    pub(crate) fn end_session(&mut self, id: &SessionId) {
        if let Some(session) = self.sessions.remove(id)
            && let Some(client) = self.by_id.get_mut(&session.client)
        {
            client.sessions.retain(|other| other != id);
        }
    }

    /// Forgets a client with its sessions.
    pub(crate) fn remove(&mut self, id: u64) -> Option<Client> {
        let client = self.by_id.remove(&id)?;
        for session in &client.sessions {
            self.sessions.remove(session);
        }
        Some(client)
    }

    /// Clients that were silent for so long.
    pub(crate) fn silent(&self, now: Instant, confirmed: bool, since: Duration) -> Vec<u64> {
        let is = |client: &&Client| {
            client.confirmed == confirmed && now.duration_since(client.seen) > since
        };
        self.by_id.values().filter(is).map(|client| client.id).collect()
    }
}
