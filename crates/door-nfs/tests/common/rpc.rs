//! ONC RPC over TCP (RFC 5531): records, calls and replies, each of which may be wrong on purpose.

use std::collections::{HashMap, VecDeque};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::time::Duration;

use super::xdr::{Reader, Writer};

/// The program of NFS.
pub const NFS: u32 = 100_003;
/// A server that says nothing for this long is taken to hang.
pub const PATIENCE: Duration = Duration::from_secs(40);
const LAST_FRAGMENT: u32 = 1 << 31;

/// Who calls.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cred {
    None,
    Sys {
        uid: u32,
        gid: u32,
        gids: Vec<u32>,
    },
    /// Asks whether there is TLS (RFC 9289).
    Tls,
    /// A flavour and its bytes.
    Raw(u32, Vec<u8>),
}

impl Cred {
    pub fn root() -> Self {
        Self::user(0)
    }

    /// A user with a group of the same number.
    pub fn user(uid: u32) -> Self {
        Self::Sys { uid, gid: uid, gids: Vec::new() }
    }

    fn write(&self, to: Writer) -> Writer {
        let (flavour, body) = match self {
            Cred::None => (0, Vec::new()),
            Cred::Sys { uid, gid, gids } => {
                let body = Writer::new().u32(0x5eed).opaque(b"tester").u32(*uid).u32(*gid);
                (1, body.words(gids).0)
            }
            Cred::Tls => (7, Vec::new()),
            Cred::Raw(flavour, body) => (*flavour, body.clone()),
        };
        to.u32(flavour).opaque(&body)
    }
}

/// What a server says to a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The bytes of the result.
    Done(Vec<u8>),
    NoProgram,
    /// The least and the greatest version of the program that there are.
    NoVersion(u32, u32),
    NoProcedure,
    Garbage,
    SystemError,
    /// The least and the greatest version of RPC that there are.
    NoRpcVersion(u32, u32),
    /// Why (`auth_stat`).
    BadAuth(u32),
}

/// An answer with the verifier before it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Said {
    pub xid: u32,
    pub verifier: (u32, Vec<u8>),
    pub answer: Answer,
}

impl Said {
    fn read(record: &[u8]) -> Self {
        let mut from = Reader::new(record);
        let xid = from.u32();
        assert_eq!(from.u32(), 1, "a reply");
        let mut verifier = (0, Vec::new());
        let answer = if from.u32() == 0 {
            verifier = (from.u32(), from.opaque());
            match from.u32() {
                0 => Answer::Done(from.rest().to_vec()),
                1 => Answer::NoProgram,
                2 => Answer::NoVersion(from.u32(), from.u32()),
                3 => Answer::NoProcedure,
                4 => Answer::Garbage,
                5 => Answer::SystemError,
                other => panic!("{other} is no accept_stat"),
            }
        } else {
            match from.u32() {
                0 => Answer::NoRpcVersion(from.u32(), from.u32()),
                1 => Answer::BadAuth(from.u32()),
                other => panic!("{other} is no reject_stat"),
            }
        };
        from.assert_empty();
        Self { xid, verifier, answer }
    }
}

/// The head of a call.
#[derive(Clone, Debug)]
pub struct Head {
    pub rpc: u32,
    pub program: u32,
    pub version: u32,
    pub procedure: u32,
    pub cred: Cred,
}

impl Head {
    /// A compound by somebody.
    pub fn compound(cred: &Cred) -> Self {
        Self { rpc: 2, program: NFS, version: 4, procedure: 1, cred: cred.clone() }
    }

    /// A call that does nothing.
    pub fn null(cred: Cred) -> Self {
        Self { procedure: 0, ..Self::compound(&cred) }
    }

    /// The record of a call.
    pub fn record(&self, xid: u32, arguments: &[u8]) -> Vec<u8> {
        let head = Writer::new().u32(xid).u32(0).u32(self.rpc);
        let head = head.u32(self.program).u32(self.version).u32(self.procedure);
        let mut record = Cred::None.write(self.cred.write(head)).0;
        record.extend(arguments);
        record
    }
}

fn is_call(record: &[u8]) -> bool {
    let mut from = Reader::new(record);
    from.u32();
    from.u32() == 0
}

/// What carries bytes: TCP, or TLS over it.
pub trait Wire: Read + Write + Send {}

impl<T: Read + Write + Send> Wire for T {}

