//! Results of operations, as RFC 5662, 7862 and 8276 have them.

use super::attrs::Attrs;
use super::codes::{DENIED, OFFLOAD_NO_REQS, OK, Stat, op};
use super::ops::{Handle, SessionId, StateId, Verifier};
use super::ops_session::Channel;
use super::xdr::Reader;

/// How a directory's change attribute went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub atomic: bool,
    pub before: u64,
    pub after: u64,
}

/// A lock in the way.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    pub offset: u64,
    pub len: u64,
    pub kind: u32,
    pub client: u64,
    pub owner: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Opened {
    pub id: StateId,
    pub change: Change,
    pub flags: u32,
    pub set: Vec<u32>,
    /// The delegation, if it is one for reading.
    pub delegation: Option<StateId>,
}

/// A name in a directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    pub cookie: u64,
    pub name: Vec<u8>,
    pub attrs: Attrs,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listing {
    pub verifier: Verifier,
    pub entries: Vec<Entry>,
    pub eof: bool,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Exchanged {
    pub client: u64,
    pub sequence: u32,
    pub flags: u32,
    pub minor_id: u64,
    pub major_id: Vec<u8>,
    pub scope: Vec<u8>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Session {
    pub id: SessionId,
    pub sequence: u32,
    pub flags: u32,
    pub fore: Channel,
    pub back: Channel,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sequenced {
    pub session: SessionId,
    pub seqid: u32,
    pub slot: u32,
    pub highest: u32,
    pub target: u32,
    pub flags: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    pub count: u64,
    pub stable: u32,
    pub verifier: Verifier,
}

/// What an operation tells besides its status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Body {
    Nothing,
    /// What was looked at, and what is allowed.
    Access(u32, u32),
    State(StateId),
    Verifier(Verifier),
    Change(Change),
    Created(Change, Vec<u32>),
    Attrs(Attrs),
    Handle(Handle),
    Holder(Holder),
    Opened(Opened),
    Data {
        eof: bool,
        bytes: Vec<u8>,
    },
    Listing(Listing),
    Text(Vec<u8>),
    Renamed(Change, Change),
    Flavours(Vec<u32>),
    Set(Vec<u32>),
    Written(Written),
    Bound(SessionId, u32),
    Exchanged(Exchanged),
    Session(Session),
    Sequenced(Sequenced),
    Tested(Vec<Stat>),
    Sought {
        eof: bool,
        offset: u64,
    },
    Names {
        cookie: u64,
        names: Vec<Vec<u8>>,
        eof: bool,
    },
}

/// The result of one operation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Res {
    pub op: u32,
    pub stat: Stat,
    pub body: Body,
}

/// The result of a compound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reply {
    pub stat: Stat,
    pub tag: Vec<u8>,
    pub results: Vec<Res>,
}

impl Reply {
    /// Reads it to its end, and checks what is so of every compound: only its last result may have failed,
    /// and the status is that one's.
    pub fn read(bytes: &[u8]) -> Self {
        let mut from = Reader::new(bytes);
        let stat = Stat(from.u32());
        let tag = from.opaque();
        let results = from.many(Res::read);
        from.assert_empty();
        if let Some((last, before)) = results.split_last() {
            assert!(before.iter().all(|res| res.stat == OK), "{results:?}");
            assert_eq!(last.stat, stat, "{results:?}");
        }
        Self { stat, tag, results }
    }

    pub fn last(&self) -> &Res {
        self.results.last().expect("a result")
    }

    /// All of it went well.
    pub fn ok(self) -> Self {
        assert_eq!(self.stat, OK, "{:?}", self.results);
        self
    }
}

macro_rules! bodies {
    ($($name:ident: $variant:ident -> $type:ty,)*) => {
        $(pub fn $name(&self) -> $type {
            match &self.body {
                Body::$variant(value) => value.clone(),
                other => panic!("{:?}: {other:?}", self.stat),
            }
        })*
    };
}

impl Res {
    bodies! {
        state: State -> StateId,
        verifier: Verifier -> Verifier,
        change: Change -> Change,
        attrs: Attrs -> Attrs,
        handle: Handle -> Handle,
        holder: Holder -> Holder,
        opened: Opened -> Opened,
        listing: Listing -> Listing,
        text: Text -> Vec<u8>,
        flavours: Flavours -> Vec<u32>,
        set: Set -> Vec<u32>,
        written: Written -> Written,
        exchanged: Exchanged -> Exchanged,
        session: Session -> Session,
        sequenced: Sequenced -> Sequenced,
        tested: Tested -> Vec<Stat>,
    }

    fn read(from: &mut Reader<'_>) -> Self {
        let op = from.u32();
        let stat = Stat(from.u32());
        let body = match (op, stat) {
            // A struct, not a union: there also where it failed.
            (op::SETATTR, _) => Body::Set(from.bitmap()),
            (op::LOCK | op::LOCKT, DENIED) => Body::Holder(Holder {
                offset: from.u64(),
                len: from.u64(),
                kind: from.u32(),
                client: from.u64(),
                owner: from.opaque(),
            }),
            (op::COPY, OFFLOAD_NO_REQS) => {
                read_requirements(from);
                Body::Nothing
            }
            (op, OK) => read_body(op, from),
            _ => Body::Nothing,
        };
        Self { op, stat, body }
    }
}

