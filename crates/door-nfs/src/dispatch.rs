//! From a request's bytes to its answer's: once, in order, as far as operations succeed.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use weir_engine::{Bytes, Fallocate, Receipt};

use crate::compound::{Compound, Sender};
use crate::memory::{Memory, Room};
use crate::ops::Denied;
use crate::protocol::numbers::{OPAQUE_BYTES_MAX, changes, done_once, op};
use crate::protocol::status::{Refusal, Served, Status, status};
use crate::protocol::xdr::{Mark, Reader, Writer, Xdr};
use crate::server_state::{ServerState, add};
use crate::state::done::Done;
use crate::state::sessions::{Session, SessionId, Turn};
use crate::uses::Did;

/// What an answer has before there is a session to say how much it may be.
const ROOM_BYTES: usize = 64 << 10;
/// What is around an answer.
const ENVELOPE_BYTES: usize = 64;
/// The longest result of a change. There is room for it before the change is made.
const CHANGE_BYTES: usize = 112;

/// How one operation ended, with what its result has although it was refused.
enum Ended {
    Done,
    /// A lock is somebody else's.
    Denied(Denied),
}

/// A slot, which is free again when this goes.
struct Taken {
    session: Arc<Session>,
    slot: u32,
    sequence: u32,
    keep: bool,
    answer: Option<Vec<Bytes>>,
}

impl Drop for Taken {
    fn drop(&mut self) {
        self.session.done(self.slot, self.answer.take());
    }
}

/// Answers a request: the pieces of a `COMPOUND4res`, and the room that they take until the client has them.
/// `BadXdr` for what is none.
pub(crate) async fn answer(
    server: &Arc<ServerState>,
    sender: Sender,
    memory: &Memory,
    mut input: Reader,
) -> Xdr<(Vec<Bytes>, Vec<Room>)> {
    let request_bytes = input.remaining();
    let tag = input.opaque(OPAQUE_BYTES_MAX)?;
    let (minor, count) = (input.u32()?, input.u32()?);
    let mut request = Request {
        compound: Compound {
            server: server.clone(),
            sender,
            minor,
            session: None,
            current: None,
            saved: None,
            current_stateid: None,
            saved_stateid: None,
            room: ROOM_BYTES,
            memory: memory.clone(),
            rooms: Vec::new(),
            did: Did::default(),
            receipt: None,
            is_done: false,
        },
        taken: None,
        done: None,
        again: None,
        count,
        request_bytes,
        turn: None,
    };
    let mut out = Writer::default();
    let status_at = out.mark();
    out.u32(0);
    out.opaque(&tag);
    let count_at = out.mark();
    out.u32(0);
    let known = matches!(minor, 1 | 2);
    let mut last = if known { Status::OK } else { Status::MINOR_VERS_MISMATCH };
    let mut done = 0;
    while known && done < count {
        last = request.run_one(done, &mut input, &mut out).await;
        if let Some(again) = request.again.take() {
            add(&server.counts.replays, 1);
            return Ok((again, Vec::new()));
        }
        done += 1;
        if last != Status::OK {
            add(&server.counts.errors, 1);
            break;
        }
    }
    out.set_u32(status_at, last.0);
    out.set_u32(count_at, done);
    add(&server.counts.requests, 1);
    request.compound.count();
    let answer = out.finish();
    if let Some(taken) = &mut request.taken
        && taken.keep
    {
        taken.answer = Some(answer.clone());
    }
    Ok((answer, request.compound.rooms))
}

struct Request {
    compound: Compound,
    taken: Option<Taken>,
    /// What of it a server did that could not answer it.
    done: Option<Done>,
    /// What was answered when it came the first time.
    again: Option<Vec<Bytes>>,
    count: u32,
    request_bytes: usize,
    /// It is this request's turn among those of its client.
    turn: Option<OwnedSemaphorePermit>,
}

