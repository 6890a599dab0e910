//! Nodes that share a volume give each other what they fetch, so that many that read the same cost one
//! pass over the bucket.
//!
//! Each piece of an object has one node that asks the bucket for it ([`route`]): the others ask that one,
//! which keeps what comes for a little while ([`held`]). Objects never change, and what a peer gives is
//! what the bucket has, byte for byte: who asked verifies it as if it had come from there. What a node has in its
//! tier comes from that node and not from the bucket, also much later ([`resident`]). So nothing
//! here is about consistency, and nothing is ever needed. A peer that is slow costs a hedge or two, one that
//! is away or gives wrong bytes is left out for a while; the bucket is asked instead.

mod askers;
mod give;
pub(crate) mod held;
mod left_out;
pub(crate) mod listen;
mod patience;
pub(crate) mod resident;
mod route;
mod source;
#[cfg(test)]
mod tests;

use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, Stream, StreamExt};
use parking_lot::Mutex;
use tokio::time::{Instant, timeout};
use weir_meta::sessions::{PeerRow, SessionId};
use weir_peer::{
    Answer, Ask, Client, Failure, Fingerprint, GIVEN_BYTES, Identity, Node, Object, ObjectRange,
    Refusal, Server,
};
use weir_tier::Tier;
use weir_types::Result;

use crate::volume::context::Counts;
use crate::volume::together::Together;
use askers::Askers;
use held::Held;
use left_out::LeftOut;
use patience::Patience;
pub(crate) use source::Source;

/// Smaller parts of objects are asked of the bucket: the way by a peer saves too little. Small files that
/// were closed one by one are objects of their own, and a request to the bucket costs the same for each.
const LEAST_BYTES: u64 = 4 << 10;
/// Pieces of one fetch that are on their way at once, in order.
const AHEAD: usize = 2;
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
    patience: Patience,
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
            patience: Patience::default(),
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

    /// A range of an object, in pieces that follow one another.
    pub(crate) fn pieces<'a>(
        &'a self,
        object: &'a Object,
        range: Range<u64>,
    ) -> impl Stream<Item = Result<Piece>> + Send + 'a {
        stream::iter(split(range)).map(|piece| self.piece(object, piece)).buffered(AHEAD)
    }

    /// The bytes of a range, in one.
    pub(crate) async fn whole(&self, object: &Object, range: Range<u64>) -> Result<Bytes> {
        let mut whole = Vec::with_capacity((range.end - range.start) as usize);
        let mut pieces = std::pin::pin!(self.pieces(object, range.clone()));
        while let Some(piece) = pieces.next().await {
            let piece = piece?.bytes;
            if piece.len() as u64 == range.end - range.start {
                return Ok(piece);
            }
            whole.extend_from_slice(&piece);
        }
        Ok(whole.into())
    }

    async fn piece(&self, object: &Object, range: Range<u64>) -> Result<Piece> {
        let place = (object, range.start / GIVEN_BYTES);
        let mut nodes = self.together.peers();
        nodes.retain(|node| !self.left_out.has(&node.fingerprint));
        match route::owner(place, self.identity.fingerprint(), nodes) {
            Some(owner) => self.by_way_of(owner, object, range).await,
            None => from_bucket(self.held.get(object, range).await),
        }
    }

    /// Asks the node that asks the bucket for all; the bucket as well, if that takes too long.
    async fn by_way_of(&self, owner: Node, object: &Object, range: Range<u64>) -> Result<Piece> {
        let ask =
            Ask::Bytes(ObjectRange { object: object.clone(), start: range.start, end: range.end });
        let began = Instant::now();
        let mut asked = std::pin::pin!(self.client.ask(&owner, &ask));
        let direct = || self.source.get(object, range.clone());
        let length = range.end - range.start;
        let given = match timeout(self.patience.now(), &mut asked).await {
            Ok(answer) => self.judge(&owner, answer, length),
            Err(_) => {
                Counts::add(&self.figures.hedges, 1);
                tokio::select! {
                    answer = &mut asked => self.judge(&owner, answer, length),
                    got = direct() => {
                        self.left_out.slow(&owner);
                        return from_bucket(got);
                    }
                }
            }
        };
        let Some(bytes) = given else { return from_bucket(direct().await) };
        self.patience.answered(began.elapsed());
        self.left_out.sound(&owner);
        Counts::add(&self.figures.taken_bytes, length);
        Ok(Piece { bytes, giver: Some(owner.clone()) })
    }

    /// What a peer gave, if it is of the right length. One that cannot be asked is left out.
    fn judge(
        &self,
        owner: &Node,
        answer: std::result::Result<Answer, Failure>,
        length: u64,
    ) -> Option<Bytes> {
        match answer {
            Ok(Answer::Given(bytes)) if bytes.len() as u64 == length => return Some(bytes),
            Ok(Answer::Given(_)) => {
                self.gave_wrong_bytes(owner);
                return None;
            }
            // It may have all else: the object went from the bucket, or it has too much to do.
            Ok(Answer::Refused(Refusal::NotHere | Refusal::Busy)) | Err(Failure::Full) => {}
            Ok(Answer::Refused(Refusal::Unknown)) | Err(Failure::Away | Failure::Broken) => {
                self.left_out.away(owner);
            }
        }
        Counts::add(&self.figures.failures, 1);
        None
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

fn from_bucket(bytes: Result<Bytes>) -> Result<Piece> {
    Ok(Piece { bytes: bytes?, giver: None })
}

/// Cuts a range where another node may ask the bucket.
fn split(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let start = at;
        at = ((start / GIVEN_BYTES + 1) * GIVEN_BYTES).min(range.end);
        (start < range.end).then_some(start..at)
    })
}
