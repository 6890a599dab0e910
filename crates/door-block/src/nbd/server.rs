//! Listening, and what becomes of each connection.

use std::fs::Permissions;
use std::io;
use std::net::SocketAddr;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{TcpListener, TcpStream, UnixListener, UnixStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use weir_engine::Engine;
use weir_tls::{Spoken, TlsAcceptor, TlsStream, acceptor};
use weir_types::{ErrorKind, FsError, Result};

use super::connection::{Memory, Terms, serve, stopped};
use super::handshake::{Handshake, Negotiated, Tls, greet};
use super::options::NbdOptions;
use super::session::{Agreed, Session};
use crate::BlockCounts;
use crate::counts::Counts;

/// A client has this long to name a disk.
const HANDSHAKE_WAIT: Duration = Duration::from_secs(10);
/// Before the next try where there are too many open files.
const ACCEPT_WAIT: Duration = Duration::from_millis(100);

/// Connections at once, at most.
const CONNECTIONS_MAX: usize = 1_000;

/// A server that answers until it is stopped or dropped.
pub struct NbdServer {
    address: Option<SocketAddr>,
    counts: Arc<Counts>,
    stop: watch::Sender<bool>,
    listeners: Mutex<Vec<JoinHandle<()>>>,
}

/// What all connections work with.
struct Serving {
    engine: Arc<Engine>,
    counts: Arc<Counts>,
    read_only: bool,
    stop: watch::Receiver<bool>,
    memory: Memory,
    slots: Slots,
}

impl NbdServer {
    /// Listens and answers in tasks of the runtime that it is called in. Fails where an address
    /// cannot be had or a certificate cannot be read.
    pub async fn start(engine: Arc<Engine>, options: NbdOptions) -> Result<NbdServer> {
        let tls =
            options.tls.as_ref().map(|files| acceptor(files, Spoken::default())).transpose()?;
        let tcp = match options.listen {
            Some(address) => Some(TcpListener::bind(address).await.map_err(|error| {
                FsError::local_io(format!("NBD cannot listen on {address}"), error)
            })?),
            None => None,
        };
        let unix = options.unix.as_deref().map(bind_unix).transpose()?;
        let address = match &tcp {
            Some(tcp) => {
                Some(tcp.local_addr().map_err(|error| FsError::local_io("NBD's address", error))?)
            }
            None => None,
        };
        if let Some(address) = address.filter(|at| !at.ip().is_loopback() && tls.is_none()) {
            tracing::warn!(%address, "NBD without TLS: whoever reaches this address has all disks");
        }
        let counts = Arc::new(Counts::default());
        let (stop, stopping) = watch::channel(false);
        let shared = Arc::new(Serving {
            engine,
            counts: counts.clone(),
            read_only: options.read_only,
            stop: stopping,
            memory: Memory::new(options.memory_bytes),
            slots: Slots::new(CONNECTIONS_MAX),
        });
        let mut listeners = Vec::new();
        if let Some(tcp) = tcp {
            listeners.push(tokio::spawn(accept_tcp(tcp, tls, shared.clone())));
        }
        if let Some((unix, file)) = unix {
            listeners.push(tokio::spawn(accept_unix(unix, file, shared)));
        }
        Ok(NbdServer { address, counts, stop, listeners: Mutex::new(listeners) })
    }

    /// The address of [`NbdOptions::listen`], with the port that was chosen where that was 0.
    pub fn address(&self) -> Option<SocketAddr> {
        self.address
    }

    /// What it did so far.
    pub fn counts(&self) -> BlockCounts {
        self.counts.get()
    }

    /// Takes no more connections, answers what is under way, and closes the others. What clients
    /// had not flushed stays with the engine.
    pub async fn stop(&self) {
        self.stop.send_replace(true);
        let listeners = {
            let mut listeners = self.listeners.lock();
            std::mem::take(&mut *listeners)
        };
        for listener in listeners {
            if let Err(error) = listener.await {
                tracing::error!("an NBD listener failed: {error}");
            }
        }
    }
}

async fn accept_tcp(listener: TcpListener, tls: Option<TlsAcceptor>, shared: Arc<Serving>) {
    let mut connections = JoinSet::new();
    while let Some(accepted) = next(listener.accept(), &shared, &mut connections).await {
        if let Some((stream, peer)) = usable(accepted).await
            && let Some(slot) = shared.slots.take()
        {
            let (tls, shared) = (tls.clone(), shared.clone());
            connections.spawn(async move {
                shared.tcp(stream, tls, &peer.to_string()).await;
                drop(slot);
            });
        }
    }
    drop(listener);
    while connections.join_next().await.is_some() {}
}

async fn accept_unix(listener: UnixListener, file: SocketFile, shared: Arc<Serving>) {
    let mut connections = JoinSet::new();
    while let Some(accepted) = next(listener.accept(), &shared, &mut connections).await {
        if let Some((stream, _)) = usable(accepted).await
            && let Some(slot) = shared.slots.take()
        {
            let shared = shared.clone();
            connections.spawn(async move {
                shared.unix(stream).await;
                drop(slot);
            });
        }
    }
    drop((listener, file));
    while connections.join_next().await.is_some() {}
}

/// The next connection; `None` when the server ends. Lets go of those that ended meanwhile.
async fn next<T>(
    accept: impl Future<Output = io::Result<T>>,
    shared: &Serving,
    connections: &mut JoinSet<()>,
) -> Option<io::Result<T>> {
    tokio::pin!(accept);
    let stop = stopped(shared.stop.clone());
    tokio::pin!(stop);
    loop {
        tokio::select! {
            () = &mut stop => return None,
            Some(_) = connections.join_next() => {}
            accepted = &mut accept => return Some(accepted),
        }
    }
}

async fn usable<T>(accepted: io::Result<T>) -> Option<T> {
    match accepted {
        Ok(accepted) => Some(accepted),
        Err(error) => {
            tracing::warn!("NBD cannot take a connection: {error}");
            tokio::time::sleep(ACCEPT_WAIT).await;
            None
        }
    }
}

impl Serving {
    async fn tcp(&self, stream: TcpStream, tls: Option<TlsAcceptor>, peer: &str) {
        // Replies go out as they are ready; without this they only wait longer.
        let _ = stream.set_nodelay(true);
        match self.agree(self.tcp_handshake(stream, tls)).await {
            Ok(Some((agreed, Client::Plain(stream)))) => {
                let (input, output) = stream.into_split();
                self.transmit(input, output, agreed, peer).await;
            }
            Ok(Some((agreed, Client::Tls(stream)))) => {
                let (input, output) = tokio::io::split(stream);
                self.transmit(input, output, agreed, peer).await;
            }
            Ok(None) => {}
            Err(error) => tracing::info!(peer, "NBD client left in the handshake: {error}"),
        }
    }

    async fn unix(&self, mut stream: UnixStream) {
        let peer = "unix";
        let handshake = async {
            let client = greet(&mut stream).await?;
            let options =
                Handshake::new(&mut stream, &self.engine, client, Tls::Absent, self.read_only);
            match options.run().await? {
                Negotiated::Go(agreed) => Ok(Some(agreed)),
                Negotiated::StartTls(_) | Negotiated::Ended => Ok(None),
            }
        };
        match self.agree(handshake).await {
            Ok(Some(agreed)) => {
                let (input, output) = stream.into_split();
                self.transmit(input, output, agreed, peer).await;
            }
            Ok(None) => {}
            Err(error) => tracing::info!(peer, "NBD client left in the handshake: {error}"),
        }
    }

    /// A handshake in the time that there is for one.
    async fn agree<T>(
        &self,
        handshake: impl Future<Output = io::Result<Option<T>>>,
    ) -> io::Result<Option<T>> {
        tokio::select! {
            agreed = tokio::time::timeout(HANDSHAKE_WAIT, handshake) => {
                agreed.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
            }
            () = stopped(self.stop.clone()) => Ok(None),
        }
    }

    async fn tcp_handshake(
        &self,
        mut stream: TcpStream,
        tls: Option<TlsAcceptor>,
    ) -> io::Result<Option<(Agreed, Client)>> {
        let client = greet(&mut stream).await?;
        let begin = if tls.is_some() { Tls::Required } else { Tls::Absent };
        let options = Handshake::new(&mut stream, &self.engine, client, begin, self.read_only);
        let client = match (options.run().await?, tls) {
            (Negotiated::Go(agreed), _) => return Ok(Some((agreed, Client::Plain(stream)))),
            (Negotiated::StartTls(client), Some(tls)) => (client, tls),
            (Negotiated::StartTls(_), None) | (Negotiated::Ended, _) => return Ok(None),
        };
        let (client, tls) = client;
        let mut stream = Box::new(tls.accept(stream).await?);
        let options =
            Handshake::new(&mut stream, &self.engine, client, Tls::Within, self.read_only);
        match options.run().await? {
            Negotiated::Go(agreed) => Ok(Some((agreed, Client::Tls(stream)))),
            Negotiated::StartTls(_) | Negotiated::Ended => Ok(None),
        }
    }

    async fn transmit<R, W>(&self, input: R, output: W, agreed: Agreed, peer: &str)
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin + Send + 'static,
    {
        let session = Session::new(agreed, self.counts.clone());
        tracing::debug!(peer, disk = session.disk_name(), "NBD client connected");
        let terms = Terms::of_server(self.stop.clone(), self.memory.clone());
        serve(input, output, session, terms).await;
    }
}

/// Room for connections.
struct Slots {
    free: Arc<Semaphore>,
    /// The log has it that there is none.
    told: AtomicBool,
}

impl Slots {
    fn new(connections: usize) -> Self {
        Self { free: Arc::new(Semaphore::new(connections)), told: AtomicBool::new(false) }
    }

    /// Room for one more connection, if there is; says once when there is none any more.
    fn take(&self) -> Option<OwnedSemaphorePermit> {
        let slot = self.free.clone().try_acquire_owned().ok();
        if self.told.swap(slot.is_none(), Relaxed) || slot.is_some() {
            return slot;
        }
        tracing::warn!("NBD refuses clients: it has as many connections as it takes");
        None
    }
}

/// A connection over TCP.
enum Client {
    Plain(TcpStream),
    Tls(Box<TlsStream<TcpStream>>),
}

/// A socket's name, which goes with this.
struct SocketFile(PathBuf);

impl Drop for SocketFile {
    fn drop(&mut self) {
        if let Err(error) = std::fs::remove_file(&self.0) {
            tracing::debug!("{} stays behind: {error}", self.0.display());
        }
    }
}

/// Listens on a Unix socket, in place of one that a dead server left.
fn bind_unix(path: &Path) -> Result<(UnixListener, SocketFile)> {
    let at = |error| FsError::local_io(format!("NBD cannot listen on {}", path.display()), error);
    match std::fs::symlink_metadata(path) {
        Ok(found) if !found.file_type().is_socket() => {
            let text = format!("{} is there and no socket: name another path", path.display());
            return Err(FsError::new(ErrorKind::Exists, text));
        }
        Ok(_) if std::os::unix::net::UnixStream::connect(path).is_ok() => {
            let text = format!("another server listens on {}: stop it first", path.display());
            return Err(FsError::new(ErrorKind::Exists, text));
        }
        Ok(_) => std::fs::remove_file(path).map_err(at)?,
        Err(_) => {}
    }
    let listener = UnixListener::bind(path).map_err(at)?;
    // Whatever the umask: who lets others in hands it on.
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(at)?;
    Ok((listener, SocketFile(path.to_owned())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_room_for_so_many_and_no_more() {
        let slots = Slots::new(2);
        let (one, two) = (slots.take(), slots.take());
        assert!(one.is_some() && two.is_some() && !slots.told.load(Relaxed));
        assert!(slots.take().is_none() && slots.take().is_none() && slots.told.load(Relaxed));
        drop(one);
        assert!(slots.take().is_some() && !slots.told.load(Relaxed), "and it is told anew");
    }
}