impl Request {
    /// Does one operation and writes its result.
    async fn run_one(&mut self, at: u32, input: &mut Reader, out: &mut Writer) -> Status {
        let number = input.u32().unwrap_or(op::ILLEGAL);
        let server = self.compound.server.clone();
        let last_of_minor =
            if self.compound.minor < 2 { op::RECLAIM_COMPLETE } else { op::REMOVEXATTR };
        let exists = (op::ACCESS..=last_of_minor).contains(&number);
        out.u32(if exists { number } else { op::ILLEGAL });
        let status_at = out.mark();
        out.u32(0);
        let body = out.mark();
        self.compound.room = self.room(out);
        self.compound.is_done = self.done.is_some_and(|done| at <= done.at);
        self.compound.receipt = self.receipt(at, number);
        let ended = match exists {
            false => Err(Status::OP_ILLEGAL.into()),
            true if changes(number) && self.is_full(out) => Err(Status::REP_TOO_BIG.into()),
            true => self.run(at, number, input, out).await,
        };
        let status = match ended {
            Ok(Ended::Done) => Status::OK,
            Ok(Ended::Denied(denied)) => {
                out.rewind(body);
                denied.write(out);
                Status::DENIED
            }
            Err(refusal) => {
                refused(number, body, out);
                status_of(number, refusal)
            }
        };
        out.set_u32(status_at, status.0);
        add(&server.counts.operations, 1);
        self.check_room(number, (body, status_at), status, out)
    }

    /// An answer that is larger than the client takes is none.
    fn check_room(
        &self,
        number: u32,
        (body, status_at): (Mark, Mark),
        status: Status,
        out: &mut Writer,
    ) -> Status {
        let Some(taken) = &self.taken else { return status };
        let channel = taken.session.channel;
        let over = out.len() + ENVELOPE_BYTES > channel.response_bytes as usize;
        let only_reads = matches!(
            number,
            op::READ | op::READDIR | op::GETATTR | op::READLINK | op::GETXATTR | op::LISTXATTRS
        );
        let over_kept = taken.keep && only_reads && out.len() > channel.cached_bytes as usize;
        let status = match () {
            () if over => Status::REP_TOO_BIG,
            () if over_kept => Status::REP_TOO_BIG_TO_CACHE,
            () => return status,
        };
        refused(number, body, out);
        out.set_u32(status_at, status.0);
        status
    }

    /// Whether the result of a change might be too much for the answer.
    fn is_full(&self, out: &Writer) -> bool {
        let used = out.len() + ENVELOPE_BYTES + CHANGE_BYTES;
        self.taken.as_ref().is_some_and(|t| used > t.session.channel.response_bytes as usize)
    }

    /// Bytes that the answer may still grow by.
    fn room(&self, out: &Writer) -> usize {
        let all = match &self.taken {
            Some(taken) if taken.keep => {
                taken.session.channel.response_bytes.min(taken.session.channel.cached_bytes)
            }
            Some(taken) => taken.session.channel.response_bytes,
            None => return ROOM_BYTES,
        };
        (all as usize).saturating_sub(out.len() + ENVELOPE_BYTES)
    }

    /// What the change that an operation makes keeps, if the client may ask for it again.
    fn receipt(&self, at: u32, number: u32) -> Option<Receipt> {
        let taken = self.taken.as_ref().filter(|taken| taken.keep && done_once(number))?;
        let (sequence, highest) = (taken.sequence, taken.session.highest());
        let node = self.compound.server.engine.session();
        Some(Done { sequence, at, highest, node }.receipt(&taken.session.id, taken.slot))
    }

