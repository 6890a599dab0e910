//! Records from the tiers of nodes.
//!
//! A tier has the bytes of files, and not those of segments. So who is asked for a record packs it anew: the
//! packing of a record depends on nothing but its bytes, its place and the codec. It is given only if that comes to the
//! checksum of the record; who asked verifies it as ever. A node that has it no more, or another version of the
//! file, gives nothing, which costs a question.
//!
//! Who may have one: those who asked for that part of the segment of late, whom the node remembers that asks the bucket
//! for it, and the one that would if that one went ([`super::askers`]); where nobody did, the node that made the segment.

use std::collections::HashSet;

use bytes::{Bytes, BytesMut};
use futures::future::join_all;
use tokio::time::timeout;
use weir_meta::sessions::SessionId;
use weir_peer::{Answer, Ask, FileRecord, Fingerprint, GIVEN_BYTES, Node, Object};
use weir_segment::{Owner, SegmentBuilder};
use weir_tier::{ReadOutcome, Tier};
use weir_types::{ByteRange, Codec, Ino, Result, SegmentId};

use super::{Peers, route};

/// Records of one question: it is a small message.
pub(crate) const RECORDS_MAX: usize = 64;
/// Nodes that remember who asked for a part, and those of them who are asked for records.
const REMEMBER: usize = 2;
/// Nodes that are asked for what is nowhere else.
const ANYBODY: usize = 64;
/// Ranges of one question.
const RANGES: usize = 256;
/// Bytes of a fingerprint.
const FINGERPRINT: usize = 32;

/// The records of these that are asked for first, at once: of one part of their segment.
pub(crate) fn first_question(records: &[FileRecord]) -> &[FileRecord] {
    let part = |of: &FileRecord| u64::from(of.record.position) / GIVEN_BYTES;
    let mut bytes = 0;
    let fits = records.iter().take(RECORDS_MAX).take_while(|of| {
        bytes += u64::from(of.record.stored_bytes);
        bytes <= GIVEN_BYTES && part(of) == part(&records[0])
    });
    &records[..fits.count()]
}

/// Records of files that are here, packed, one behind the other; `None` if one of them is not. Blocking.
pub(super) fn packed(tier: &Tier, records: &[FileRecord]) -> Option<Bytes> {
    let mut all = BytesMut::new();
    for of in records {
        let stored = packed_one(tier, of).ok().flatten()?;
        all.extend_from_slice(&stored);
    }
    Some(all.freeze())
}

fn packed_one(tier: &Tier, of: &FileRecord) -> Result<Option<Bytes>> {
    let FileRecord { record, ino, offset } = of;
    let Some(mirror) = tier.find(*ino) else { return Ok(None) };
    let (raw_bytes, mut raw) = (record.raw_bytes as usize, Vec::new());
    if mirror.read_at(*offset, raw_bytes, &mut raw)? != ReadOutcome::Done(raw_bytes) {
        return Ok(None);
    }
    let codecs: &[Codec] = match record.stored_bytes > record.raw_bytes {
        true => &[Codec::None],
        false => &[Codec::Lz4, Codec::Zstd],
    };
    for codec in codecs {
        let mut builder = SegmentBuilder::new(record.segment, *codec, raw_bytes as u64);
        let made = builder.push(Owner { ino: *ino, offset: *offset }, &raw)?;
        if made.checksum == record.checksum && made.stored_bytes == record.stored_bytes {
            let start = made.position as usize;
            return Ok(Some(
                builder.finish().bytes.slice(start..start + made.stored_bytes as usize),
            ));
        }
    }
    Ok(None)
}

impl Peers {
    /// Records of one segment from a node that has them in its tier, one behind the other, and which one that is.
    /// A question or two; `None` if nobody seems to have them. It takes as long as who is asked takes.
    pub(crate) async fn records_of_tier(&self, records: &[FileRecord]) -> Option<(Bytes, Node)> {
        let first = records.first()?.record;
        let part = (first.segment, u64::from(first.position) / GIVEN_BYTES);
        let mut nodes = self.who_asked(part).await;
        if nodes.is_empty() {
            // The first one asks it: many at once would be too much for one node.
            nodes.extend(self.together.maker(first.segment).filter(|node| self.may_ask(node)));
        }
        for node in nodes {
            if let Some(given) = self.ask_for_records(node, records).await {
                return Some(given);
            }
        }
        None
    }

