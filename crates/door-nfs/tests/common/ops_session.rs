//! Operations of clients and sessions, and those that came after NFS 4.1.

use super::codes::op;
use super::ops::{Op, SessionId, StateId, Verifier, raw};
use super::xdr::Writer;

pub fn bind_conn_to_session(session: &SessionId, direction: u32) -> Op {
    let to = Writer::new().fixed(session).u32(direction).bool(false);
    raw(op::BIND_CONN_TO_SESSION, to)
}

pub fn backchannel_ctl(program: u32) -> Op {
    // By nobody.
    raw(op::BACKCHANNEL_CTL, Writer::new().u32(program).u32(1).u32(0))
}

pub fn exchange_id(verifier: Verifier, owner: &[u8], flags: u32) -> Op {
    // Without protection of state, and without a name of the implementation.
    let to = Writer::new().fixed(&verifier).opaque(owner).u32(flags).u32(0).u32(0);
    raw(op::EXCHANGE_ID, to)
}

/// What a channel can carry: sizes in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Channel {
    pub request: u32,
    pub response: u32,
    pub cached: u32,
    pub operations: u32,
    pub requests: u32,
}

impl Channel {
    /// What a client of Linux asks for, or about that.
    pub const FORE: Self = Self {
        request: 1_049_620,
        response: 1_049_480,
        cached: 7_584,
        operations: 16,
        requests: 64,
    };
    pub const BACK: Self =
        Self { request: 4_096, response: 4_096, cached: 0, operations: 2, requests: 16 };

    fn write(&self, to: Writer) -> Writer {
        let to = to.u32(0).u32(self.request).u32(self.response).u32(self.cached);
        to.u32(self.operations).u32(self.requests).u32(0)
    }
}

/// The arguments of CREATE_SESSION.
#[derive(Clone, Copy, Debug)]
pub struct NewSession {
    pub client: u64,
    pub sequence: u32,
    pub flags: u32,
    pub fore: Channel,
}

impl NewSession {
    pub fn op(&self) -> Op {
        let to = Writer::new().u64(self.client).u32(self.sequence).u32(self.flags);
        let to = Channel::BACK.write(self.fore.write(to));
        // Callbacks would be to program 0x4000_0000, by nobody.
        raw(op::CREATE_SESSION, to.u32(0x4000_0000).u32(1).u32(0))
    }
}

pub fn destroy_session(session: &SessionId) -> Op {
    raw(op::DESTROY_SESSION, Writer::new().fixed(session))
}

pub fn destroy_clientid(client: u64) -> Op {
    raw(op::DESTROY_CLIENTID, Writer::new().u64(client))
}

pub fn free_stateid(id: StateId) -> Op {
    raw(op::FREE_STATEID, Writer::new().stateid(id))
}

pub fn test_stateid(ids: &[StateId]) -> Op {
    let to = ids.iter().fold(Writer::new().u32(ids.len() as u32), |to, id| to.stateid(*id));
    raw(op::TEST_STATEID, to)
}

pub fn reclaim_complete(one_fs: bool) -> Op {
    raw(op::RECLAIM_COMPLETE, Writer::new().bool(one_fs))
}

/// The arguments of SEQUENCE.
#[derive(Clone, Copy, Debug)]
pub struct Sequence {
    pub session: SessionId,
    pub seqid: u32,
    pub slot: u32,
    pub highest: u32,
    pub cache: bool,
}

impl Sequence {
    pub fn op(&self) -> Op {
        let to = Writer::new().fixed(&self.session).u32(self.seqid).u32(self.slot);
        raw(op::SEQUENCE, to.u32(self.highest).bool(self.cache))
    }
}

pub fn allocate(id: StateId, offset: u64, len: u64) -> Op {
    raw(op::ALLOCATE, Writer::new().stateid(id).u64(offset).u64(len))
}

pub fn deallocate(id: StateId, offset: u64, len: u64) -> Op {
    raw(op::DEALLOCATE, Writer::new().stateid(id).u64(offset).u64(len))
}

/// From the saved file to the current one: offsets of both, and the number of bytes (0 is all).
pub fn clone(from: StateId, to: StateId, offsets: (u64, u64), len: u64) -> Op {
    let to = Writer::new().stateid(from).stateid(to).u64(offsets.0).u64(offsets.1);
    raw(op::CLONE, to.u64(len))
}

/// As [`clone`], in order and before the answer.
pub fn copy(from: StateId, to: StateId, offsets: (u64, u64), len: u64) -> Op {
    let to = Writer::new().stateid(from).stateid(to).u64(offsets.0).u64(offsets.1);
    raw(op::COPY, to.u64(len).bool(true).bool(true).u32(0))
}

/// Data from there on, or a hole.
pub fn seek(id: StateId, offset: u64, hole: bool) -> Op {
    raw(op::SEEK, Writer::new().stateid(id).u64(offset).u32(hole.into()))
}

pub fn getxattr(name: &str) -> Op {
    raw(op::GETXATTR, Writer::new().opaque(name.as_bytes()))
}

/// How SETXATTR goes about one that is there, or is not.
#[derive(Clone, Copy, Debug)]
pub enum SetHow {
    Either,
    Create,
    Replace,
}

pub fn setxattr(how: SetHow, name: &str, value: &[u8]) -> Op {
    let to = Writer::new().u32(how as u32).opaque(name.as_bytes()).opaque(value);
    raw(op::SETXATTR, to)
}

pub fn listxattrs(cookie: u64, maxcount: u32) -> Op {
    raw(op::LISTXATTRS, Writer::new().u64(cookie).u32(maxcount))
}

pub fn removexattr(name: &str) -> Op {
    raw(op::REMOVEXATTR, Writer::new().opaque(name.as_bytes()))
}
