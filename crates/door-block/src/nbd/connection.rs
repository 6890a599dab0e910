//! The transmission phase of one connection: one task reads requests, each request has a task, and
//! one task sends replies.
//!
//! What a request takes of the connection's limits it holds until its reply is sent, so a client
//! that asks much and reads little waits, and nobody else does.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::UnixStream;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, watch};
use weir_engine::Disk;

use super::input::Input;
use super::output::{Reply, send_replies};
use super::protocol::{Command, Headers, Request};
use super::session::{Agreed, Session, flags};
use crate::counts::Counts;

/// Requests of one connection under way at once, at most.
const REQUESTS_MAX: usize = 256;
/// Their data in memory, in bytes.
const FLIGHT_BYTES_MAX: usize = 64 << 20;
/// Data of a refused request that are read past; more ends the connection.
const SKIP_BYTES_MAX: u64 = 1 << 30;
/// How long a client may take for its last replies once the server ends.
const STOP_WAIT: Duration = Duration::from_secs(3);

/// The transmission flags of a disk that [`transmit`] serves, as the kernel takes them.
pub(crate) fn transmission_flags(disk: &Disk, read_only: bool) -> u16 {
    flags(disk, read_only, Headers::Simple).bits()
}

/// Serves a disk on a connection that was agreed on elsewhere: its peer is the kernel. Ends when
/// the peer does.
pub(crate) async fn transmit(stream: UnixStream, disk: Disk, counts: Arc<Counts>, read_only: bool) {
    let agreed = Agreed { disk, headers: Headers::Simple, block_status: false, read_only };
    let (_running, stop) = watch::channel(false);
    let (input, output) = stream.into_split();
    serve(input, output, Session::new(agreed, counts), stop).await;
}

/// Serves until the client ends, or `stop` becomes true or nobody can make it so.
pub(super) async fn serve<R, W>(input: R, output: W, session: Session, stop: watch::Receiver<bool>)
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin + Send + 'static,
{
    let _open = session.connected();
    let session = Arc::new(session);
    let (replies, ready) = unbounded_channel();
    let mut sender = tokio::spawn(send_replies(output, ready));
    let reader = Reader {
        input: Input::new(input),
        session: session.clone(),
        replies: replies.clone(),
        requests: Arc::new(Semaphore::new(REQUESTS_MAX)),
        bytes: Arc::new(Semaphore::new(FLIGHT_BYTES_MAX)),
    };
    let ended = tokio::select! {
        ended = reader.run() => ended,
        () = stopped(stop.clone()) => Ok(()),
        () = replies.closed() => Err(io::ErrorKind::BrokenPipe.into()),
    };
    // The sender ends when the last request under way has sent its reply.
    drop(replies);
    tokio::select! {
        _ = &mut sender => {}
        () = async { stopped(stop).await; tokio::time::sleep(STOP_WAIT).await } => sender.abort(),
    }
    if let Err(error) = ended {
        tracing::info!(disk = session.disk_name(), "NBD client left: {error}");
    }
}

/// Returns when the server ends.
pub(super) async fn stopped(mut stop: watch::Receiver<bool>) {
    // An error means that whoever could say so is gone, which says the same.
    let _ = stop.wait_for(|stop| *stop).await;
}

/// What reads requests.
struct Reader<R> {
    input: Input<R>,
    session: Arc<Session>,
    replies: UnboundedSender<Reply>,
    requests: Arc<Semaphore>,
    bytes: Arc<Semaphore>,
}

impl<R: AsyncRead + Unpin> Reader<R> {
    /// Reads until the client says that it ends; an error is why it did not say so.
    async fn run(mut self) -> io::Result<()> {
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
            let slot = take(&self.requests, 1).await?;
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
            held.push(take(&self.bytes, request.len as u32).await?);
        }
        if request.command == Command::Write {
            payload = self.input.payload(request.len as usize).await?;
        }
        let (session, replies) = (self.session.clone(), self.replies.clone());
        tokio::spawn(async move {
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
