//! The way back to a client: what the server asks of it, over connections that the client bound to its session
//! for that (RFC 8881, 2.10.3.1 and 20).

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::stateid::Stateid;
use crate::memory::Room;
use crate::protocol::numbers::callback;
use crate::protocol::rpc::{self, Security};
use crate::protocol::status::Status;
use crate::protocol::xdr::{Reader, Writer, Xdr};

/// Connections that one session may have for it.
const LINES_MAX: usize = 16;
/// A client has this long to answer.
const ANSWER_WAIT: Duration = Duration::from_secs(5);

/// What is to be sent over a connection, with the room that it takes until it is.
pub(crate) struct Record {
    pub(crate) pieces: Vec<Bytes>,
    pub(crate) rooms: Vec<Room>,
}

/// A connection, as whoever asks its client something has it. It does not keep the connection.
#[derive(Clone)]
pub(crate) struct BackLine {
    out: mpsc::WeakSender<Record>,
    calls: Arc<Calls>,
}

/// What was asked and is not answered.
#[derive(Default)]
struct Calls {
    last: AtomicU32,
    waiting: Mutex<HashMap<u32, oneshot::Sender<Reader>>>,
}

/// A question, which is forgotten when nobody waits for its answer any more.
struct Asked<'a>(&'a Calls, u32);

impl Drop for Asked<'_> {
    fn drop(&mut self) {
        self.0.waiting.lock().remove(&self.1);
    }
}

impl BackLine {
    pub(crate) fn new(out: &mpsc::Sender<Record>) -> Self {
        Self { out: out.downgrade(), calls: Arc::default() }
    }

    fn is_open(&self) -> bool {
        self.out.upgrade().is_some_and(|out| !out.is_closed())
    }

    /// What a client answered. What nobody asked is not looked at.
    pub(crate) fn answered(&self, xid: u32, answer: Reader) {
        if let Some(waiting) = self.calls.waiting.lock().remove(&xid) {
            drop(waiting.send(answer));
        }
    }

    /// The connection is over: there will be no more answers.
    pub(crate) fn ended(&self) {
        self.calls.waiting.lock().clear();
    }

    /// Asks the client; `None` if it does not answer.
    async fn ask(&self, question: impl FnOnce(u32) -> Bytes) -> Option<Reader> {
        let xid = self.calls.last.fetch_add(1, Ordering::Relaxed).wrapping_add(1);
        let (sender, answer) = oneshot::channel();
        self.calls.waiting.lock().insert(xid, sender);
        let _asked = Asked(&self.calls, xid);
        let record = Record { pieces: vec![question(xid)], rooms: Vec::new() };
        self.out.upgrade()?.send(record).await.ok()?;
        tokio::time::timeout(ANSWER_WAIT, answer).await.ok()?.ok()
    }
}

/// The back channel of a session. It has one slot: one question at a time.
pub(crate) struct Back {
    minor: u32,
    who: Mutex<(u32, Security)>,
    lines: Mutex<Vec<BackLine>>,
    sequence: tokio::sync::Mutex<u32>,
}

impl Back {
    /// That of a client that speaks this minor version, and hears of `program`.
    pub(crate) fn new(minor: u32, program: u32, security: Security) -> Self {
        let (lines, sequence) = (Mutex::default(), tokio::sync::Mutex::default());
        Self { minor, who: Mutex::new((program, security)), lines, sequence }
    }

    /// Who is asked from now on (`BACKCHANNEL_CTL`).
    pub(crate) fn set_who(&self, program: u32, security: Security) {
        *self.who.lock() = (program, security);
    }

    /// A connection may be used for it.
    pub(crate) fn bind(&self, line: &BackLine) {
        let mut lines = self.lines.lock();
        lines.retain(|other| other.is_open() && !Arc::ptr_eq(&other.calls, &line.calls));
        if lines.len() == LINES_MAX {
            lines.remove(0);
        }
        lines.push(line.clone());
    }

