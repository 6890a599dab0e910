//! Which node asks the bucket for a piece of an object: for all who know the same nodes the same one, and
//! when one comes or goes only its share moves (rendezvous hashing).

use std::cmp::Reverse;

use weir_peer::{Fingerprint, Node, Object};

/// All nodes, `None` for this one: first the one that is asked, then who is if that one goes, and so on.
pub(super) fn ranked(
    (object, piece): (&Object, u64),
    me: Fingerprint,
    others: Vec<Node>,
) -> Vec<Option<Node>> {
    let place = hash_of(object, piece);
    let weight = |node: &Option<Node>| {
        let who = node.as_ref().map_or(me, |node| node.fingerprint);
        (mix(place ^ head(&who)), who)
    };
    let mut all: Vec<_> = others.into_iter().map(Some).chain([None]).collect();
    all.sort_by_cached_key(|node| Reverse(weight(node)));
    all
}

/// The same for every build: FNV-1a over what names the piece.
fn hash_of(object: &Object, piece: u64) -> u64 {
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut eat = |bytes: &[u8]| {
        for byte in bytes {
            hash = (hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
    };
    match object {
        Object::Segment(id) => eat(&id.0.to_le_bytes()),
        Object::Native { link, key, etag } => {
            eat(&link.0.to_le_bytes());
            eat(key.as_bytes());
            eat(&[0]);
            eat(etag.as_bytes());
        }
    }
    eat(&piece.to_le_bytes());
    hash
}

fn head(who: &Fingerprint) -> u64 {
    who.0.iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte))
}

/// The end of SplitMix64: each bit of what goes in changes half of what comes out.
pub(crate) fn mix(seed: u64) -> u64 {
    let mut mixed = seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
    mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ (mixed >> 31)
}
