//! What this node gets for all: each part of an object once, for all who want it at the same time or a
//! little later. In memory, and no more of that than was allowed.

use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use tokio::sync::{Semaphore, watch};
use tokio::time::Instant;
use weir_peer::{GIVEN_BYTES, Object};
use weir_types::{ErrorKind, FsError, Result};

use super::source::Source;

/// GETs for all at once.
const GETS: usize = 16;
/// How long what nobody asks for is kept.
const KEPT: Duration = Duration::from_secs(30);

type Outcome = Option<Result<Bytes, Arc<FsError>>>;

/// Part of an object that is here or on its way.
struct Part {
    range: Range<u64>,
    outcome: watch::Receiver<Outcome>,
}

/// Parts of one piece of an object, in order, none over another.
struct Parts {
    used: Instant,
    list: Vec<Part>,
}

#[derive(Default)]
struct State {
    pieces: HashMap<(Object, u64), Parts>,
    bytes: u64,
}

/// What is held.
pub(crate) struct Held {
    source: Arc<Source>,
    most: u64,
    state: Mutex<State>,
    gets: Semaphore,
}

/// A part that somebody has to get.
struct Due {
    range: Range<u64>,
    sender: watch::Sender<Outcome>,
}

impl Held {
    pub(super) fn new(source: Arc<Source>, most: u64) -> Self {
        Self { source, most, state: Mutex::default(), gets: Semaphore::new(GETS) }
    }

    /// A range that lies within one piece of an object. One GET for each part of it that is not here.
    pub(super) async fn get(self: &Arc<Self>, object: &Object, range: Range<u64>) -> Result<Bytes> {
        let Some((parts, due)) = self.state.lock().plan(object, &range, self.most) else {
            return self.ask(object, range).await;
        };
        for due in due {
            let (held, object) = (self.clone(), object.clone());
            tokio::spawn(async move { held.bring(object, due).await });
        }
        let mut whole = BytesMut::new();
        for (part, mut outcome) in parts {
            let stopped = || FsError::new(ErrorKind::Retry, "a fetch for other nodes was stopped");
            let bytes = match outcome.wait_for(Option::is_some).await.as_deref() {
                Ok(Some(Ok(bytes))) => bytes.clone(),
                Ok(Some(Err(error))) => return Err(error.share()),
                _ => return Err(stopped()),
            };
            let (low, high) = (range.start.max(part.start), range.end.min(part.end));
            let bytes = bytes.slice((low - part.start) as usize..(high - part.start) as usize);
            if low == range.start && high == range.end {
                return Ok(bytes);
            }
            whole.reserve((range.end - low) as usize);
            whole.extend_from_slice(&bytes);
        }
        Ok(whole.freeze())
    }

    async fn ask(&self, object: &Object, range: Range<u64>) -> Result<Bytes> {
        // Never closed.
        let _turn = self.gets.acquire().await;
        self.source.get(object, range).await
    }

    async fn bring(&self, object: Object, due: Due) {
        let got = self.ask(&object, due.range.clone()).await;
        if got.is_err() {
            self.state.lock().remove(&object, &due.range);
        }
        let _ = due.sender.send(Some(got.map_err(Arc::new)));
    }

    pub(super) fn forget(&self, object: &Object) {
        self.state.lock().drop_where(|(of, _), _| of == object);
    }

    /// Lets go of what nobody asked for lately.
    pub(super) fn sweep(&self) {
        self.state.lock().drop_where(|_, parts| parts.used.elapsed() > KEPT);
    }

    /// Bytes that are here or on their way.
    #[cfg(test)]
    pub(super) fn bytes(&self) -> u64 {
        self.state.lock().bytes
    }
}

type Plan = (Vec<(Range<u64>, watch::Receiver<Outcome>)>, Vec<Due>);

impl State {
    /// The parts that make up a range, in order, and those of them that somebody has to get. `None` if
    /// there is no room for these.
    fn plan(&mut self, object: &Object, range: &Range<u64>, most: u64) -> Option<Plan> {
        let key = (object.clone(), range.start / GIVEN_BYTES);
        let missing = self.pieces.get(&key).map_or(vec![range.clone()], |p| p.missing(range));
        let wanted: u64 = missing.iter().map(|gap| gap.end - gap.start).sum();
        if !self.make_room(&key, wanted, most) {
            return None;
        }
        self.bytes += wanted;
        let new = || Parts { used: Instant::now(), list: Vec::new() };
        let parts = self.pieces.entry(key).or_insert_with(new);
        parts.used = Instant::now();
        let mut due = Vec::new();
        for range in missing {
            let (sender, outcome) = watch::channel(None);
            parts.list.push(Part { range: range.clone(), outcome });
            due.push(Due { range, sender });
        }
        parts.list.sort_unstable_by_key(|part| part.range.start);
        let within = parts.list.iter().filter(|part| overlap(&part.range, range));
        Some((within.map(|part| (part.range.clone(), part.outcome.clone())).collect(), due))
    }

    /// Lets go of what was asked for longest ago, except for this piece and what is on its way.
    fn make_room(&mut self, keep: &(Object, u64), wanted: u64, most: u64) -> bool {
        while self.bytes + wanted > most {
            let whole = self.pieces.iter().filter(|(key, parts)| *key != keep && parts.is_here());
            let oldest = whole.min_by_key(|(_, parts)| parts.used).map(|(key, _)| key.clone());
            let Some(oldest) = oldest else { return false };
            self.drop_where(|key, _| *key == oldest);
        }
        true
    }

    /// Lets go of pieces; not of what is on its way.
    fn drop_where(&mut self, which: impl Fn(&(Object, u64), &Parts) -> bool) {
        let gone = self.pieces.extract_if(|key, parts| parts.is_here() && which(key, parts));
        let bytes: u64 = gone.map(|(_, parts)| parts.bytes()).sum();
        self.bytes -= bytes;
    }

    /// Takes a part out that could not be had.
    fn remove(&mut self, object: &Object, range: &Range<u64>) {
        let key = (object.clone(), range.start / GIVEN_BYTES);
        let Some(parts) = self.pieces.get_mut(&key) else { return };
        let before = parts.bytes();
        parts.list.retain(|part| part.range != *range);
        self.bytes -= before - parts.bytes();
        if parts.list.is_empty() {
            self.pieces.remove(&key);
        }
    }
}

impl Parts {
    /// What of a range is neither here nor on its way.
    fn missing(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let (mut missing, mut at) = (Vec::new(), range.start);
        for part in self.list.iter().filter(|part| overlap(&part.range, range)) {
            if at < part.range.start {
                missing.push(at..part.range.start);
            }
            at = at.max(part.range.end);
        }
        if at < range.end {
            missing.push(at..range.end);
        }
        missing
    }

    fn bytes(&self) -> u64 {
        self.list.iter().map(|part| part.range.end - part.range.start).sum()
    }

    fn is_here(&self) -> bool {
        self.list.iter().all(|part| part.outcome.borrow().is_some())
    }
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}
