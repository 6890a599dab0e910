//! One connection: records in, each answered by a task of its own, answers out as they are ready.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::sync::{mpsc, watch};
use weir_engine::Bytes;

use crate::compound::Sender;
use crate::dispatch;
use crate::memory::{Memory, Room};
use crate::protocol::numbers::RECORD_BYTES_MAX;
use crate::protocol::rpc::{self, Call, Credential, SYS_GROUPS_MAX};
use crate::server_state::ServerState;
use crate::state::back::{BackLine, Record};

/// Answers that wait to be written, beside those under way.
const ANSWERS: usize = 64;
/// The bit that ends a record.
const LAST: u32 = 1 << 31;
/// What a request takes beside its data, with an answer that has none.
const REQUEST_BYTES: usize = 16 << 10;
/// Who says nothing for so long in the middle of a record is let go: it has room that others need.
const SILENCE_IN_RECORD: Duration = Duration::from_secs(10);

/// A connection that ends waits so long for its client to take the last answers.
const LAST_ANSWERS: Duration = Duration::from_secs(5);

/// What a connection works with.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) server: Arc<ServerState>,
    pub(crate) peer: SocketAddr,
    pub(crate) tls: bool,
    /// For requests.
    pub(crate) requests: Memory,
    /// For what is read for clients, until they have it.
    pub(crate) answers: Memory,
    pub(crate) stop: watch::Receiver<bool>,
    /// Whether TLS can be begun.
    pub(crate) can_tls: bool,
}

/// How a connection ended.
pub(crate) enum End {
    /// It is over.
    Closed,
    /// TLS is to be begun, and it goes on below that.
    StartTls,
}

/// Returns when the server is to end.
pub(crate) async fn stopped(stop: &mut watch::Receiver<bool>) {
    // Who could say so is gone: the end too.
    drop(stop.wait_for(|stop| *stop).await);
}

/// Answers until the client leaves or the server ends.
pub(crate) async fn serve<R, W>(line: &Line, input: &mut R, output: &mut W) -> End
where
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let (answers, mut waiting) = mpsc::channel::<Record>(ANSWERS);
    let back = BackLine::new(&answers);
    let reading = read(line, input, answers, &back);
    let writing = async {
        while let Some(answer) = waiting.recv().await {
            write(output, &answer.pieces).await?;
            drop(answer.rooms);
        }
        Ok::<_, std::io::Error>(())
    };
    tokio::pin!(reading, writing);
    let end = tokio::select! {
        end = &mut reading => {
            // What is under way is answered still, if the client takes it.
            drop(tokio::time::timeout(LAST_ANSWERS, writing).await);
            end
        }
        _ = &mut writing => End::Closed,
    };
    back.ended();
    end
}

async fn read<R: AsyncRead + Unpin>(
    line: &Line,
    input: &mut R,
    answers: mpsc::Sender<Record>,
    back: &BackLine,
) -> End {
    let mut stop = line.stop.clone();
    loop {
        let record = tokio::select! {
            biased;
            () = stopped(&mut stop) => return End::Closed,
            record = record(line, input) => record,
        };
        let Some((record, room)) = record else { return End::Closed };
        if !line.server.engine.may_answer() {
            // Who has the volume now has the address, or will.
            return End::Closed;
        }
        match rpc::call(record) {
            Err(_) => return End::Closed,
            Ok(Call::Answer { xid, answer }) => back.answered(xid, answer),
            Ok(Call::Refused { reply }) => send(&answers, vec![reply], Vec::new()).await,
            Ok(Call::Null { xid }) => send(&answers, vec![rpc::success(xid)], Vec::new()).await,
            Ok(Call::ProbeTls { xid }) if line.can_tls => {
                send(&answers, vec![rpc::start_tls(xid)], Vec::new()).await;
                return End::StartTls;
            }
            Ok(Call::ProbeTls { xid }) => send(&answers, vec![rpc::no_tls(xid)], Vec::new()).await,
            Ok(Call::Compound { xid, credential, arguments }) => {
                let (line, answers) = (line.clone(), answers.clone());
                let sender = line.sender(credential, back.clone());
                // It is done to its end also where the client leaves meanwhile.
                tokio::spawn(async move {
                    let _under_way = line.server.under_way.clone().read_owned().await;
                    let done = dispatch::answer(&line.server, sender, &line.answers, arguments);
                    let (pieces, rooms) = match done.await {
                        Ok((answer, rooms)) => {
                            (std::iter::once(rpc::success(xid)).chain(answer).collect(), rooms)
                        }
                        Err(_) => (vec![rpc::garbage(xid)], Vec::new()),
                    };
                    drop(room);
                    if line.server.engine.may_answer() {
                        send(&answers, pieces, rooms).await;
                    }
                });
            }
        }
    }
}

