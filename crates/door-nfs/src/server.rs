//! Listening, and what becomes of each connection.

use std::collections::HashMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::net::sockopt;
use tokio::io::AsyncWriteExt;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedRwLockWriteGuard, watch};
use tokio::task::{JoinHandle, JoinSet};
use weir_engine::{Bytes, Engine, OtherDoor};
use weir_tls::{Spoken, TlsAcceptor};
use weir_types::{ErrorKind, FsError, Result, UnixTime};

use crate::books::Books;
use crate::connection::{End, Line, serve, stopped};
use crate::counts::{ClientView, Counts, NfsCounts};
use crate::exports::Exports;
use crate::handle::HandleKey;
use crate::memory::Memory;
use crate::options::{Export, NfsOptions};
use crate::protocol::numbers::RECORD_BYTES_MAX;
use crate::server_state::{Lists, ServerState};
use crate::state::held::Tally;
use crate::uses::{UseView, Uses};

/// The row of the key by which handles are proven.
const KEY_ROW: &str = "nfs/key";
const KEY_BYTES: usize = 32;
/// What is spoken below TLS (RFC 9289, 8.2).
const TLS_PROTOCOL: &[u8] = b"sunrpc";
/// A client has this long to begin TLS.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// Before the next try where there are too many open files.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);
/// How often silent clients are looked for.
const TEND_EVERY: Duration = Duration::from_secs(1);
/// After so long without a word the kernel asks whether a client is there, and as long later it is not.
const SILENCE: Duration = Duration::from_secs(60);
/// Connections at once, at most.
const CONNECTIONS_MAX: usize = 10_000;

/// A server that listens and answers nobody yet: who connects waits.
pub struct BoundNfs {
    listener: TcpListener,
    address: SocketAddr,
    tls: Option<TlsAcceptor>,
    memory_bytes: u64,
    state: Arc<ServerState>,
}

/// A server that does nothing as long as this is there: requests wait.
pub struct NfsHeld(
    #[expect(dead_code, reason = "it is let go when this is")] OwnedRwLockWriteGuard<()>,
);

/// A server that answers until it is stopped or dropped.
pub struct NfsServer {
    address: SocketAddr,
    state: Arc<ServerState>,
    stop: watch::Sender<bool>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl BoundNfs {
    /// Listens. Fails where the address cannot be had, a certificate cannot be read, or the metadata is away.
    /// Two reads of the metadata; a commit the first time.
    pub async fn new(engine: Arc<Engine>, options: NfsOptions) -> Result<BoundNfs> {
        let spoken = Spoken { only_newest: true, protocol: Some(TLS_PROTOCOL) };
        let tls =
            options.tls.as_ref().map(|tls| weir_tls::acceptor(&tls.files, spoken)).transpose()?;
        let listener = TcpListener::bind(options.listen).await.map_err(|error| {
            FsError::local_io(format!("NFS cannot listen on {}", options.listen), error)
        })?;
        let address =
            listener.local_addr().map_err(|error| FsError::local_io("NFS's address", error))?;
        let memory_bytes = options.memory_bytes;
        let state = Arc::new(state(engine, options).await?);
        Ok(BoundNfs { listener, address, tls, memory_bytes, state })
    }

    /// Answers in tasks of the runtime that it is called in. What clients change is told to the door beside it
    /// before they have their answer.
    pub fn serve(self, beside: Option<Arc<dyn OtherDoor>>) -> NfsServer {
        let BoundNfs { listener, address, tls, memory_bytes, state } = self;
        if let Some(beside) = beside {
            // Set here, once.
            drop(state.beside.set(beside));
        }
        let (stop, stopping) = watch::channel(false);
        // One half is for requests, the other for answers.
        let memory = || Memory::new(memory_bytes / 2, RECORD_BYTES_MAX);
        let (requests, answers) = (memory(), memory());
        let accepting = Accepting { state: state.clone(), tls, requests, answers, stop: stopping };
        let tending = tokio::spawn(tend(state.clone(), stop.subscribe()));
        let tasks = vec![tokio::spawn(accepting.run(listener)), tending];
        NfsServer { address, state, stop, tasks: Mutex::new(tasks) }
    }
}

impl NfsServer {
    /// Listens and answers, beside no other door; as [`BoundNfs::new`] and [`BoundNfs::serve`].
    pub async fn start(engine: Arc<Engine>, options: NfsOptions) -> Result<NfsServer> {
        Ok(BoundNfs::new(engine, options).await?.serve(None))
    }

