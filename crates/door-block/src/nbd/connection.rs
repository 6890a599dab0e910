//! The transmission phase of one connection: one task reads requests, each request has a task, and
//! one task sends replies.
//!
//! What a request takes of the limits, its connection's and those of the whole server, it holds until
//! its reply is sent. A client that asks much and reads little waits for itself; once it takes
//! nothing for a minute it has to go, as others may wait for what it holds.
//!
//! A connection that was lost leaves nothing behind: its client asks again for what had no answer,
//! and an old write must not come after that.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use tokio::task::{JoinHandle, JoinSet};
use weir_engine::Disk;

use super::input::Input;
use super::output::{Reply, send_replies};
use super::protocol::{Command, Headers, PAYLOAD_BYTES_MAX, Request};
use super::session::{Agreed, Session, flags};
use crate::counts::Counts;

/// Requests of one connection under way at once, at most.
const REQUESTS_MAX: usize = 256;
/// Their data in memory, in bytes.
const FLIGHT_BYTES_MAX: usize = 64 << 20;
/// Data of a refused request that are read past; more ends the connection.
const SKIP_BYTES_MAX: u64 = 1 << 30;
/// How long the last requests and a client that gets their replies may take once the server ends.
pub(crate) const STOP_WAIT: Duration = Duration::from_secs(3);
/// How long a client may be in the middle of something without going on.
const PATIENCE: Duration = Duration::from_secs(60);

/// The transmission flags of a disk that [`transmit`] serves, as the kernel takes them.
pub(crate) fn transmission_flags(disk: &Disk, read_only: bool) -> u16 {
    flags(disk, read_only, Headers::Simple).bits()
}

/// Serves a disk on a connection that was agreed on elsewhere: its peer is the kernel. Ends when
/// the peer does, or on `stop`. From that moment on nothing is answered: the kernel keeps what it
/// has no answer to and asks the next daemon.
pub(crate) async fn transmit(
    stream: UnixStream,
    disk: Disk,
    counts: Arc<Counts>,
    read_only: bool,
    stop: watch::Receiver<bool>,
) {
    let agreed = Agreed { disk, headers: Headers::Simple, block_status: false, read_only };
    let terms = Terms { stop, answers_last: false, patience: Duration::MAX, memory: None };
    let (input, output) = stream.into_split();
    serve(input, output, Session::new(agreed, counts), terms).await;
}

/// What a connection has of its server.
pub(super) struct Terms {
    /// Becomes true when the server ends; nobody being left who could say so says the same.
    stop: watch::Receiver<bool>,
    /// Requests that are under way by then get their replies.
    answers_last: bool,
    /// How long the client may be in the middle of something without going on.
    patience: Duration,
    /// What it shares with others.
    memory: Option<Memory>,
}

impl Terms {
    /// Those of clients that nothing is known of.
    pub(super) fn of_server(stop: watch::Receiver<bool>, memory: Memory) -> Self {
        Self { stop, answers_last: true, patience: PATIENCE, memory: Some(memory) }
    }
}

/// Room for the data of requests, shared by all connections of a server.
#[derive(Clone)]
pub(super) struct Memory {
    bytes: Arc<Semaphore>,
    /// Of one connection: others have room while one keeps all of its own.
    each: usize,
}

impl Memory {
    /// At least one of the largest requests fits.
    pub(super) fn new(bytes: u64) -> Self {
        let least = PAYLOAD_BYTES_MAX as usize;
        let all = (bytes as usize).clamp(least, Semaphore::MAX_PERMITS);
        let each = (all / 2).clamp(least, FLIGHT_BYTES_MAX);
        Self { bytes: Arc::new(Semaphore::new(all)), each }
    }
}

/// Why a connection ends.
enum End {
    /// The client said that it wants no more.
    Said,
    /// The server ends.
    Stopped,
    /// Nobody knows what the client has of its replies.
    Lost(io::Error),
}

/// Serves until the client ends, or the server does. No request is under way when this returns.
pub(super) async fn serve<R, W>(input: R, output: W, session: Session, terms: Terms)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let _open = session.connected();
    let session = Arc::new(session);
    let Terms { stop, answers_last, patience, memory } = terms;
    let (replies, ready) = unbounded_channel();
    let sender = tokio::spawn(send_replies(output, ready, patience));
    let each = memory.as_ref().map_or(FLIGHT_BYTES_MAX, |memory| memory.each);
    let mut reader = Reader {
        input: Input::new(input, patience),
        session: session.clone(),
        replies: replies.clone(),
        slots: Arc::new(Semaphore::new(REQUESTS_MAX)),
        bytes: Arc::new(Semaphore::new(each)),
        memory: memory.map(|memory| memory.bytes),
        tasks: JoinSet::new(),
    };
    let end = tokio::select! {
        ended = reader.run() => ended.map_or_else(End::Lost, |()| End::Said),
        () = stopped(stop.clone()) => End::Stopped,
        () = replies.closed() => End::Lost(io::ErrorKind::BrokenPipe.into()),
    };
    drop(replies);
    let tasks = std::mem::take(&mut reader.tasks);
    // With its way to the sender, which ends once nobody has one.
    drop(reader);
    match &end {
        End::Stopped if !answers_last => sender.abort(),
        End::Said | End::Stopped => {}
        End::Lost(error) => {
            tracing::info!(disk = session.disk_name(), "NBD client left: {error}");
            sender.abort();
        }
    }
    finish(tasks, sender, stop, matches!(end, End::Lost(_))).await;
}

