//! A small NBD client, which does as it is told, wrong things too.

use std::collections::HashMap;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;
use weir_door_block::NbdServer;

pub const ACK: u32 = 1;
pub const SERVER: u32 = 2;
pub const INFO: u32 = 3;
pub const ERR_UNSUP: u32 = 1 << 31 | 1;
pub const ERR_POLICY: u32 = 1 << 31 | 2;
pub const ERR_INVALID: u32 = 1 << 31 | 3;
pub const ERR_TLS_REQD: u32 = 1 << 31 | 5;
pub const ERR_UNKNOWN: u32 = 1 << 31 | 6;
pub const ERR_TOO_BIG: u32 = 1 << 31 | 9;

pub const READ: u16 = 0;
pub const WRITE: u16 = 1;
pub const DISC: u16 = 2;
pub const FLUSH: u16 = 3;
pub const TRIM: u16 = 4;
pub const CACHE: u16 = 5;
pub const ZEROES: u16 = 6;
pub const STATUS: u16 = 7;

pub const FUA: u16 = 1;
pub const DF: u16 = 4;
pub const ONE: u16 = 8;
pub const FAST: u16 = 16;
pub const PAYLOAD: u16 = 32;

pub const EPERM: u32 = 1;
pub const EINVAL: u32 = 22;
pub const ENOSPC: u32 = 28;
pub const ENOTSUP: u32 = 95;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Style {
    Simple,
    Structured,
    Extended,
}

/// One reply, of whatever kind.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Reply {
    pub cookie: u64,
    pub error: u32,
    pub text: String,
    pub data: Vec<u8>,
    /// Length and flags of each.
    pub extents: Vec<(u64, u64)>,
}

pub struct Client<S> {
    pub stream: S,
    pub style: Style,
    next_cookie: u64,
    reads: HashMap<u64, u64>,
}

impl Client<TcpStream> {
    /// Connects and is greeted.
    pub async fn connect(server: &NbdServer) -> Self {
        let stream =
            TcpStream::connect(server.address().expect("listens")).await.expect("connects");
        stream.set_nodelay(true).expect("no delay");
        let mut client = Client::over(stream);
        let mut greeting = [0; 18];
        client.stream.read_exact(&mut greeting).await.expect("is greeted");
        assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
        client.send(&3u32.to_be_bytes()).await;
        client
    }

    /// Goes as far as transmission.
    pub async fn with(server: &NbdServer, name: &str, style: Style) -> Self {
        let mut client = Self::connect(server).await;
        client.agree(name, style).await;
        client
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub fn over(stream: S) -> Self {
        Client { stream, style: Style::Simple, next_cookie: 0x1111_0000, reads: HashMap::new() }
    }

    pub async fn send(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).await.expect("sends");
        self.stream.flush().await.expect("sends");
    }

    async fn take<const N: usize>(&mut self) -> [u8; N] {
        let mut bytes = [0; N];
        self.stream.read_exact(&mut bytes).await.expect("receives");
        bytes
    }

    async fn u16(&mut self) -> u16 {
        u16::from_be_bytes(self.take().await)
    }

    async fn u32(&mut self) -> u32 {
        u32::from_be_bytes(self.take().await)
    }

    async fn u64(&mut self) -> u64 {
        u64::from_be_bytes(self.take().await)
    }

    async fn bytes(&mut self, len: u64) -> Vec<u8> {
        let mut bytes = vec![0; len as usize];
        self.stream.read_exact(&mut bytes).await.expect("receives");
        bytes
    }

    /// Nothing more comes, and the server has closed.
    pub async fn assert_closed(mut self) {
        let mut rest = Vec::new();
        // A reset says so too: bytes that the server did not read were on their way.
        let _ = self.stream.read_to_end(&mut rest).await;
        assert!(rest.is_empty(), "{rest:?}");
    }

    pub async fn send_option(&mut self, number: u32, data: &[u8]) {
        let len = (data.len() as u32).to_be_bytes();
        self.send(&[b"IHAVEOPT", &number.to_be_bytes()[..], &len, data].concat()).await;
    }

    /// One answer: its kind and data.
    pub async fn answer(&mut self, number: u32) -> (u32, Vec<u8>) {
        assert_eq!(self.u64().await, 0x0003_e889_0455_65a9);
        assert_eq!(self.u32().await, number);
        let kind = self.u32().await;
        let len = self.u32().await;
        (kind, self.bytes(len.into()).await)
    }

    /// Sends an option and takes all answers.
    pub async fn option(&mut self, number: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
        self.send_option(number, data).await;
        let mut answers = Vec::new();
        loop {
            answers.push(self.answer(number).await);
            let (kind, _) = answers.last().expect("one");
            if *kind == ACK || kind >> 31 == 1 {
                return answers;
            }
        }
    }

    /// The kind of the last answer to an option.
    pub async fn option_kind(&mut self, number: u32, data: &[u8]) -> u32 {
        self.option(number, data).await.last().expect("an answer").0
    }

    /// As [`Client::go`], after the options for a style; block status too.
    pub async fn agree(&mut self, name: &str, style: Style) -> (u64, u16) {
        match style {
            Style::Simple => {}
            Style::Structured => assert_eq!(self.option_kind(8, b"").await, ACK),
            Style::Extended => assert_eq!(self.option_kind(11, b"").await, ACK),
        }
        self.style = style;
        if style != Style::Simple {
            let answers = self.option(10, &meta(name, &["base:allocation"])).await;
            assert_eq!(answers[0], (4, b"\0\0\0\x01base:allocation".to_vec()));
        }
        self.go(name).await
    }

