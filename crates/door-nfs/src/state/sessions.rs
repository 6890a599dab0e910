//! Sessions: each request of a client is done once, however often it comes.

use bytes::Bytes;
use parking_lot::Mutex;

use super::back::Back;
use crate::protocol::status::Status;
use crate::protocol::xdr::{Reader, Writer, Xdr};

/// Requests of one session under way at once, at most.
const SLOTS_MAX: u32 = 64;
/// Operations of one request.
const OPS_MAX: u32 = 64;
/// What a request and an answer may have beside 1 MiB of data.
const BESIDE_DATA_BYTES: u32 = 16 << 10;
/// Data of one request.
pub(crate) const DATA_BYTES_MAX: u32 = 1 << 20;
/// An answer that is kept: 64 slots keep 512 KiB at most.
const CACHED_BYTES_MAX: u32 = 8 << 10;
/// With less a client could not be told that it is too little.
const BYTES_MIN: u32 = 512;

/// The name of a session.
pub(crate) type SessionId = [u8; 16];

/// What a session's channel takes (`channel_attrs4`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Channel {
    pub(crate) request_bytes: u32,
    pub(crate) response_bytes: u32,
    pub(crate) cached_bytes: u32,
    pub(crate) ops: u32,
    pub(crate) slots: u32,
}

impl Channel {
    pub(crate) fn read(input: &mut Reader) -> Xdr<Self> {
        let _pad = input.u32()?;
        let channel = Self {
            request_bytes: input.u32()?,
            response_bytes: input.u32()?,
            cached_bytes: input.u32()?,
            ops: input.u32()?,
            slots: input.u32()?,
        };
        let _rdma = input.list(1, Reader::u32)?;
        Ok(channel)
    }

    pub(crate) fn write(&self, out: &mut Writer) {
        let Self { request_bytes, response_bytes, cached_bytes, ops, slots } = *self;
        for word in [0, request_bytes, response_bytes, cached_bytes, ops, slots, 0] {
            out.u32(word);
        }
    }

    /// Whether it has room for what the server asks of a client.
    pub(crate) fn is_way_back(&self) -> bool {
        self.request_bytes >= BYTES_MIN
            && self.response_bytes >= BYTES_MIN
            && self.ops >= 2
            && self.slots > 0
    }

    /// What of this a session here has.
    pub(crate) fn granted(self) -> Result<Self, Status> {
        if self.request_bytes < BYTES_MIN || self.response_bytes < BYTES_MIN {
            return Err(Status::TOOSMALL);
        }
        if self.ops == 0 || self.slots == 0 {
            return Err(Status::INVAL);
        }
        let bytes_max = DATA_BYTES_MAX + BESIDE_DATA_BYTES;
        Ok(Self {
            request_bytes: self.request_bytes.min(bytes_max),
            response_bytes: self.response_bytes.min(bytes_max),
            cached_bytes: self.cached_bytes.min(CACHED_BYTES_MAX),
            ops: self.ops.min(OPS_MAX),
            slots: self.slots.min(SLOTS_MAX),
        })
    }
}

/// A session of a client.
pub(crate) struct Session {
    pub(crate) id: SessionId,
    pub(crate) client: u64,
    pub(crate) channel: Channel,
    /// `None` where the client offers no way back.
    pub(crate) back: Option<Back>,
    slots: Mutex<Vec<Slot>>,
}

#[derive(Clone, Debug, Default)]
struct Slot {
    sequence: u32,
    answer: Kept,
}

#[derive(Clone, Debug, Default)]
enum Kept {
    /// There was no request yet.
    #[default]
    Nothing,
    /// It is under way.
    UnderWay,
    /// The client did not want the answer kept.
    Left,
    Answer(Vec<Bytes>),
}

/// What becomes of a request.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It is done, and its end told by [`Session::done`].
    New,
    /// It was done before; this is what was answered.
    Again(Vec<Bytes>),
}