/// One connection. Replies may come in any order.
pub struct Connection {
    tcp: TcpStream,
    wire: Box<dyn Wire>,
    next_xid: u32,
    early: HashMap<u32, Said>,
    /// What the server asked.
    asked: VecDeque<Vec<u8>>,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).expect("connects"))
    }

    /// To a server that may be away: nothing where it does not answer within this time. Replies are waited for
    /// as long.
    pub fn open_within(address: SocketAddr, time: Duration) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&address, time).ok()?;
        let connection = Self::over(stream);
        connection.tcp.set_read_timeout(Some(time)).expect("a timeout");
        Some(connection)
    }

    /// Over one that is there.
    pub fn over(stream: TcpStream) -> Self {
        stream.set_nodelay(true).expect("no delay");
        stream.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        stream.set_write_timeout(Some(PATIENCE)).expect("a timeout");
        let tcp = stream.try_clone().expect("a second handle");
        Self {
            tcp,
            wire: Box::new(stream),
            next_xid: 0x0001_0000,
            early: HashMap::new(),
            asked: VecDeque::new(),
        }
    }

    /// Goes on over another wire that is made of this connection's; false if that fails.
    pub fn wrap(&mut self, wrap: impl FnOnce(TcpStream) -> Option<Box<dyn Wire>>) -> bool {
        let wrapped = wrap(self.tcp.try_clone().expect("a second handle"));
        let done = wrapped.is_some();
        if let Some(wire) = wrapped {
            self.wire = wire;
        }
        done
    }

    /// Sends no more; what was sent is answered yet.
    pub fn end_sending(&self) {
        self.tcp.shutdown(Shutdown::Write).expect("shuts down");
    }

    /// A number that no call had.
    pub fn xid(&mut self) -> u32 {
        self.next_xid += 1;
        self.next_xid
    }

    /// Sends bytes as they are; false if the server has closed.
    pub fn send_raw(&mut self, bytes: &[u8]) -> bool {
        let sent = self.wire.write_all(bytes).and_then(|()| self.wire.flush());
        match sent {
            Ok(()) => true,
            Err(error) => {
                let silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!silent, "the server reads nothing");
                false
            }
        }
    }

    pub fn send_record(&mut self, record: &[u8]) -> bool {
        self.send_fragments(record, &[])
    }

    /// The same in fragments of these lengths, and one of the rest.
    pub fn send_fragments(&mut self, record: &[u8], lengths: &[usize]) -> bool {
        let mut bytes = Vec::with_capacity(record.len() + 4);
        let mut rest = record;
        for len in lengths {
            let (fragment, after) = rest.split_at((*len).min(rest.len()));
            bytes.extend((fragment.len() as u32).to_be_bytes());
            bytes.extend(fragment);
            rest = after;
        }
        bytes.extend((rest.len() as u32 | LAST_FRAGMENT).to_be_bytes());
        bytes.extend(rest);
        self.send_raw(&bytes)
    }

    /// Sends a call; its number.
    pub fn send(&mut self, head: &Head, arguments: &[u8]) -> u32 {
        let xid = self.xid();
        assert!(self.send_record(&head.record(xid, arguments)), "the server has closed");
        xid
    }

    /// The next record, or nothing if the server has closed.
    pub fn record(&mut self) -> Option<Vec<u8>> {
        let mut record = Vec::new();
        loop {
            let mut mark = [0; 4];
            if let Err(error) = self.wire.read_exact(&mut mark) {
                let silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!silent, "the server is silent");
                return None;
            }
            let mark = u32::from_be_bytes(mark);
            let len = (mark & !LAST_FRAGMENT) as usize;
            assert!(len <= 64 << 20, "a fragment of {len} bytes");
            let before = record.len();
            record.resize(before + len, 0);
            self.wire.read_exact(&mut record[before..]).expect("all of the fragment");
            if mark & LAST_FRAGMENT != 0 {
                return Some(record);
            }
        }
    }

    /// Reads on, whatever it is; false at the end.
    pub fn read_some(&mut self) -> bool {
        match self.wire.read(&mut [0; 1_024]) {
            Ok(len) => len > 0,
            Err(error) => {
                let silent = matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::TimedOut);
                assert!(!silent, "the server is silent");
                false
            }
        }
    }

    /// The next reply, whatever the call; nothing if the server has closed.
    pub fn next(&mut self) -> Option<Said> {
        loop {
            let record = self.record()?;
            if !is_call(&record) {
                return Some(Said::read(&record));
            }
            self.asked.push_back(record);
        }
    }

    /// What the server asks next: the number of its call, and the record behind that. Replies may come before it.
    pub fn asked(&mut self) -> (u32, Vec<u8>) {
        while self.asked.is_empty() {
            let record = self.record().expect("a call, not the end");
            if is_call(&record) {
                self.asked.push_back(record);
            } else {
                let said = Said::read(&record);
                assert!(self.early.insert(said.xid, said).is_none(), "two replies to one call");
            }
        }
        let record = self.asked.pop_front().expect("there is one");
        let mut from = Reader::new(&record);
        (from.u32(), from.rest().to_vec())
    }

    /// Whether the server asked anything that was not looked at, as far as replies were read.
    pub fn was_asked(&self) -> bool {
        !self.asked.is_empty()
    }

    /// The reply to a call, or nothing if the server has closed.
    pub fn try_receive(&mut self, xid: u32) -> Option<Said> {
        if let Some(said) = self.early.remove(&xid) {
            return Some(said);
        }
        loop {
            let said = self.next()?;
            if said.xid == xid {
                return Some(said);
            }
            assert!(self.early.insert(said.xid, said).is_none(), "two replies to one call");
        }
    }

    pub fn receive(&mut self, xid: u32) -> Said {
        self.try_receive(xid).expect("a reply, not the end")
    }

    pub fn call(&mut self, head: &Head, arguments: &[u8]) -> Said {
        let xid = self.send(head, arguments);
        self.receive(xid)
    }

    /// Nothing more comes, and the server has closed.
    pub fn assert_closed(&mut self) {
        assert_eq!(self.next(), None);
    }
}