    /// Has the server do nothing: requests under way end, and those that come wait. `Retry` if that takes longer
    /// than `limit`; it goes on then.
    pub async fn hold(&self, limit: Duration) -> Result<NfsHeld> {
        let alone = self.state.under_way.clone().write_owned();
        tokio::time::timeout(limit, alone).await.map(NfsHeld).map_err(|_| {
            let text = format!(
                "requests of NFS clients did not end within {} s: they may wait for the bucket",
                limit.as_secs()
            );
            FsError::new(ErrorKind::Retry, text)
        })
    }

    /// Where it listens, with the port that was chosen where that was 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What it did so far.
    pub fn counts(&self) -> NfsCounts {
        self.state.counts.get()
    }

    /// What clients did, by address and export, those too that are gone.
    pub fn uses(&self) -> Vec<UseView> {
        self.state.uses.all()
    }

    /// Exports these from now on, and nothing else.
    pub fn set_exports(&self, exports: Vec<Export>) {
        self.state.exports.set(exports);
    }

    /// The clients that it knows.
    pub fn clients(&self) -> Vec<ClientView> {
        let now = tokio::time::Instant::now();
        let all = self.state.books.lock();
        let confirmed = all.clients.by_id.values().filter(|client| client.confirmed);
        confirmed
            .map(|client| {
                let Tally { opens, locks } = all.held.tally(client.id);
                ClientView {
                    id: client.id,
                    address: client.address.to_string(),
                    name: String::from_utf8_lossy(&client.owner).into_owned(),
                    since: client.since,
                    silent_ms: now.duration_since(client.seen).as_millis() as u64,
                    expired: all.clients.is_expired(client.id, now),
                    tls: client.tls,
                    opens: opens as u64,
                    delegations: all.held.delegations.count(client.id) as u64,
                    locks: locks as u64,
                    requests: client.requests,
                    bytes_read: client.bytes_read,
                    bytes_written: client.bytes_written,
                }
            })
            .collect()
    }

    /// Whether clients of before are waited for.
    pub fn is_in_grace(&self) -> bool {
        self.state.books.lock().grace.is_on()
    }

    /// Takes no more connections, answers what is under way, and closes the others. Clients keep what they hold:
    /// they claim it from the server that comes next.
    pub async fn stop(&self) {
        self.state.stopping.store(true, Ordering::Release);
        self.stop.send_replace(true);
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            if let Err(error) = task.await {
                tracing::error!("a task of NFS failed: {error}");
            }
        }
        self.state.books.leave().await;
    }
}

impl Drop for NfsServer {
    fn drop(&mut self) {
        self.state.stopping.store(true, Ordering::Release);
        self.stop.send_replace(true);
    }
}

async fn state(engine: Arc<Engine>, options: NfsOptions) -> Result<ServerState> {
    let volume = engine.volume_id();
    let digest = aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, volume.as_bytes());
    let fsid = digest.as_ref().iter().take(8).fold(0, |all, byte| all << 8 | u64::from(*byte));
    let key = key(&engine, options.read_only).await?;
    let verifier = random::<8>()?;
    let lease = Duration::from_millis(options.lease_ms);
    let draw = Box::new(|| u64::from_be_bytes(random().unwrap_or_default()));
    let most = (options.opens_max, options.delegations_max);
    let books = Books::open(engine.clone(), (lease, most), options.read_only, draw).await?;
    let tls_required = options.tls.as_ref().is_some_and(|tls| tls.required);
    let began: UnixTime = (options.now)();
    Ok(ServerState {
        engine,
        books,
        exports: Exports::new(options.exports, tls_required),
        handles: HandleKey::new(&key),
        counts: Counts::default(),
        uses: Uses::default(),
        read_only: options.read_only,
        manage_gids: options.manage_gids,
        now: options.now,
        fsid,
        verifier,
        scope: format!("weir {volume}"),
        began,
        stopping: AtomicBool::new(false),
        lists: Lists::default(),
        beside: OnceLock::new(),
        under_way: Arc::default(),
    })
}

fn random<const N: usize>() -> Result<[u8; N]> {
    let mut bytes = [0; N];
    aws_lc_rs::rand::fill(&mut bytes).map_err(|_| {
        let text = "the machine gives no random numbers: look at /dev/urandom";
        FsError::new(ErrorKind::Retry, text)
    })?;
    Ok(bytes)
}

