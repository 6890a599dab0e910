//! Nodes that share a volume give each other what they fetch, so that many that read the same cost one
//! pass over the bucket.
//!
//! Each piece of an object has one node that asks the bucket for it ([`route`]): the others ask that one,
//! which keeps what comes for a little while ([`held`]). Objects never change, and what a peer gives is
//! what the bucket has, byte for byte: who asked verifies it as if it had come from there. What a node has in its
//! tier comes from that node and not from the bucket, also much later ([`resident`]). So nothing
//! here is about consistency, and nothing is ever needed. A peer that is slow, has too much to do or is away has
//! another one asked, and after that the bucket ([`ways`]); one that is slow often, or gives wrong bytes, is left out
//! for a while.

mod askers;
mod give;
pub(crate) mod held;
mod left_out;
pub(crate) mod listen;
mod patience;
pub(crate) mod resident;
pub(crate) mod route;
mod source;
#[cfg(test)]
mod tests;
mod ways;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use weir_meta::sessions::{PeerRow, SessionId};
use weir_peer::{Ask, Client, Fingerprint, Identity, Node, Object, Server};
use weir_tier::Tier;
use weir_types::Result;

use crate::volume::context::Counts;
use crate::volume::together::Together;
use askers::Askers;
use held::Held;
use left_out::LeftOut;
pub(crate) use source::Source;

/// Smaller parts of objects are asked of the bucket: the way by a peer saves too little. Small files that
/// were closed one by one are objects of their own, and a request to the bucket costs the same for each.
const LEAST_BYTES: u64 = 4 << 10;
/// How often figures are shown, and what is held is looked through.
const LOOK: Duration = Duration::from_secs(3);

/// What was given, taken and missed since the mount.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    pub(crate) given_bytes: AtomicU64,
    pub(crate) taken_bytes: AtomicU64,
    pub(crate) hedges: AtomicU64,
    pub(crate) failures: AtomicU64,
}

/// Part of an object, and who gave it.
pub(crate) struct Piece {
    pub(crate) bytes: Bytes,
    /// `None`: it came from the bucket.
    pub(crate) giver: Option<Node>,
}

/// What this node gives to others and takes from them.
pub(crate) struct Peers {
    identity: Identity,
    together: Arc<Together>,
    client: Arc<Client>,
    source: Arc<Source>,
    held: Arc<Held>,
    askers: Arc<Askers>,
    tier: Option<Arc<Tier>>,
    left_out: LeftOut,
    pub(crate) figures: Arc<Figures>,
    give_bytes_per_s: u64,
    /// While others can reach this one, and where they do.
    listening: Mutex<Option<(Server, String)>>,
}

impl Peers {
    /// Neither gives nor takes before it listens ([`listen`]).
    pub(crate) fn new(
        together: Arc<Together>,
        source: Source,
        tier: Option<Arc<Tier>>,
        (held_bytes, give_bytes_per_s): (u64, u64),
    ) -> Result<Self> {
        let (identity, source) = (Identity::new()?, Arc::new(source));
        Ok(Self {
            together,
            client: Arc::new(Client::new(identity.clone())),
            identity,
            held: Arc::new(Held::new(source.clone(), held_bytes)),
            source,
            askers: Arc::default(),
            tier,
            left_out: LeftOut::default(),
            figures: Arc::default(),
            give_bytes_per_s,
            listening: Mutex::default(),
        })
    }

    /// Where others reach this one; `None` if they do not.
    pub(crate) fn address(&self) -> Option<String> {
        self.listening.lock().as_ref().map(|(_, address)| address.clone())
    }

    /// Others that can be asked.
    pub(crate) fn others(&self) -> u64 {
        self.together.peers().len() as u64
    }

    /// Whether it pays to bring so many bytes by way of peers.
    pub(crate) fn pays(&self, bytes: u64) -> bool {
        bytes >= LEAST_BYTES && self.listening.lock().is_some() && !self.together.peers().is_empty()
    }

    /// What this one gave is not what the bucket has.
    pub(crate) fn gave_wrong_bytes(&self, giver: &Node) {
        Counts::add(&self.figures.failures, 1);
        self.left_out.wrong(giver);
        tracing::error!(
            address = giver.address, key = %giver.fingerprint,
            "another node gave bytes that are not those of the bucket: it is asked for nothing for a \
             while; have its memory and its build looked at"
        );
    }

    /// Has these look at once who wants leases of theirs. One that cannot be asked sees it a little later.
    pub(crate) fn have_look(&self, sessions: &[SessionId]) {
        for node in sessions.iter().filter_map(|session| self.together.peer(*session)) {
            let client = self.client.clone();
            tokio::spawn(async move {
                if let Err(failure) = client.ask(&node, &Ask::Look).await {
                    tracing::debug!(address = node.address, ?failure, "it will look by itself");
                }
            });
        }
    }

    /// Forgets what is held of an object: it was found to be wrong.
    pub(crate) fn forget(&self, object: &Object) {
        self.held.forget(object);
    }

    /// Tells others nothing more, and is asked by nobody.
    pub(crate) fn end(&self) {
        *self.listening.lock() = None;
        self.client.keep(&[]);
    }

    fn row(&self) -> Option<PeerRow> {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Some(PeerRow {
            address: self.address()?,
            fingerprint: self.identity.fingerprint().0,
            given_bytes: get(&self.figures.given_bytes),
            taken_bytes: get(&self.figures.taken_bytes),
            hedges: get(&self.figures.hedges),
            failures: get(&self.figures.failures),
        })
    }

    fn me(&self) -> Fingerprint {
        self.identity.fingerprint()
    }
}

/// Shows what was given and taken, lets go of what nobody asked for lately, and of ways to nodes that went.
pub(crate) async fn peers_loop(peers: Arc<Peers>) {
    loop {
        tokio::time::sleep(LOOK).await;
        if let Some(row) = peers.row() {
            peers.together.show(row);
        }
        peers.held.sweep();
        peers.client.keep(&peers.together.peers());
    }
}