/// Waits for what is under way, at most until the server has ended for a while. Of a connection that
/// was lost all is given up at once.
async fn finish(
    mut tasks: JoinSet<()>,
    mut sender: JoinHandle<io::Result<()>>,
    stop: watch::Receiver<bool>,
    lost: bool,
) {
    if !lost {
        tokio::select! {
            () = async {
                while tasks.join_next().await.is_some() {}
                let _ = (&mut sender).await;
            } => return,
            () = async { stopped(stop).await; tokio::time::sleep(STOP_WAIT).await } => {}
        }
    }
    sender.abort();
    tasks.shutdown().await;
}

/// Returns when the server ends.
pub(crate) async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that whoever could say so is gone, which says the same.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What reads requests.
struct Reader<R> {
    input: Input<R>,
    session: Arc<Session>,
    replies: UnboundedSender<Reply>,
    slots: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
    /// What all connections share.
    memory: Option<Arc<Semaphore>>,
    /// The requests under way.
    tasks: JoinSet<()>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Reads until the client says that it ends; an error is why it did not say so.
    async fn run(&mut self) -> io::Result<()> {
        let headers = self.session.headers();
        loop {
            let Some(bytes) = self.input.header(Request::header_bytes(headers)).await? else {
                return Err(io::Error::other("it closed the connection without a word"));
            };
            let request = Request::decode(headers, &bytes)
                .map_err(|_| io::Error::other("it sent what is no request"))?;
            // Its piece of the buffer can be used again.
            drop(bytes);
            if request.command == Command::Disconnect {
                return Ok(());
            }
            let slot = take(&self.slots, 1).await?;
            while self.tasks.try_join_next().is_some() {}
            match self.session.check(&request) {
                Ok(()) => self.begin(request, slot).await?,
                Err(failure) => {
                    self.skip(request.payload_bytes(headers)).await?;
                    let reply = self.session.fail(&request, failure);
                    // Nobody to take it: `replies.closed` tells that.
                    let _ = self.replies.send(Reply { _held: vec![slot], ..reply });
                }
            }
        }
    }

    /// Reads a request's data, and lets it do its work in its own time.
    async fn begin(&mut self, request: Request, slot: OwnedSemaphorePermit) -> io::Result<()> {
        let mut held = vec![slot];
        let mut payload = Bytes::new();
        if matches!(request.command, Command::Read | Command::Write) {
            // Checked to be no more than the largest payload.
            let len = request.len as u32;
            held.push(take(&self.bytes, len).await?);
            if let Some(memory) = &self.memory {
                held.push(take(memory, len).await?);
            }
        }
        if request.command == Command::Write {
            payload = self.input.payload(request.len as usize).await?;
        }
        let (session, replies) = (self.session.clone(), self.replies.clone());
        self.tasks.spawn(async move {
            let reply = session.perform(&request, payload).await;
            let _ = replies.send(Reply { _held: held, ..reply });
        });
        Ok(())
    }

    async fn skip(&mut self, len: u64) -> io::Result<()> {
        if len > SKIP_BYTES_MAX {
            return Err(io::Error::other(format!("it began to send {len} bytes at once")));
        }
        self.input.skip(len).await
    }
}

async fn take(limit: &Arc<Semaphore>, count: u32) -> io::Result<OwnedSemaphorePermit> {
    limit.clone().acquire_many_owned(count).await.map_err(io::Error::other)
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncReadExt;
    use weir_engine::DiskCache;

    use super::*;
    use crate::common::client::{Client, FLUSH, READ};
    use crate::common::{World, noise};

    #[test]
    fn a_device_is_not_answered_once_it_is_cut() {
        let world = World::with_disk("a", DiskCache::None);
        world.run(async {
            let disk = world.engine().open_disk("a").await.unwrap();
            let (cut, stop) = watch::channel(false);
            let (ours, kernels) = UnixStream::pair().unwrap();
            let counts = Arc::new(Counts::default());
            let served = tokio::spawn(transmit(ours, disk, counts.clone(), false, stop));
            let mut kernel = Client::over(kernels);
            assert_eq!(kernel.write(0, 0, &noise(1, 1 << 20)).await.error, 0);
            assert_eq!(kernel.call(FLUSH, 0, 0, 0).await.error, 0);

            let stuck = world.stuck();
            let mut requests = kernel.header(READ, 0, 0, 1 << 20);
            requests.extend(kernel.header(FLUSH, 0, 0, 0));
            kernel.send(&requests).await;
            kernel.reply().await;
            cut.send_replace(true);
            let mut rest = Vec::new();
            kernel.stream.read_to_end(&mut rest).await.unwrap();
            assert!(rest.is_empty(), "{} bytes came after the cut", rest.len());
            drop(stuck);
            served.await.unwrap();
            assert_eq!(counts.get().connections, 0);
        });
    }

    #[test]
    fn nobody_has_less_memory_than_a_request_needs_or_more_than_half() {
        for (bytes, all, each) in
            [(0, 32, 32), (48 << 20, 48, 32), (100 << 20, 100, 50), (1 << 30, 1024, 64)]
        {
            let memory = Memory::new(bytes);
            assert_eq!((memory.bytes.available_permits() >> 20, memory.each >> 20), (all, each));
        }
    }
}