    async fn run(
        &mut self,
        at: u32,
        number: u32,
        input: &mut Reader,
        out: &mut Writer,
    ) -> Served<Ended> {
        let is_last = at + 1 == self.count;
        match number {
            op::SEQUENCE if at > 0 => return Err(Status::SEQUENCE_POS.into()),
            op::SEQUENCE => {
                let turns = self.sequence(input, out).await?;
                // One that only says that its client is there has nothing to wait for.
                if let Some(turns) = turns.filter(|_| self.count > 1) {
                    self.turn = turns.acquire_owned().await.ok();
                }
                return Ok(Ended::Done);
            }
            op::EXCHANGE_ID
            | op::CREATE_SESSION
            | op::BIND_CONN_TO_SESSION
            | op::DESTROY_SESSION
            | op::DESTROY_CLIENTID
                if self.taken.is_none() && self.count > 1 =>
            {
                return Err(Status::NOT_ONLY_OP.into());
            }
            op::BIND_CONN_TO_SESSION if self.taken.is_some() => {
                return Err(Status::NOT_ONLY_OP.into());
            }
            op::EXCHANGE_ID
            | op::CREATE_SESSION
            | op::BIND_CONN_TO_SESSION
            | op::DESTROY_SESSION
            | op::DESTROY_CLIENTID => {}
            _ if self.taken.is_none() && self.done.is_none() => {
                return Err(Status::OP_NOT_IN_SESSION.into());
            }
            _ => {}
        }
        let done = match number {
            op::DESTROY_SESSION => self.compound.destroy_session(input, is_last),
            op::SETATTR => {
                self.compound.setattr(input).await?.write(out);
                Ok(())
            }
            op::LOCK => {
                let denied = self.compound.lock(input, out).await?;
                return Ok(denied.map_or(Ended::Done, Ended::Denied));
            }
            op::LOCKT => {
                let denied = self.compound.lock_test(input).await?;
                return Ok(denied.map_or(Ended::Done, Ended::Denied));
            }
            op::BACKCHANNEL_CTL..=op::RECLAIM_COMPLETE => {
                self.of_sessions(number, input, out).await
            }
            op::ALLOCATE.. => self.of_minor_2(number, input, out).await,
            _ => self.of_files(number, input, out).await,
        };
        done.map(|()| Ended::Done)
    }

    async fn of_sessions(
        &mut self,
        number: u32,
        input: &mut Reader,
        out: &mut Writer,
    ) -> Served<()> {
        let compound = &mut self.compound;
        match number {
            op::EXCHANGE_ID => compound.exchange_id(input, out),
            op::CREATE_SESSION => compound.create_session(input, out).await,
            op::BIND_CONN_TO_SESSION => compound.bind_connection(input, out),
            op::BACKCHANNEL_CTL => compound.set_callback(input),
            op::DESTROY_CLIENTID => compound.destroy_client(input).await,
            op::RECLAIM_COMPLETE => compound.reclaim_complete(input).await,
            op::FREE_STATEID => compound.free_stateid(input).await,
            op::TEST_STATEID => compound.test_stateids(input, out),
            op::SECINFO_NO_NAME => compound.secinfo_no_name(input, out).await,
            _ => Err(Status::NOTSUPP.into()),
        }
    }

    async fn of_files(&mut self, number: u32, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let compound = &mut self.compound;
        match number {
            op::PUTFH => compound.put_handle(input),
            op::PUTROOTFH | op::PUTPUBFH => compound.put_root(),
            op::GETFH => compound.get_handle(out),
            op::SAVEFH => compound.save(),
            op::RESTOREFH => compound.restore(),
            op::LOOKUP => compound.lookup(input).await,
            op::LOOKUPP => compound.lookup_parent().await,
            op::GETATTR => compound.getattr(input, out).await,
            op::ACCESS => compound.access(input, out).await,
            op::VERIFY => compound.verify(input, Status::SAME).await,
            op::NVERIFY => compound.verify(input, Status::NOT_SAME).await,
            op::OPEN => compound.open(input, out).await,
            op::OPEN_DOWNGRADE => compound.open_downgrade(input, out),
            op::CLOSE => compound.close(input, out).await,
            op::DELEGRETURN => compound.return_delegation(input),
            op::READ => compound.read(input, out).await,
            op::WRITE => compound.write(input, out).await,
            op::COMMIT => compound.commit(input, out).await,
            op::LOCKU => compound.unlock(input, out).await,
            op::CREATE => compound.create(input, out).await,
            op::REMOVE => compound.remove(input, out).await,
            op::RENAME => compound.rename(input, out).await,
            op::LINK => compound.link(input, out).await,
            op::READLINK => compound.readlink(out).await,
            op::READDIR => compound.readdir(input, out).await,
            op::SECINFO => compound.secinfo(input, out).await,
            _ => Err(Status::NOTSUPP.into()),
        }
    }

