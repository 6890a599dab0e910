//! A client of NFS 4.1 and 4.2 with one session, which does as it is told, wrong things too.

use std::net::SocketAddr;

use super::attrs::{Attrs, Set};
use super::codes::{OK, Stat, attr, op, stable};
use super::ops::{self, Handle, Make, Op, Open, StateId, Verifier};
use super::ops_session::{self, Channel, NewSession, Sequence};
use super::replies::{Body, Entry, Exchanged, Opened, Reply, Res, Session, Written};
use super::rpc::{Answer, Connection, Cred, Head};
use super::xdr::Writer;

/// A compound's arguments.
pub fn compound(minor: u32, ops: &[Op]) -> Vec<u8> {
    let to = Writer::new().opaque(b"weir").u32(minor).u32(ops.len() as u32);
    ops.iter().fold(to, |to, op| to.u32(op.number).add(&op.arguments)).0
}

/// The reply in an answer to a compound.
pub fn reply(answer: Answer) -> Reply {
    match answer {
        Answer::Done(bytes) => Reply::read(&bytes),
        other => panic!("{other:?}"),
    }
}

pub struct Client {
    pub connection: Connection,
    pub cred: Cred,
    pub minor: u32,
    pub id: u64,
    pub session: Session,
    /// The sequence number of the last request of each slot.
    pub slots: Vec<u32>,
    address: SocketAddr,
}

/// The flag of a session whose connection is for calls to the client too.
pub const CALLS_BACK: u32 = 2;
/// The verifier of the first life of a client.
pub const FIRST_LIFE: Verifier = [1; 8];

impl Client {
    /// A client of root of this name in its first life, with a session, that has nothing to reclaim.
    pub fn new(address: SocketAddr, name: &str) -> Self {
        let mut client = Self::before_reclaim(address, name, FIRST_LIFE);
        let done = client.call(&[ops_session::reclaim_complete(false)]);
        assert_eq!(done.stat, OK, "RECLAIM_COMPLETE");
        client
    }

    /// As [`Client::new`], in any life, when it may still claim what it had.
    pub fn before_reclaim(address: SocketAddr, name: &str, life: Verifier) -> Self {
        Self::over(Connection::open(address), address, name, life)
    }

    /// As [`Client::new`], with a way back over its connection.
    pub fn reached(address: SocketAddr, name: &str) -> Self {
        let mut client = Self::reached_before_reclaim(address, name);
        client.call(&[ops_session::reclaim_complete(false)]).ok();
        client
    }

    /// The same when it may still claim what it had.
    pub fn reached_before_reclaim(address: SocketAddr, name: &str) -> Self {
        Self::with_flags(Connection::open(address), address, name, FIRST_LIFE, CALLS_BACK)
    }

    /// The same over a connection.
    pub fn over(connection: Connection, address: SocketAddr, name: &str, life: Verifier) -> Self {
        Self::with_flags(connection, address, name, life, 0)
    }

    fn with_flags(
        mut connection: Connection,
        address: SocketAddr,
        name: &str,
        life: Verifier,
        flags: u32,
    ) -> Self {
        let cred = Cred::root();
        let known = exchange_id(&mut connection, &cred, name, life);
        let new = NewSession {
            client: known.client,
            sequence: known.sequence,
            flags,
            fore: Channel::FORE,
        };
        let made = bare(&mut connection, &cred, 1, &[new.op()]).ok();
        let session = made.last().session();
        let slots = vec![0; session.fore.requests as usize];
        Self { connection, cred, minor: 1, id: known.client, session, slots, address }
    }

    /// The same as a user.
    pub fn by(mut self, cred: Cred) -> Self {
        self.cred = cred;
        self
    }

    /// Speaks 4.2.
    pub fn minor2(mut self) -> Self {
        self.minor = 2;
        self
    }

    /// Another connection to the server.
    pub fn connect(&self) -> Connection {
        Connection::open(self.address)
    }

    /// The SEQUENCE of the next request of a slot.
    pub fn sequence(&mut self, slot: u32) -> Sequence {
        let seqid = &mut self.slots[slot as usize];
        *seqid = seqid.wrapping_add(1);
        let highest = self.session.fore.requests - 1;
        Sequence { session: self.session.id, seqid: *seqid, slot, highest, cache: true }
    }