    /// Begins transmission; answers the disk's size and flags.
    pub async fn go(&mut self, name: &str) -> (u64, u16) {
        let answers = self.option(7, &info(name, &[])).await;
        assert_eq!(answers.len(), 2, "{answers:?}");
        assert_eq!((answers[0].0, answers[1].0), (INFO, ACK));
        let export = &answers[0].1;
        assert_eq!(export.len(), 12);
        let size = u64::from_be_bytes(export[2..10].try_into().expect("eight"));
        (size, u16::from_be_bytes(export[10..].try_into().expect("two")))
    }

    pub fn header(&mut self, command: u16, flags: u16, offset: u64, len: u64) -> Vec<u8> {
        self.next_cookie += 1;
        if command == READ {
            self.reads.insert(self.next_cookie, len);
        }
        let extended = self.style == Style::Extended;
        let magic = if extended { 0x21e4_1c71u32 } else { 0x2560_9513 };
        let mut bytes = magic.to_be_bytes().to_vec();
        bytes.extend(flags.to_be_bytes());
        bytes.extend(command.to_be_bytes());
        bytes.extend(self.next_cookie.to_be_bytes());
        bytes.extend(offset.to_be_bytes());
        match extended {
            true => bytes.extend(len.to_be_bytes()),
            false => bytes.extend((len as u32).to_be_bytes()),
        }
        bytes
    }

    pub async fn read(&mut self, offset: u64, len: u64) -> Vec<u8> {
        let reply = self.call(READ, 0, offset, len).await;
        assert_eq!(reply.error, 0, "{}", reply.text);
        reply.data
    }

    pub async fn write(&mut self, flags: u16, offset: u64, data: &[u8]) -> Reply {
        let mut bytes = self.header(WRITE, flags, offset, data.len() as u64);
        bytes.extend_from_slice(data);
        self.send(&bytes).await;
        self.own_reply().await
    }

    /// A request without data, and the reply to it.
    pub async fn call(&mut self, command: u16, flags: u16, offset: u64, len: u64) -> Reply {
        let bytes = self.header(command, flags, offset, len);
        self.send(&bytes).await;
        self.own_reply().await
    }

    async fn own_reply(&mut self) -> Reply {
        let reply = self.reply().await;
        assert_eq!(reply.cookie, self.next_cookie);
        reply
    }

    pub async fn reply(&mut self) -> Reply {
        let magic = self.u32().await;
        if magic == 0x6744_6698 {
            assert!(self.style == Style::Simple);
            let error = self.u32().await;
            let cookie = self.u64().await;
            let len = self.reads.remove(&cookie).filter(|_| error == 0).unwrap_or(0);
            return Reply { cookie, error, data: self.bytes(len).await, ..Reply::default() };
        }
        let extended = magic == 0x6e8a_278c;
        assert!(extended || magic == 0x668e_33ef, "{magic:#x}");
        assert_eq!(extended, self.style == Style::Extended);
        assert_eq!(self.u16().await, 1, "the only chunk");
        let kind = self.u16().await;
        let cookie = self.u64().await;
        let len = match extended {
            true => {
                self.u64().await;
                self.u64().await
            }
            false => self.u32().await.into(),
        };
        let wanted = self.reads.remove(&cookie);
        let mut reply = Reply { cookie, ..Reply::default() };
        match kind {
            0 => assert_eq!(len, 0),
            1 => {
                self.u64().await;
                assert_eq!(wanted, Some(len - 8));
                reply.data = self.bytes(len - 8).await;
            }
            5 | 6 => reply.extents = self.extents(extended, len).await,
            _ => {
                assert_eq!(kind, 1 << 15 | 1);
                reply.error = self.u32().await;
                let text = self.u16().await;
                assert_eq!(len, 6 + u64::from(text));
                reply.text = String::from_utf8(self.bytes(text.into()).await).expect("UTF-8");
            }
        }
        reply
    }

    async fn extents(&mut self, extended: bool, len: u64) -> Vec<(u64, u64)> {
        assert_eq!(self.u32().await, 1, "the context");
        let mut extents = Vec::new();
        if extended {
            let count = self.u32().await;
            assert_eq!(len, 8 + 16 * u64::from(count));
            for _ in 0..count {
                extents.push((self.u64().await, self.u64().await));
            }
        } else {
            for _ in 0..(len - 4) / 8 {
                extents.push((self.u32().await.into(), self.u32().await.into()));
            }
        }
        extents
    }
}

/// The data of INFO and GO.
pub fn info(name: &str, wanted: &[u16]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend((wanted.len() as u16).to_be_bytes());
    data.extend(wanted.iter().flat_map(|number| number.to_be_bytes()));
    data
}

/// The data of SET_META_CONTEXT and LIST_META_CONTEXT.
pub fn meta(name: &str, queries: &[&str]) -> Vec<u8> {
    let mut data = (name.len() as u32).to_be_bytes().to_vec();
    data.extend_from_slice(name.as_bytes());
    data.extend((queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend((query.len() as u32).to_be_bytes());
        data.extend_from_slice(query.as_bytes());
    }
    data
}