    /// The same of any other node, one after the other: for what is nowhere else.
    pub(crate) async fn records_of_anybody(&self, records: &[FileRecord]) -> Option<(Bytes, Node)> {
        let first = records.first()?.record;
        let place = (&Object::Segment(first.segment), u64::from(first.position) / GIVEN_BYTES);
        let mut nodes = self.together.peers();
        nodes.retain(|node| self.may_ask(node));
        let ranked = route::ranked(place, self.me(), nodes).into_iter().flatten();
        for node in ranked.take(ANYBODY) {
            if let Some(given) = self.ask_for_records(node, records).await {
                return Some(given);
            }
        }
        None
    }

    /// Which of these ranges of files one of these sessions has in its tier, as far as they can be asked. A question
    /// for each 256.
    pub(crate) async fn have(
        &self,
        sessions: &[SessionId],
        ranges: &[(Ino, ByteRange)],
    ) -> Vec<bool> {
        let nodes: Vec<_> = sessions.iter().filter_map(|one| self.together.peer(*one)).collect();
        let mut all = Vec::with_capacity(ranges.len());
        for page in ranges.chunks(RANGES) {
            let ask = Ask::Whole(page.iter().map(|(ino, of)| (*ino, of.start, of.end)).collect());
            let mut here = vec![false; page.len()];
            for node in &nodes {
                let answer = timeout(self.patience(), self.client.ask(node, &ask)).await;
                if let Ok(Ok(Answer::Given(said))) = answer {
                    here.iter_mut().zip(said).for_each(|(here, said)| *here |= said == 1);
                }
            }
            all.append(&mut here);
        }
        all
    }

    fn may_ask(&self, node: &Node) -> bool {
        !self.left_out.has(&node.fingerprint)
    }

    /// Nodes that asked for a part of a segment before, as two remember: one may have come lately.
    async fn who_asked(&self, part: (SegmentId, u64)) -> Vec<Node> {
        let mut nodes = self.together.peers();
        nodes.retain(|node| self.may_ask(node));
        let object = Object::Segment(part.0);
        let ranked = route::ranked((&object, part.1), self.me(), nodes.clone()).into_iter();
        let asked = ranked.take(REMEMBER).map(|node| self.who_asked_of(node, part));
        let mut before = join_all(asked).await.concat();
        let mut seen = HashSet::from([self.me()]);
        before.retain(|who| seen.insert(*who));
        let node_of = |who: Fingerprint| nodes.iter().find(|node| node.fingerprint == who).cloned();
        before.into_iter().filter_map(node_of).take(REMEMBER).collect()
    }

    /// As this node remembers, `None` for oneself; from now on it remembers us.
    async fn who_asked_of(&self, node: Option<Node>, part: (SegmentId, u64)) -> Vec<Fingerprint> {
        let Some(node) = node else { return self.askers.before(part, self.me()) };
        let ask = Ask::Who(part.0, part.1);
        match timeout(self.patience(), self.client.ask(&node, &ask)).await {
            Ok(Ok(Answer::Given(bytes))) => fingerprints(&bytes),
            // It may be asked for the bytes next, and what it does then is judged.
            _ => Vec::new(),
        }
    }

    async fn ask_for_records(&self, node: Node, records: &[FileRecord]) -> Option<(Bytes, Node)> {
        let length: u64 = records.iter().map(|of| u64::from(of.record.stored_bytes)).sum();
        let bytes = self.given(&node, &Ask::Records(records.to_vec()), length).await?;
        Some((bytes, node))
    }
}

/// As they are given.
pub(super) fn given(who: &[Fingerprint]) -> Bytes {
    who.iter().flat_map(|one| one.0).collect::<Vec<_>>().into()
}

fn fingerprints(given: &[u8]) -> Vec<Fingerprint> {
    let (all, _) = given.as_chunks::<FINGERPRINT>();
    all.iter().map(|one| Fingerprint(*one)).collect()
}