impl Session {
    pub(crate) fn new(id: SessionId, client: u64, channel: Channel, back: Option<Back>) -> Self {
        let slots = vec![Slot::default(); channel.slots as usize];
        Self { id, client, channel, back, slots: Mutex::new(slots) }
    }

    /// The highest slot.
    pub(crate) fn highest(&self) -> u32 {
        self.channel.slots - 1
    }

    /// Takes a slot for a request.
    pub(crate) fn begin(&self, slot: u32, sequence: u32) -> Result<Turn, Status> {
        let mut slots = self.slots.lock();
        let slot = slots.get_mut(slot as usize).ok_or(Status::BADSLOT)?;
        if sequence == slot.sequence.wrapping_add(1) {
            if matches!(slot.answer, Kept::UnderWay) {
                return Err(Status::SEQ_MISORDERED);
            }
            slot.sequence = sequence;
            slot.answer = Kept::UnderWay;
            return Ok(Turn::New);
        }
        if sequence != slot.sequence {
            return Err(Status::SEQ_MISORDERED);
        }
        match &slot.answer {
            Kept::Nothing => Err(Status::SEQ_MISORDERED),
            // It comes over the connection that it came by, or is asked for again.
            Kept::UnderWay => Err(Status::DELAY),
            Kept::Left => Err(Status::RETRY_UNCACHED_REP),
            Kept::Answer(answer) => Ok(Turn::Again(answer.clone())),
        }
    }

    /// A request is done; its answer is kept if there is one.
    pub(crate) fn done(&self, slot: u32, answer: Option<Vec<Bytes>>) {
        if let Some(slot) = self.slots.lock().get_mut(slot as usize) {
            slot.answer = answer.map_or(Kept::Left, Kept::Answer);
        }
    }

    /// Whether requests are under way, but for this many.
    pub(crate) fn is_busy(&self, but_for: usize) -> bool {
        let under_way = |slot: &&Slot| matches!(slot.answer, Kept::UnderWay);
        self.slots.lock().iter().filter(under_way).count() > but_for
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn session() -> Session {
        let asked = Channel {
            request_bytes: u32::MAX,
            response_bytes: 4_096,
            cached_bytes: 100,
            ops: 8,
            slots: 2,
        };
        Session::new([1; 16], 7, asked.granted().expect("enough"), None)
    }

    #[test]
    fn a_request_that_comes_again_is_not_done_again() {
        let session = session();
        assert!(matches!(session.begin(0, 1), Ok(Turn::New)));
        assert_eq!(session.begin(0, 1).err(), Some(Status::DELAY), "it is under way");
        assert_eq!(session.begin(0, 2).err(), Some(Status::SEQ_MISORDERED));
        session.done(0, Some(vec![Bytes::from_static(b"abc")]));
        let Ok(Turn::Again(answer)) = session.begin(0, 1) else { panic!("it was kept") };
        assert_eq!(answer.concat(), b"abc");
        assert!(matches!(session.begin(0, 2), Ok(Turn::New)));
        session.done(0, None);
        assert_eq!(session.begin(0, 2).err(), Some(Status::RETRY_UNCACHED_REP));
        assert_eq!(session.begin(0, 1).err(), Some(Status::SEQ_MISORDERED));
        assert_eq!(session.begin(1, 0).err(), Some(Status::SEQ_MISORDERED), "none was");
        assert_eq!(session.begin(2, 1).err(), Some(Status::BADSLOT));
    }

    #[test]
    fn nobody_gets_more_than_there_is() {
        let channel = session().channel;
        assert_eq!(channel.request_bytes, DATA_BYTES_MAX + BESIDE_DATA_BYTES);
        assert_eq!((channel.response_bytes, channel.cached_bytes), (4_096, 100));
        let tiny = Channel { request_bytes: 100, ..channel };
        assert_eq!(tiny.granted(), Err(Status::TOOSMALL));
    }
}
