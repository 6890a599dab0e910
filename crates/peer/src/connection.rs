//! A connection by which another node is asked, with all that is under way on it.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadHalf, WriteHalf};
use tokio::net::TcpStream;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsConnector;
use tokio_rustls::rustls::ClientConfig;
use tokio_rustls::rustls::pki_types::ServerName;

use crate::ask::Answer;
use crate::frame;

/// How long it may take to be connected, and to prove who each is.
const CONNECT: Duration = Duration::from_secs(5);
/// Questions under way on a connection: no more than the other side has turns for.
const UNDER_WAY: usize = 32;
/// How long the other side may say nothing while something is asked of it, and take nothing.
const SILENCE: Duration = Duration::from_secs(20);
/// How long a connection stays that nobody uses: less than at the other side.
const IDLE: Duration = Duration::from_secs(120);
/// How often it is looked for that.
const LOOK: Duration = Duration::from_secs(1);

/// The connection is no more: a question was not asked, or not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Lost;

/// One that is up, or was.
pub(crate) struct Connection {
    asks: mpsc::Sender<Bytes>,
    /// Who asks more than the other side takes waits for a turn.
    turns: Semaphore,
    waiting: Arc<Waiting>,
    next_id: AtomicU64,
    /// Its tasks end with it.
    _tasks: JoinSet<()>,
}

/// Who waits for which answer.
struct Waiting {
    /// `None` when no answer comes any more.
    answers: Mutex<Option<HashMap<u64, oneshot::Sender<Answer>>>>,
    /// When the other side said something, or was asked something while nothing was under way.
    heard: Mutex<Instant>,
    lost: AtomicBool,
}

impl Connection {
    /// Connects to a node that proves that it is who the configuration wants.
    pub(crate) async fn open(address: &str, tls: Arc<ClientConfig>) -> io::Result<Self> {
        timeout(CONNECT, async {
            let stream = TcpStream::connect(address).await?;
            stream.set_nodelay(true)?;
            let name = ServerName::from(stream.peer_addr()?.ip());
            let stream = TlsConnector::from(tls).connect(name, stream).await?;
            Ok(Self::over(stream))
        })
        .await?
    }

    /// Speaks over a stream that is up.
    pub(crate) fn over<S>(stream: S) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + 'static,
    {
        let (reader, writer) = tokio::io::split(stream);
        let (asks, to_send) = mpsc::channel(UNDER_WAY);
        let waiting = Arc::new(Waiting {
            answers: Mutex::new(Some(HashMap::new())),
            heard: Mutex::new(Instant::now()),
            lost: AtomicBool::new(false),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(waiting.clone().run(reader, writer, to_send));
        let (turns, next_id) = (Semaphore::new(UNDER_WAY), AtomicU64::new(0));
        Self { asks, turns, waiting, next_id, _tasks: tasks }
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.waiting.lost.load(Ordering::Acquire)
    }

    /// Asks when there is a turn for it, and waits for the answer. Who gives up leaves nothing behind.
    pub(crate) async fn ask(&self, body: &[u8]) -> Result<Answer, Lost> {
        // Never closed; once the connection is lost, all who have a turn give it back.
        let _turn = self.turns.acquire().await;
        let id = self.next_id.fetch_add(1, Ordering::Relaxed);
        let answer = {
            let mut answers = self.waiting.answers.lock();
            let answers = answers.as_mut().ok_or(Lost)?;
            if answers.is_empty() {
                *self.waiting.heard.lock() = Instant::now();
            }
            let (sender, answer) = oneshot::channel();
            answers.insert(id, sender);
            answer
        };
        let _forget = Forget { waiting: &self.waiting, id };
        self.asks.send(frame::ask(id, body)).await.map_err(|_| Lost)?;
        answer.await.map_err(|_| Lost)
    }
}

/// Takes a question off the list when nobody waits for it any more.
struct Forget<'a> {
    waiting: &'a Waiting,
    id: u64,
}

impl Drop for Forget<'_> {
    fn drop(&mut self) {
        if let Some(answers) = self.waiting.answers.lock().as_mut() {
            answers.remove(&self.id);
        }
    }
}

impl Waiting {
    async fn run<S>(
        self: Arc<Self>,
        reader: ReadHalf<S>,
        writer: WriteHalf<S>,
        to_send: mpsc::Receiver<Bytes>,
    ) where
        S: AsyncRead + AsyncWrite,
    {
        let ended = tokio::select! {
            ended = self.receive(reader) => ended,
            ended = send(writer, to_send) => ended,
            ended = self.watch() => ended,
        };
        self.lost.store(true, Ordering::Release);
        // Whoever waits is told by this.
        self.answers.lock().take();
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection to another node ended");
        }
    }

    async fn receive(&self, mut reader: impl AsyncRead + Unpin) -> io::Result<()> {
        while let Some((id, body)) = frame::read(&mut reader, frame::ANSWER_BYTES).await? {
            *self.heard.lock() = Instant::now();
            let wrong = || io::Error::new(io::ErrorKind::InvalidData, "an answer of no kind");
            let answer = Answer::decode(body).ok_or_else(wrong)?;
            // Who asked may have given up.
            let waits = self.answers.lock().as_mut().and_then(|answers| answers.remove(&id));
            if let Some(waits) = waits {
                let _ = waits.send(answer);
            }
        }
        Ok(())
    }

    /// Ends when the other side is silent for too long, or not needed any more.
    async fn watch(&self) -> io::Result<()> {
        loop {
            tokio::time::sleep(LOOK).await;
            let idle = self.answers.lock().as_ref().is_none_or(HashMap::is_empty);
            let since = self.heard.lock().elapsed();
            match idle {
                true if since > IDLE => return Ok(()),
                false if since > SILENCE => return Err(io::ErrorKind::TimedOut.into()),
                _ => {}
            }
        }
    }
}

async fn send(
    mut writer: impl AsyncWrite + Unpin,
    mut to_send: mpsc::Receiver<Bytes>,
) -> io::Result<()> {
    while let Some(frame) = to_send.recv().await {
        timeout(SILENCE, async {
            writer.write_all(&frame).await?;
            writer.flush().await
        })
        .await??;
    }
    Ok(())
}
