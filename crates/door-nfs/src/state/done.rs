//! Changes that a server made and could not answer any more. The commit that makes one keeps a row that names the slot and
//! the number of the request. So who asks again at the next server, in a session that is no more, hears that it is done, and
//! not that the name is gone, or taken.
//!
//! That is what of a session has to outlive its server (RFC 8881, 2.10.6.5), and not all of it: what changes nothing, or
//! may be done twice, is done anew in a new session.

use bytes::Bytes;
use weir_engine::{Receipt, SessionId as Node};

use super::sessions::SessionId;

/// Rows of what was done begin so.
pub(crate) const DONE_ROWS: &str = "nfs/done/";

/// The last change of names or attributes that a slot made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Done {
    /// The number of the request in its slot.
    pub(crate) sequence: u32,
    /// Which of its operations it was; what such operations there are before it is done as well.
    pub(crate) at: u32,
    /// The session's highest slot.
    pub(crate) highest: u32,
    /// The node that made it, where nodes share the volume.
    pub(crate) node: Option<Node>,
}

/// The row of a slot.
pub(crate) fn row_of(session: &SessionId, slot: u32) -> String {
    let hex = session.iter().map(|byte| format!("{byte:02x}"));
    format!("{DONE_ROWS}{}/{slot}", hex.collect::<String>())
}

/// The session that a row is of, if it is one.
pub(crate) fn session_of(row: &str) -> Option<SessionId> {
    let (session, _) = row.strip_prefix(DONE_ROWS)?.split_once('/')?;
    u128::from_str_radix(session, 16).ok().map(u128::to_be_bytes)
}

impl Done {
    /// What the commit of the change keeps.
    pub(crate) fn receipt(&self, session: &SessionId, slot: u32) -> Receipt {
        let words = [self.sequence, self.at, self.highest].into_iter().flat_map(u32::to_be_bytes);
        let node = self.node.map_or(0, |node| node.0).to_be_bytes();
        Receipt { name: row_of(session, slot), value: words.chain(node).collect() }
    }

    /// From a row's value; `None` of a later form.
    pub(crate) fn decode(value: &Bytes) -> Option<Self> {
        let (words, rest) = value.as_chunks::<4>();
        let &[sequence, at, highest, high, low] = words else { return None };
        let [sequence, at, highest, high, low] =
            [sequence, at, highest, high, low].map(u32::from_be_bytes);
        let node = u64::from(high) << 32 | u64::from(low);
        let node = (node != 0).then_some(Node(node));
        rest.is_empty().then_some(Self { sequence, at, highest, node })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_names_its_slot_and_its_session() {
        let session = [0xa7; 16];
        for node in [None, Some(Node(0x1_0000_0002))] {
            let done = Done { sequence: 9, at: 3, highest: 63, node };
            let receipt = done.receipt(&session, 12);
            assert!(receipt.name.ends_with("a7a7/12") && receipt.name.len() <= 255);
            assert_eq!(session_of(&receipt.name), Some(session));
            assert_eq!(Done::decode(&receipt.value), Some(done));
        }
        assert_eq!(Done::decode(&Bytes::from_static(b"later")), None);
        assert_eq!(session_of("nfs/client/ab/3"), None);
    }
}