/// The key by which handles are proven: the volume's own, so that they are good after restarts and elsewhere.
async fn key(engine: &Engine, read_only: bool) -> Result<Bytes> {
    if let Some((_, key)) = engine.kept(KEY_ROW).await?.into_iter().next() {
        return Ok(key);
    }
    if read_only {
        // A volume that only is read has no room for one.
        return Ok(engine.volume_id().into_bytes().into());
    }
    let key = Bytes::copy_from_slice(&random::<KEY_BYTES>()?);
    engine.keep(vec![(KEY_ROW.into(), Some(key.clone()))]).await?;
    Ok(key)
}

async fn tend(state: Arc<ServerState>, mut stop: watch::Receiver<bool>) {
    loop {
        let is_over = tokio::time::timeout(TEND_EVERY, stopped(&mut stop)).await.is_ok();
        if is_over {
            return;
        }
        state.books.tend().await;
    }
}

/// Takes connections.
struct Accepting {
    state: Arc<ServerState>,
    tls: Option<TlsAcceptor>,
    requests: Memory,
    answers: Memory,
    stop: watch::Receiver<bool>,
}

impl Accepting {
    async fn run(self, listener: TcpListener) {
        let mut connections = JoinSet::new();
        let mut shares = HashMap::new();
        let mut stop = self.stop.clone();
        loop {
            tokio::select! {
                biased;
                () = stopped(&mut stop) => break,
                Some(_) = connections.join_next() => {}
                accepted = listener.accept() => match accepted {
                    Ok((stream, peer)) if connections.len() < CONNECTIONS_MAX => {
                        let line = self.line(peer, &mut shares);
                        connections.spawn(connect(line, stream, self.tls.clone()));
                    }
                    Ok(_) => tracing::warn!("NFS refuses a client: it has as many as it takes"),
                    Err(error) => {
                        tracing::warn!("NFS cannot take a connection: {error}");
                        tokio::time::sleep(ACCEPT_WAIT).await;
                    }
                },
            }
        }
        drop(listener);
        while connections.join_next().await.is_some() {}
    }

    /// All connections of one address have one share of the memory.
    fn line(&self, peer: SocketAddr, shares: &mut Shares) -> Line {
        shares.retain(|_, (requests, _)| requests.is_used());
        let new = || (self.requests.of_another(), self.answers.of_another());
        let (requests, answers) = shares.entry(peer.ip()).or_insert_with(new).clone();
        let (server, stop) = (self.state.clone(), self.stop.clone());
        let can_tls = self.tls.is_some();
        Line { server, peer, tls: false, requests, answers, stop, can_tls }
    }
}

/// The memory of each address, for requests and for answers.
type Shares = HashMap<IpAddr, (Memory, Memory)>;

/// Has the kernel end connections to machines that do not answer it any more.
fn notice_silence(stream: &TcpStream) -> std::io::Result<()> {
    sockopt::set_socket_keepalive(stream, true)?;
    sockopt::set_tcp_keepidle(stream, SILENCE)?;
    sockopt::set_tcp_keepintvl(stream, SILENCE / 4)?;
    sockopt::set_tcp_keepcnt(stream, 4)?;
    sockopt::set_tcp_user_timeout(stream, 2 * SILENCE.as_millis() as u32)?;
    Ok(())
}

async fn connect(mut line: Line, mut stream: TcpStream, tls: Option<TlsAcceptor>) {
    // Answers go out as they are ready; without this they only wait longer.
    let _ = stream.set_nodelay(true);
    if let Err(error) = notice_silence(&stream) {
        tracing::debug!(peer = %line.peer, "a client that goes silent is noticed late: {error}");
    }
    let counts = line.server.clone();
    counts.counts.connections.fetch_add(1, Ordering::Relaxed);
    counts.counts.connections_total.fetch_add(1, Ordering::Relaxed);
    let end = {
        let (mut input, mut output) = stream.split();
        serve(&line, &mut tokio::io::BufReader::new(&mut input), &mut output).await
    };
    if let (End::StartTls, Some(tls)) = (end, tls) {
        match tokio::time::timeout(HANDSHAKE_WAIT, tls.accept(stream)).await {
            Ok(Ok(stream)) => {
                (line.tls, line.can_tls) = (true, false);
                let (input, mut output) = tokio::io::split(stream);
                serve(&line, &mut tokio::io::BufReader::new(input), &mut output).await;
                let _ = output.shutdown().await;
            }
            Ok(Err(error)) => tracing::info!(peer = %line.peer, "NFS: no TLS: {error}"),
            Err(_) => tracing::info!(peer = %line.peer, "NFS: TLS was not begun in time"),
        }
    }
    counts.counts.connections.fetch_sub(1, Ordering::Relaxed);
}