async fn send(answers: &mpsc::Sender<Record>, pieces: Vec<Bytes>, rooms: Vec<Room>) {
    // Who is gone gets none.
    drop(answers.send(Record { pieces, rooms }).await);
}

impl Line {
    fn sender(&self, credential: Credential, back: BackLine) -> Sender {
        let groups = match &credential {
            Credential::None => Vec::new(),
            Credential::Sys { uid, groups, .. }
                if self.server.manage_gids && groups.len() == SYS_GROUPS_MAX =>
            {
                crate::names::groups_of(*uid).unwrap_or_else(|| groups.clone())
            }
            Credential::Sys { groups, .. } => groups.clone(),
        };
        Sender { peer: self.peer, tls: self.tls, credential, groups, back }
    }
}

/// The next record, with room for it and its answer. `None` where there is none, or it is no record.
async fn record<R: AsyncRead + Unpin>(line: &Line, input: &mut R) -> Option<(Bytes, Room)> {
    let mut record = Vec::new();
    let mut room = None;
    loop {
        let head = match &room {
            None => input.read_u32().await.ok()?,
            Some(_) => {
                let head = tokio::time::timeout(SILENCE_IN_RECORD, input.read_u32());
                head.await.ok()?.ok()?
            }
        };
        let len = (head & !LAST) as usize;
        if record.len() + len > RECORD_BYTES_MAX {
            tracing::info!(peer = %line.peer, len, "NFS: a record is too long; the client is let go");
            return None;
        }
        if room.is_none() {
            // One that comes in parts may become as long as any.
            let bytes = if head & LAST != 0 { len.max(REQUEST_BYTES) } else { RECORD_BYTES_MAX };
            room = Some(line.requests.take(bytes).await?);
        }
        fill(input, &mut record, len).await?;
        if head & LAST != 0 {
            return Some((record.into(), room?));
        }
    }
}

/// Reads so many bytes more. `None` where the client leaves, or is silent in the middle.
async fn fill<R: AsyncRead + Unpin>(input: &mut R, record: &mut Vec<u8>, len: usize) -> Option<()> {
    record.reserve(len);
    let end = record.len() + len;
    let mut part = input.take(len as u64);
    while record.len() < end {
        let more = tokio::time::timeout(SILENCE_IN_RECORD, part.read_buf(record));
        if more.await.ok()?.ok()? == 0 {
            return None;
        }
    }
    Some(())
}

/// Writes an answer as one record.
async fn write<W: AsyncWrite + Unpin>(output: &mut W, pieces: &[Bytes]) -> std::io::Result<()> {
    let len: usize = pieces.iter().map(Bytes::len).sum();
    let head = (len as u32 | LAST).to_be_bytes();
    let mut chain = pieces.iter().filter(|piece| !piece.is_empty()).fold(
        Vec::with_capacity(pieces.len() + 1),
        |mut all, piece| {
            all.push(&piece[..]);
            all
        },
    );
    // What is short goes out in one piece with what is before it.
    let mut small = head.to_vec();
    while let Some(first) = chain.first()
        && small.len() + first.len() <= 4 << 10
    {
        small.extend_from_slice(first);
        chain.remove(0);
    }
    output.write_all(&small).await?;
    for piece in chain {
        output.write_all(piece).await?;
    }
    output.flush().await
}
