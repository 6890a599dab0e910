//! Asking clients for delegations back: each is asked until it has given it back, and loses it when the time of
//! a lease is over.

use std::sync::Arc;
use std::time::Duration;

use tokio::runtime::Handle as Runtime;
use tokio::time::{Instant, timeout_at};
use weir_engine::Recall;

use crate::handle::Handle;
use crate::protocol::status::Status;
use crate::server_state::{ServerState, add};
use crate::state::held::DELEGATION_SEQ;
use crate::state::sessions::Session;
use crate::state::stateid::Stateid;

/// Before a client that did not answer, or not as it should, is asked again.
const PAUSE: Duration = Duration::from_millis(250);

/// What is wanted back, and how its client is reached.
struct Wanted {
    client: u64,
    id: Stateid,
    handle: Handle,
    sessions: Vec<Arc<Session>>,
}

/// Has a delegation recalled when somebody of this machine, who came by another door, wants to change its file.
pub(crate) fn on_change(server: &Arc<ServerState>, number: u64) -> Recall {
    let (server, runtime) = (Arc::downgrade(server), Runtime::current());
    Box::new(move || {
        if let Some(server) = server.upgrade() {
            let _entered = runtime.enter();
            begin(&server, number);
        }
    })
}

/// Has a delegation recalled, if it is not yet.
pub(crate) fn begin(server: &Arc<ServerState>, number: u64) {
    if server.books.lock().held.delegations.recall(number, Instant::now()) {
        add(&server.counts.delegations_recalled, 1);
        tokio::spawn(run(server.clone(), number));
    }
}

async fn run(server: Arc<ServerState>, number: u64) {
    let until = Instant::now() + server.books.lease;
    let mut told = false;
    while let Some(wanted) = wanted(&server, number) {
        match server.books.expire(wanted.client).await {
            Ok(true) => return,
            Ok(false) => {}
            Err(error) => tracing::debug!("an NFS client that is gone stays: {error}"),
        }
        if !told {
            told = timeout_at(until, ask(&server, &wanted)).await.unwrap_or(false);
        }
        if Instant::now() >= until {
            revoke(&server, number, &wanted);
            return;
        }
        tokio::time::sleep_until((Instant::now() + PAUSE).min(until)).await;
    }
}

/// `None` where it is back.
fn wanted(server: &ServerState, number: u64) -> Option<Wanted> {
    let all = server.books.lock();
    let one = all.held.delegations.get(number)?;
    if all.held.delegations.is_revoked(number) {
        return None;
    }
    Some(Wanted {
        client: one.client,
        id: Stateid::new(all.held.boot, number, DELEGATION_SEQ),
        handle: Handle::Inode { export: one.export, ino: one.ino },
        sessions: all.clients.sessions_of(one.client).cloned().collect(),
    })
}

/// Asks the client for it; answers whether it knows now.
async fn ask(server: &ServerState, wanted: &Wanted) -> bool {
    let handle = server.handles.encode(wanted.handle);
    for session in &wanted.sessions {
        let Some(back) = &session.back else { continue };
        match back.recall(&session.id, wanted.id, &handle).await {
            Some(Status::OK) => return true,
            // It may not have the answer yet by which it was given.
            Some(status) => tracing::debug!(status = status.0, "a recall was refused"),
            None => {}
        }
    }
    false
}

fn revoke(server: &ServerState, number: u64, wanted: &Wanted) {
    if !server.books.revoke(number) {
        return;
    }
    add(&server.counts.delegations_revoked, 1);
    let all = server.books.lock();
    if let Some(client) = all.clients.by_id.get(&wanted.client) {
        let address = client.address;
        tracing::warn!(%address, "an NFS client did not give a file back that another changes, and lost it");
    }
}
