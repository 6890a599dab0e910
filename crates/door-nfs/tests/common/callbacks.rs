//! What the server asks of a client (section 20), and the client's answers.

use super::client::Client;
use super::codes::{OK, Stat};
use super::ops::{Handle, SessionId, StateId};
use super::xdr::{Reader, Writer};

const CB_SEQUENCE: u32 = 11;
const CB_RECALL: u32 = 4;

/// A recall.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recall {
    pub program: u32,
    pub minor: u32,
    pub session: SessionId,
    pub sequence: u32,
    pub id: StateId,
    pub file: Handle,
    xid: u32,
}

impl Client {
    /// The next recall, read to its end.
    pub fn recalled(&mut self) -> Recall {
        let (xid, body) = self.connection.asked();
        let mut from = Reader::new(&body);
        assert_eq!((from.u32(), from.u32()), (0, 2), "a call of RPC 2");
        let program = from.u32();
        assert_eq!((from.u32(), from.u32()), (1, 1), "version 1, CB_COMPOUND");
        assert_eq!((from.u32(), from.opaque().len()), (0, 0), "by nobody, as it was asked for");
        assert_eq!((from.u32(), from.opaque().len()), (0, 0), "no verifier");
        from.opaque();
        let minor = from.u32();
        assert_eq!((from.u32(), from.u32()), (0, 2), "no ident; two operations");
        assert_eq!(from.u32(), CB_SEQUENCE);
        let (session, sequence) = (from.array(), from.u32());
        assert_eq!((from.u32(), from.u32()), (0, 0), "the only slot");
        assert!(!from.bool());
        assert_eq!(from.u32(), 0, "it refers to no call");
        assert_eq!(from.u32(), CB_RECALL);
        let id = StateId { seqid: from.u32(), other: from.array() };
        assert!(!from.bool(), "nothing is cut");
        let file = from.opaque();
        from.assert_empty();
        Recall { program, minor, session, sequence, id, file, xid }
    }

    /// Answers it.
    pub fn answer(&mut self, recall: &Recall, stat: Stat) {
        let to = Writer::new().u32(recall.xid).u32(1).u32(0).u32(0).u32(0).u32(0);
        let to = to.u32(stat.0).opaque(b"").u32(2);
        let to = to.u32(CB_SEQUENCE).u32(0).fixed(&recall.session).u32(recall.sequence);
        let to = to.u32(0).u32(0).u32(0).u32(CB_RECALL).u32(stat.0);
        assert!(self.connection.send_record(&to.0), "the server has closed");
    }

    /// Answers a recall, and gives back what is recalled.
    pub fn give_back(&mut self) -> Recall {
        let recall = self.recalled();
        self.answer(&recall, OK);
        assert_eq!(self.stat(&recall.file, super::ops::delegreturn(recall.id)), OK);
        recall
    }
}