    async fn of_minor_2(
        &mut self,
        number: u32,
        input: &mut Reader,
        out: &mut Writer,
    ) -> Served<()> {
        let compound = &mut self.compound;
        match number {
            op::ALLOCATE => {
                compound.allocate(input, Fallocate::Allocate { keep_size: false }).await
            }
            op::DEALLOCATE => compound.allocate(input, Fallocate::PunchHole).await,
            op::SEEK => compound.seek(input, out).await,
            op::COPY => compound.copy(input, out).await,
            op::CLONE => compound.clone_range(input).await,
            op::GETXATTR => compound.getxattr(input, out).await,
            op::SETXATTR => compound.setxattr(input, out).await,
            op::LISTXATTRS => compound.listxattrs(input, out).await,
            op::REMOVEXATTR => compound.removexattr(input, out).await,
            _ => Err(Status::NOTSUPP.into()),
        }
    }

    /// Takes the slot that the request is for. Answers what it waits for, if it is to be done.
    async fn sequence(
        &mut self,
        input: &mut Reader,
        out: &mut Writer,
    ) -> Served<Option<Arc<Semaphore>>> {
        let id = input.fixed()?;
        let (sequence, slot, highest) = (input.u32()?, input.u32()?, input.u32()?);
        let keep = input.bool()?;
        let server = &self.compound.server;
        let known = server.books.lock().clients.session(&id);
        let session = match known {
            Ok(session) => session,
            Err(unknown) => {
                // Where that cannot be told now, the client is to ask again.
                let done = server.books.done(&id, slot).await.map_err(|_| Status::DELAY)?;
                let done = done.filter(|done| done.sequence == sequence).ok_or(unknown)?;
                self.done = Some(done);
                write_sequence(&id, [sequence, slot, done.highest, done.highest, 0], out);
                add(&server.counts.replays, 1);
                return Ok(None);
            }
        };
        let channel = session.channel;
        if slot >= channel.slots {
            return Err(Status::BADSLOT.into());
        }
        if highest < slot {
            return Err(Status::BAD_HIGH_SLOT.into());
        }
        if self.request_bytes + ENVELOPE_BYTES > channel.request_bytes as usize {
            return Err(Status::REQ_TOO_BIG.into());
        }
        // Before the slot is taken: a refusal of this operation leaves it as it was.
        if self.count > channel.ops {
            return Err(Status::TOO_MANY_OPS.into());
        }
        match session.begin(slot, sequence)? {
            Turn::Again(answer) => {
                self.again = Some(answer);
                return Ok(None);
            }
            Turn::New => {}
        }
        self.taken = Some(Taken { session: session.clone(), slot, sequence, keep, answer: None });
        let now = tokio::time::Instant::now();
        let (flags, turns) = server.books.heard(&session, self.compound.sender.peer, now);
        write_sequence(&id, [sequence, slot, session.highest(), session.highest(), flags], out);
        self.compound.session = Some(session);
        Ok(turns)
    }
}

fn write_sequence(id: &SessionId, words: [u32; 5], out: &mut Writer) {
    out.fixed(id);
    words.into_iter().for_each(|word| out.u32(word));
}

/// Takes back what a result has beside its status. That of `SETATTR` tells what was set even so: nothing.
fn refused(number: u32, body: Mark, out: &mut Writer) {
    out.rewind(body);
    if number == op::SETATTR {
        out.u32(0);
    }
}

/// The status of a refusal; one that says too little is in the log.
fn status_of(number: u32, refusal: Refusal) -> Status {
    let error = match refusal {
        Refusal::Status(status) => return status,
        Refusal::Engine(error) => error,
    };
    let status = status(error.kind());
    let op = op::name(number);
    match status {
        Status::IO | Status::SERVERFAULT => tracing::warn!(op, "NFS: {error}"),
        _ => tracing::debug!(op, kind = ?error.kind(), "NFS: {error}"),
    }
    status
}