fn read_body(op: u32, from: &mut Reader<'_>) -> Body {
    match op {
        op::ACCESS => Body::Access(from.u32(), from.u32()),
        op::CLOSE | op::LOCK | op::LOCKU | op::OPEN_DOWNGRADE => Body::State(read_state(from)),
        op::COMMIT => Body::Verifier(from.array()),
        op::CREATE => Body::Created(read_change(from), from.bitmap()),
        op::GETATTR => Body::Attrs(Attrs::read(from)),
        op::GETFH => Body::Handle(from.opaque()),
        op::LINK | op::REMOVE | op::SETXATTR | op::REMOVEXATTR => Body::Change(read_change(from)),
        op::OPEN => Body::Opened(read_opened(from)),
        op::READ => Body::Data { eof: from.bool(), bytes: from.opaque() },
        op::READDIR => Body::Listing(read_listing(from)),
        op::READLINK | op::GETXATTR => Body::Text(from.opaque()),
        op::RENAME => Body::Renamed(read_change(from), read_change(from)),
        op::SECINFO | op::SECINFO_NO_NAME => Body::Flavours(from.many(read_flavour)),
        op::WRITE => {
            let (count, stable) = (from.u32().into(), from.u32());
            Body::Written(Written { count, stable, verifier: from.array() })
        }
        op::COPY => read_copied(from),
        op::BIND_CONN_TO_SESSION => {
            let (session, direction) = (from.array(), from.u32());
            from.bool();
            Body::Bound(session, direction)
        }
        op::EXCHANGE_ID => Body::Exchanged(read_exchanged(from)),
        op::CREATE_SESSION => Body::Session(Session {
            id: from.array(),
            sequence: from.u32(),
            flags: from.u32(),
            fore: read_channel(from),
            back: read_channel(from),
        }),
        op::SEQUENCE => Body::Sequenced(Sequenced {
            session: from.array(),
            seqid: from.u32(),
            slot: from.u32(),
            highest: from.u32(),
            target: from.u32(),
            flags: from.u32(),
        }),
        op::TEST_STATEID => Body::Tested(from.many(|from| Stat(from.u32()))),
        op::SEEK => Body::Sought { eof: from.bool(), offset: from.u64() },
        op::LISTXATTRS => {
            Body::Names { cookie: from.u64(), names: from.many(Reader::opaque), eof: from.bool() }
        }
        op::IO_ADVISE => Body::Set(from.bitmap()),
        _ => Body::Nothing,
    }
}

fn read_state(from: &mut Reader<'_>) -> StateId {
    StateId { seqid: from.u32(), other: from.array() }
}

fn read_change(from: &mut Reader<'_>) -> Change {
    Change { atomic: from.bool(), before: from.u64(), after: from.u64() }
}

fn read_opened(from: &mut Reader<'_>) -> Opened {
    let (id, change) = (read_state(from), read_change(from));
    let (flags, set) = (from.u32(), from.bitmap());
    let delegation = match from.u32() {
        0 => None,
        1 => {
            let id = read_state(from);
            from.bool();
            // Whom it lets read without asking: three numbers and a name.
            from.fixed(12);
            from.opaque();
            Some(id)
        }
        3 => {
            // 1 and 2 say whether the server will tell when there may be one.
            if matches!(from.u32(), 1 | 2) {
                from.bool();
            }
            None
        }
        other => panic!("delegation {other}, which no server of ours gives"),
    };
    Opened { id, change, flags, set, delegation }
}

fn read_listing(from: &mut Reader<'_>) -> Listing {
    let verifier = from.array();
    let mut entries = Vec::new();
    while from.bool() {
        let (cookie, name) = (from.u64(), from.opaque());
        entries.push(Entry { cookie, name, attrs: Attrs::read(from) });
    }
    Listing { verifier, entries, eof: from.bool() }
}

fn read_flavour(from: &mut Reader<'_>) -> u32 {
    let flavour = from.u32();
    if flavour == 6 {
        from.opaque();
        from.fixed(8);
    }
    flavour
}

fn read_exchanged(from: &mut Reader<'_>) -> Exchanged {
    let (client, sequence, flags) = (from.u64(), from.u32(), from.u32());
    assert_eq!(from.u32(), 0, "no protection of state was asked for");
    let (minor_id, major_id, scope) = (from.u64(), from.opaque(), from.opaque());
    let implementations = from.many(|from| (from.opaque(), from.opaque(), from.u64(), from.u32()));
    assert!(implementations.len() <= 1);
    Exchanged { client, sequence, flags, minor_id, major_id, scope }
}

fn read_channel(from: &mut Reader<'_>) -> Channel {
    from.u32();
    let (request, response, cached) = (from.u32(), from.u32(), from.u32());
    let (operations, requests) = (from.u32(), from.u32());
    assert_eq!(from.words().len(), 0, "nothing of RDMA");
    Channel { request, response, cached, operations, requests }
}

fn read_copied(from: &mut Reader<'_>) -> Body {
    assert_eq!(from.many(read_state).len(), 0, "the copy was asked for before the answer");
    let (count, stable, verifier) = (from.u64(), from.u32(), from.array());
    read_requirements(from);
    Body::Written(Written { count, stable, verifier })
}

/// Whether it was done in order, and before the answer.
fn read_requirements(from: &mut Reader<'_>) {
    assert!(from.bool() && from.bool(), "both were asked for");
}