    /// Whether there is a connection for it.
    pub(crate) fn is_up(&self) -> bool {
        self.lines.lock().iter().any(BackLine::is_open)
    }

    /// Whether there was one and is none any more. One that never was is not missed.
    pub(crate) fn is_down(&self) -> bool {
        let lines = self.lines.lock();
        !lines.is_empty() && !lines.iter().any(BackLine::is_open)
    }

    /// Asks for a delegation back; the client's status, or `None` if it does not answer.
    pub(crate) async fn recall(
        &self,
        session: &[u8; 16],
        id: Stateid,
        handle: &[u8],
    ) -> Option<Status> {
        let mut sequence = self.sequence.lock().await;
        let lines: Vec<_> = self.lines.lock().iter().rev().cloned().collect();
        for line in lines {
            // One that was not answered is asked again by the same number.
            let number = sequence.wrapping_add(1);
            let question = |xid| {
                let (program, security) = &*self.who.lock();
                let mut out = rpc::callback(xid, *program, security);
                write_recall(&mut out, (self.minor, session, number), id, handle);
                out.finish().concat().into()
            };
            let Some(answer) = line.ask(question).await else { continue };
            let Ok(status) = read_status(answer) else { continue };
            *sequence = number;
            return Some(status);
        }
        None
    }
}

/// Writes a `CB_COMPOUND4args` that recalls a delegation.
fn write_recall(
    out: &mut Writer,
    (minor, session, number): (u32, &[u8; 16], u32),
    id: Stateid,
    handle: &[u8],
) {
    out.opaque(b"");
    for word in [minor, 0, 2, callback::SEQUENCE] {
        out.u32(word);
    }
    out.fixed(session);
    // The only slot; the answer need not be kept; it refers to no other request.
    for word in [number, 0, 0, 0, 0, callback::RECALL] {
        out.u32(word);
    }
    id.write(out);
    out.bool(false);
    out.opaque(handle);
}

/// The status of a `CB_COMPOUND4res`.
fn read_status(answer: Reader) -> Xdr<Status> {
    Ok(Status(rpc::result(answer)?.u32()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer_of(xid: u32, status: u32) -> (u32, Reader) {
        let words = [0, 0, 0, 0, status, 0, 0];
        (xid, Reader::new(words.into_iter().flat_map(u32::to_be_bytes).collect()))
    }

    #[tokio::test(start_paused = true)]
    async fn who_does_not_answer_is_asked_again_by_the_same_number() {
        let (out, mut sent) = mpsc::channel(1);
        let line = BackLine::new(&out);
        let back = Arc::new(Back::new(1, 7, Security::None));
        assert!(!back.is_up() && !back.is_down(), "nobody misses what never was");
        back.bind(&line);
        back.bind(&line);
        assert!(back.is_up() && back.lines.lock().len() == 1);
        let recall = |back: &Arc<Back>| {
            let back = back.clone();
            let asked = async move { back.recall(&[9; 16], Stateid::new(1, 2, 3), b"file").await };
            tokio::spawn(asked)
        };
        let first = recall(&back);
        let one = sent.recv().await.expect("asked").pieces.concat();
        assert_eq!(first.await.expect("ends"), None, "after a while");
        assert!(line.calls.waiting.lock().is_empty());
        let second = recall(&back);
        let two = sent.recv().await.expect("asked").pieces.concat();
        assert_eq!(one[4..], two[4..], "the same but for the number of the call");
        let (xid, answer) = answer_of(2, 10_025);
        line.answered(xid, answer);
        assert_eq!(second.await.expect("ends"), Some(Status::BAD_STATEID));
        let third = recall(&back);
        assert_ne!(sent.recv().await.expect("asked").pieces.concat()[4..], two[4..]);
        line.ended();
        assert_eq!(third.await.expect("ends"), None, "the connection is over");
        drop((out, sent));
        assert!(back.is_down());
    }
}
