//! The ways by which a piece of an object comes.
//!
//! First the node is asked that asks the bucket for all, then the one that would if that one went, and in the end
//! the bucket. The next way is gone when one leads nowhere, and when one takes longer than it should: what comes first is
//! taken. So many nodes that wait for one that is too busy cost one more pass over the bucket, and not one each.

use std::ops::Range;
use std::time::Duration;

use bytes::Bytes;
use futures::stream::{self, FuturesUnordered, Stream, StreamExt};
use tokio::time::{Instant, timeout};
use weir_peer::{Answer, Ask, GIVEN_BYTES, Node, Object, ObjectRange, Refusal};
use weir_types::{ErrorKind, FsError, Result};

use super::{Peers, Piece, route};
use crate::volume::context::Counts;

/// Pieces of one fetch that are on their way at once, in order.
const AHEAD: usize = 2;
/// Nodes that are asked for a piece before the bucket is.
const NODES: usize = 2;

enum Way {
    Node(Node),
    /// This node asks the bucket, for all.
    Here,
    Bucket,
}

/// A piece, by whichever of the ways it comes first; `ranked` are the nodes that may ask the bucket for all, `None`
/// for this one.
async fn piece(
    peers: &Peers,
    ranked: Vec<Option<Node>>,
    object: &Object,
    range: Range<u64>,
) -> Result<Piece> {
    let ways = ways(ranked);
    let (count, mut going) = (ways.len(), FuturesUnordered::new());
    for (at, way) in ways.into_iter().enumerate() {
        going.push(go(peers, way, object, range.clone()));
        match timeout(peers.patience(), going.next()).await {
            Ok(Some(Some(piece))) => return piece,
            Ok(_) => {}
            Err(_) => Counts::add(&peers.figures.hedges, u64::from(at + 1 < count)),
        }
    }
    while let Some(came) = going.next().await {
        if let Some(piece) = came {
            return piece;
        }
    }
    Err(FsError::new(ErrorKind::Bug, "no way leads to a piece of an object"))
}

fn ways(ranked: Vec<Option<Node>>) -> Vec<Way> {
    let mut ways = Vec::with_capacity(NODES + 1);
    for node in ranked.into_iter().take(NODES) {
        match node {
            Some(node) => ways.push(Way::Node(node)),
            None => {
                ways.push(Way::Here);
                return ways;
            }
        }
    }
    ways.push(Way::Bucket);
    ways
}

/// `None`: it leads nowhere.
async fn go(peers: &Peers, way: Way, object: &Object, range: Range<u64>) -> Option<Result<Piece>> {
    let got = match way {
        Way::Here => peers.held.get(object, range).await,
        Way::Bucket => peers.source.get(object, range).await,
        Way::Node(node) => {
            let length = range.end - range.start;
            let ask = ObjectRange { object: object.clone(), start: range.start, end: range.end };
            let bytes = peers.given(&node, &Ask::Bytes(ask), length).await?;
            return Some(Ok(Piece { bytes, giver: Some(node) }));
        }
    };
    Some(got.map(|bytes| Piece { bytes, giver: None }))
}

impl Peers {
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
        piece(self, route::ranked(place, self.me(), nodes), object, range).await
    }

    /// What a node gives, if that is of the right length. One that cannot be asked is left out for a while, and so
    /// is one whose answer somebody has often waited for in vain.
    pub(super) async fn given(&self, node: &Node, ask: &Ask, length: u64) -> Option<Bytes> {
        let mut waiting =
            Waiting { peers: self, node, since: Instant::now(), patience: Some(self.patience()) };
        let answer = self.client.ask(node, ask).await;
        waiting.patience = None;
        // Nobody is to blame for what it has no more, or does not know of.
        let of_tier = matches!(ask, Ask::Records(_));
        match answer {
            Ok(Answer::Given(bytes)) if bytes.len() as u64 == length => {
                self.source.patience.peer_took(waiting.since.elapsed());
                self.left_out.sound(node);
                Counts::add(&self.figures.taken_bytes, length);
                return Some(bytes);
            }
            Ok(Answer::Given(_)) => {
                self.gave_wrong_bytes(node);
                return None;
            }
            Ok(Answer::Refused(_)) if of_tier => return None,
            // It may have all else: the object went from the bucket, or it has too much to do.
            Ok(Answer::Refused(Refusal::NotHere | Refusal::Busy)) => {}
            Ok(Answer::Refused(Refusal::Unknown)) | Err(_) => self.left_out.away(node),
        }
        Counts::add(&self.figures.failures, 1);
        None
    }

    /// How long a way may take before the next one is gone.
    pub(crate) fn patience(&self) -> Duration {
        self.source.patience.now()
    }
}

/// Somebody waits for a node. Who stops waiting after longer than an answer should take found another way that was
/// faster, though it was gone later.
struct Waiting<'a> {
    peers: &'a Peers,
    node: &'a Node,
    since: Instant,
    /// `None` once it answered.
    patience: Option<Duration>,
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        if self.patience.is_some_and(|patience| self.since.elapsed() >= patience) {
            self.peers.left_out.slow(self.node);
        }
    }
}

/// Cuts a range where another node may ask the bucket.
pub(super) fn split(range: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let mut at = range.start;
    std::iter::from_fn(move || {
        let start = at;
        at = ((start / GIVEN_BYTES + 1) * GIVEN_BYTES).min(range.end);
        (start < range.end).then_some(start..at)
    })
}