    /// Sends a request in a slot; the number of the call.
    pub fn start(&mut self, slot: u32, ops: &[Op]) -> u32 {
        let sequence = Sequence { cache: !reads(ops), ..self.sequence(slot) };
        self.send_with(&sequence, ops)
    }

    /// The same with any SEQUENCE.
    pub fn send_with(&mut self, sequence: &Sequence, ops: &[Op]) -> u32 {
        let ops = [&[sequence.op()], ops].concat();
        self.connection.send(&Head::compound(&self.cred), &compound(self.minor, &ops))
    }

    /// The reply to a call.
    pub fn finish(&mut self, xid: u32) -> Reply {
        reply(self.connection.receive(xid).answer)
    }

    /// These after a SEQUENCE, whose result is taken off where it went well.
    pub fn call(&mut self, ops: &[Op]) -> Reply {
        let xid = self.start(0, ops);
        let mut reply = self.finish(xid);
        if reply.results.first().is_some_and(|first| first.stat == OK) {
            reply.results.remove(0);
        }
        reply
    }

    /// These after any SEQUENCE, and all results.
    pub fn call_with(&mut self, sequence: &Sequence, ops: &[Op]) -> Reply {
        let xid = self.send_with(sequence, ops);
        self.finish(xid)
    }

    /// What SEQUENCE says of the client's state.
    pub fn call_with_flags(&mut self) -> Result<u32, Stat> {
        let sequence = self.sequence(0);
        let reply = self.call_with(&sequence, &[]);
        if reply.stat == OK { Ok(reply.last().sequenced().flags) } else { Err(reply.stat) }
    }

    /// These without a SEQUENCE.
    pub fn bare(&mut self, ops: &[Op]) -> Reply {
        bare(&mut self.connection, &self.cred, self.minor, ops)
    }

    /// One operation on a file: its result.
    pub fn at(&mut self, file: &[u8], op: Op) -> Res {
        let reply = self.call(&[ops::putfh(file), op]);
        reply.results.last().cloned().expect("a result")
    }

    /// Its status.
    pub fn stat(&mut self, file: &[u8], op: Op) -> Stat {
        self.at(file, op).stat
    }

    /// One on two files: the saved one and the current one.
    pub fn between(&mut self, saved: &[u8], current: &[u8], op: Op) -> Res {
        let ops = [ops::putfh(saved), ops::savefh(), ops::putfh(current), op];
        self.call(&ops).results.last().cloned().expect("a result")
    }

    pub fn root(&mut self) -> Handle {
        self.call(&[ops::putrootfh(), ops::getfh()]).ok().last().handle()
    }

    pub fn lookup(&mut self, dir: &[u8], name: &str) -> Result<Handle, Stat> {
        let reply = self.call(&[ops::putfh(dir), ops::lookup(name), ops::getfh()]);
        if reply.stat == OK { Ok(reply.last().handle()) } else { Err(reply.stat) }
    }

    pub fn mkdir(&mut self, dir: &[u8], name: &str, mode: u32) -> Handle {
        let ops = [ops::putfh(dir), ops::mkdir(name, mode), ops::getfh()];
        self.call(&ops).ok().last().handle()
    }

    pub fn open(&mut self, dir: &[u8], open: &Open) -> Result<(Handle, Opened), Stat> {
        let reply = self.call(&[ops::putfh(dir), open.op(), ops::getfh()]);
        match reply.stat {
            OK => Ok((reply.last().handle(), reply.results[1].opened())),
            other => Err(other),
        }
    }

    /// Opens it for reading and writing, and makes it where it is not there.
    pub fn make(&mut self, dir: &[u8], name: &str) -> (Handle, StateId) {
        let (file, opened) = self.open(dir, &Open::making(name)).expect("opens");
        (file, opened.id)
    }

    /// Makes a file with these bytes, and closes it.
    pub fn file(&mut self, dir: &[u8], name: &str, bytes: &[u8]) -> Handle {
        let (file, id) = self.make(dir, name);
        for (piece, at) in bytes.chunks(1 << 18).zip(0u64..) {
            let written = self.write(&file, id, at << 18, stable::UNSTABLE, piece);
            assert_eq!(written.expect("writes").count, piece.len() as u64);
        }
        assert_eq!(self.stat(&file, ops::close(id)), OK);
        file
    }

