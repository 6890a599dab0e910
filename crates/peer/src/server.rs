//! The side that is asked.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use weir_types::{ErrorKind, FsError, Result};

use crate::ask::{Answer, Ask, GIVEN_BYTES, Refusal, answer_head};
use crate::frame;
use crate::identity::{Fingerprint, Identity};
use crate::tls::{self, Members};

/// Connections at once, those included that have not proven who they are.
const CONNECTIONS: usize = 1_024;
/// Questions of one connection that are answered at once.
const UNDER_WAY: usize = 32;
/// Questions of all connections that are answered at once.
const UNDER_WAY_ALL: usize = 128;
/// How long who calls may take to prove who it is.
const HANDSHAKE: Duration = Duration::from_secs(5);
/// How long it may take to find out who calls that is not known.
const MEET: Duration = Duration::from_secs(2);
/// How long an answer may take to be found: whoever asked has long gone another way.
const ANSWER: Duration = Duration::from_secs(30);
/// How long an answer may take to be taken.
const WRITE: Duration = Duration::from_secs(30);
/// How long a connection may be without a question.
const IDLE: Duration = Duration::from_secs(300);
/// A pause where no connection can be taken, as when all open files are in use.
const REFUSED: Duration = Duration::from_millis(200);

/// Answers questions.
#[async_trait]
pub trait Handler: Send + Sync {
    /// Answers what the member `from` asks; at most [`GIVEN_BYTES`].
    async fn answer(&self, from: &Fingerprint, ask: Ask) -> Answer;
}

/// Listens, until it is dropped.
pub struct Server {
    address: SocketAddr,
    /// Ends with it, and all connections with that.
    _listening: JoinSet<()>,
}

struct Shared {
    tls: TlsAcceptor,
    members: Arc<dyn Members>,
    handler: Arc<dyn Handler>,
    under_way: Arc<Semaphore>,
}

impl Server {
    /// Listens at `address`; port 0 is any free one.
    ///
    /// # Errors
    /// What the system says where the address is taken, or not this machine's.
    pub async fn listen(
        address: SocketAddr,
        identity: &Identity,
        members: Arc<dyn Members>,
        handler: Arc<dyn Handler>,
    ) -> Result<Self> {
        let at = |e| FsError::local_io(format!("listen for other nodes at {address}"), e);
        let listener = TcpListener::bind(address).await.map_err(at)?;
        let address = listener.local_addr().map_err(at)?;
        let tls = TlsAcceptor::from(tls::server(identity)?);
        let under_way = Arc::new(Semaphore::new(UNDER_WAY_ALL));
        let shared = Arc::new(Shared { tls, members, handler, under_way });
        let mut listening = JoinSet::new();
        listening.spawn(accept_all(listener, shared));
        Ok(Self { address, _listening: listening })
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept_all(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let accepted = listener.accept().await;
        while connections.try_join_next().is_some() {}
        match accepted {
            // One more is closed: whoever called does without.
            Ok(_) if connections.len() >= CONNECTIONS => {}
            Ok((stream, from)) => {
                let shared = shared.clone();
                connections.spawn(async move {
                    if let Err(error) = shared.serve(stream).await {
                        tracing::debug!(%from, %error, "a connection of another node ended");
                    }
                });
            }
            Err(error) => {
                tracing::debug!(%error, "a connection of another node was not taken");
                tokio::time::sleep(REFUSED).await;
            }
        }
    }
}

impl Shared {
    async fn serve(self: Arc<Self>, stream: TcpStream) -> io::Result<()> {
        stream.set_nodelay(true)?;
        let stream = timeout(HANDSHAKE, self.tls.accept(stream)).await??;
        let who = match stream.get_ref().1.peer_certificates() {
            Some([key, ..]) => Fingerprint::of(key),
            _ => return Err(refused("it has no key")),
        };
        let met = timeout(MEET, self.members.meet(&who));
        if !self.members.has(&who) && !met.await.unwrap_or_default() {
            return Err(refused("no session of its key lives"));
        }
        let (mut reader, writer) = tokio::io::split(stream);
        let writer = Arc::new(Mutex::new(writer));
        let turns = Arc::new(Semaphore::new(UNDER_WAY));
        let mut answering = JoinSet::new();
        loop {
            let next = next_ask(&mut reader, &mut answering, &turns);
            let Some((id, body, turn)) = next.await? else { return Ok(()) };
            // It may have been shut out since it called.
            if !self.members.has(&who) {
                return Err(refused("its session has ended"));
            }
            let (shared, writer) = (self.clone(), writer.clone());
            answering.spawn(async move { shared.answer(who, (id, &body), turn, &writer).await });
        }
    }

    async fn answer(
        &self,
        who: Fingerprint,
        (id, body): (u64, &[u8]),
        _turn: OwnedSemaphorePermit,
        writer: &Mutex<impl AsyncWrite + Unpin>,
    ) -> io::Result<()> {
        // Never closed.
        let _turn_of_all = self.under_way.acquire().await;
        let answer = match Ask::decode(body) {
            Some(ask) => timeout(ANSWER, self.handler.answer(&who, ask))
                .await
                .unwrap_or(Answer::Refused(Refusal::Busy)),
            None => Answer::Refused(Refusal::Unknown),
        };
        let (kind, given) = match answer {
            Answer::Given(bytes) if bytes.len() as u64 > GIVEN_BYTES => {
                Answer::Refused(Refusal::Unknown).parts()
            }
            answer => answer.parts(),
        };
        let head = answer_head(id, kind, given.len());
        let mut writer = writer.lock().await;
        timeout(WRITE, async {
            writer.write_all(&head).await?;
            writer.write_all(&given).await?;
            writer.flush().await
        })
        .await?
    }
}

/// The next question, when there is a turn for it; an error as soon as an answer could not be sent.
async fn next_ask(
    reader: &mut (impl AsyncRead + Unpin),
    answering: &mut JoinSet<io::Result<()>>,
    turns: &Arc<Semaphore>,
) -> io::Result<Option<(u64, Bytes, OwnedSemaphorePermit)>> {
    let next = async {
        let turn = turns.clone().acquire_owned().await.map_err(io::Error::other)?;
        let asked = timeout(IDLE, frame::read(reader, frame::ASK_BYTES)).await??;
        Ok(asked.map(|(id, body)| (id, body, turn)))
    };
    tokio::pin!(next);
    loop {
        tokio::select! {
            asked = &mut next => return asked,
            Some(sent) = answering.join_next() => sent.map_err(io::Error::other)??,
        }
    }
}

fn refused(why: &str) -> io::Error {
    io::Error::other(FsError::new(ErrorKind::Permission, why))
}