    pub fn write(
        &mut self,
        file: &[u8],
        id: StateId,
        offset: u64,
        stable: u32,
        bytes: &[u8],
    ) -> Result<Written, Stat> {
        let res = self.at(file, ops::write(id, offset, stable, bytes));
        if res.stat == OK { Ok(res.written()) } else { Err(res.stat) }
    }

    /// Bytes, and whether the file ends there.
    pub fn read(
        &mut self,
        file: &[u8],
        id: StateId,
        offset: u64,
        count: u32,
    ) -> Result<(Vec<u8>, bool), Stat> {
        match self.at(file, ops::read(id, offset, count)) {
            Res { body: Body::Data { eof, bytes }, .. } => Ok((bytes, eof)),
            other => Err(other.stat),
        }
    }

    /// All bytes of a file.
    pub fn content(&mut self, file: &[u8]) -> Vec<u8> {
        let mut content = Vec::new();
        loop {
            let at = content.len() as u64;
            let read = self.read(file, StateId::ANONYMOUS, at, 1 << 18);
            let (bytes, eof) = read.expect("reads");
            content.extend_from_slice(&bytes);
            if eof {
                return content;
            }
            assert!(!bytes.is_empty(), "neither bytes nor the end at {at}");
        }
    }

    pub fn attrs(&mut self, file: &[u8], numbers: &[u32]) -> Attrs {
        let res = self.at(file, ops::getattr(numbers));
        assert_eq!(res.stat, OK);
        res.attrs()
    }

    pub fn size(&mut self, file: &[u8]) -> u64 {
        self.attrs(file, &[attr::SIZE]).size()
    }

    pub fn change(&mut self, file: &[u8]) -> u64 {
        self.attrs(file, &[attr::CHANGE]).change()
    }

    pub fn set(&mut self, file: &[u8], set: &Set) -> Stat {
        self.stat(file, ops::setattr(StateId::ANONYMOUS, set))
    }

    /// All entries of a directory, in pieces of so many bytes.
    pub fn list(&mut self, dir: &[u8], maxcount: u32, attributes: &[u32]) -> Vec<Entry> {
        let mut from = ops::Page { cookie: 0, verifier: [0; 8], dircount: maxcount, maxcount };
        let mut entries = Vec::new();
        loop {
            let res = self.at(dir, ops::readdir(from, attributes));
            assert_eq!(res.stat, OK);
            let listing = res.listing();
            from.verifier = listing.verifier;
            if let Some(last) = listing.entries.last() {
                from.cookie = last.cookie;
            }
            assert!(listing.eof || !listing.entries.is_empty(), "neither entries nor the end");
            entries.extend(listing.entries);
            if listing.eof {
                return entries;
            }
        }
    }

    /// The names of a directory, sorted.
    pub fn names(&mut self, dir: &[u8]) -> Vec<String> {
        let entries = self.list(dir, 32_768, &[]);
        let names = entries.into_iter().map(|entry| String::from_utf8(entry.name));
        let mut names: Vec<_> = names.map(|name| name.expect("UTF-8")).collect();
        names.sort();
        names
    }

    /// Opens a file that another opened too, or did not, as another owner.
    pub fn open_as(&mut self, dir: &[u8], owner: &str, open: Open) -> Result<StateId, Stat> {
        let open = open.owner(owner.as_bytes());
        self.open(dir, &open).map(|(_, opened)| opened.id)
    }

    pub fn truncating(name: &str) -> Open {
        Open::both(name).make(Make::Unchecked(Set::new().size(0)))
    }
}

/// Whether their replies are too large for a cache that need not hold them.
fn reads(ops: &[Op]) -> bool {
    let large = [op::READ, op::READDIR, op::READLINK, op::GETXATTR, op::LISTXATTRS];
    ops.iter().any(|op| large.contains(&op.number))
}

/// A compound outside a session.
pub fn bare(connection: &mut Connection, cred: &Cred, minor: u32, ops: &[Op]) -> Reply {
    reply(connection.call(&Head::compound(cred), &compound(minor, ops)).answer)
}

/// Makes a client known; what the server says of it.
pub fn exchange_id(
    connection: &mut Connection,
    cred: &Cred,
    name: &str,
    life: Verifier,
) -> Exchanged {
    let op = ops_session::exchange_id(life, name.as_bytes(), 0);
    bare(connection, cred, 1, &[op]).ok().last().exchanged()
}
