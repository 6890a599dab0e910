//! How a file is read, and what of it is worth fetching before anybody asks.
//!
//! Three habits are known: reading on from where the last read ended (several places at once), in
//! equal steps, and here and there until most of the file was seen (a memory map). Pure: reads go
//! in, ranges to fetch come out.

use weir_types::{ByteRange, CHUNK_BYTES};

/// Places of one file that are read on from at the same time.
const STREAMS: usize = 8;
/// Kernels split a reader's requests, reorder them, and read some MiB ahead themselves: so many
/// requests away is sequential enough.
const NEAR_READS: u64 = 8;
/// A stream begins with this window; up to [`QUICK_BYTES`] it doubles without a look at the gain.
const FIRST_BYTES: u64 = 8 * CHUNK_BYTES;
const QUICK_BYTES: u64 = 128 * CHUNK_BYTES;
/// A window comes in at least so many parts at once: a short one must not wait for one connection.
const PARTS: u64 = 16;
/// Long windows end at multiples of this, where segments of a file written in one go do as well.
const ALIGN_BYTES: u64 = 8 * CHUNK_BYTES;
/// Equal steps in a row before the next ones are believed, and how many are fetched ahead at most.
const STEPS_MIN: u32 = 3;
const STEPS_AHEAD: u64 = 16;
/// Of a file that is read here and there: the share that must have been waited for before the rest
/// is fetched whole.
const SEEN_SHARE: u64 = 4;

/// One read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Read {
    pub(crate) offset: u64,
    pub(crate) len: u64,
    /// The file's size.
    pub(crate) size: u64,
    /// Some of it is not here yet.
    pub(crate) waits: bool,
    pub(crate) now_ms: u64,
}

/// What is worth fetching, and in which parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Ahead {
    pub(crate) start: u64,
    pub(crate) end: u64,
    /// Bytes of each GET at most.
    pub(crate) part_bytes: u64,
}

/// What one file is read like.
#[derive(Debug, Default)]
pub(crate) struct Streams {
    /// The one used last comes first.
    streams: Vec<Stream>,
    steps: Steps,
    /// Bytes that were waited for out of order.
    strayed: u64,
    /// The whole file was asked for.
    whole: bool,
}

/// A place that is read on from.
#[derive(Debug)]
struct Stream {
    /// Where the next read begins.
    next: u64,
    /// Bytes to have ahead of it; 0 until a second read shows that it goes on.
    window: u64,
    /// Up to where fetches were started.
    ahead: u64,
    /// When the window last grew, what was read since, and how fast it went before.
    since_ms: u64,
    since_bytes: u64,
    rate_before: u64,
}

/// Reads at equal distances.
#[derive(Debug, Default)]
struct Steps {
    last: u64,
    step: u64,
    seen: u32,
    /// Steps up to this offset were asked for.
    ahead: u64,
}

impl Streams {
    /// Takes note of a read; answers the ranges to fetch, none longer than `most`.
    pub(crate) fn note(&mut self, read: Read, most: u64) -> Vec<Ahead> {
        let Read { offset, len, .. } = read;
        let at = self.streams.iter().position(|s| s.is_near(offset, len));
        let mut part_bytes = u64::MAX;
        let wanted = match at {
            Some(at) => {
                self.streams[..=at].rotate_right(1);
                let stream = &mut self.streams[0];
                let wanted = Vec::from_iter(stream.go_on(read, most));
                part_bytes = (stream.window / PARTS).max(CHUNK_BYTES);
                wanted
            }
            None => {
                self.streams.truncate(STREAMS - 1);
                self.streams.insert(0, Stream::begin(read));
                let steps = self.steps.note(offset, len, most);
                match steps.is_empty() {
                    true => Vec::from_iter(self.stray(read, most)),
                    false => steps,
                }
            }
        };
        let ahead = |ByteRange { start, end }: ByteRange| Ahead {
            start,
            end: end.min(read.size),
            part_bytes,
        };
        wanted.into_iter().map(ahead).filter(|ahead| ahead.start < ahead.end).collect()
    }

    /// A read out of order.
    fn stray(&mut self, read: Read, most: u64) -> Option<ByteRange> {
        if read.waits {
            self.strayed += read.len.max(CHUNK_BYTES);
        }
        let enough = self.strayed * SEEN_SHARE >= read.size && self.strayed > 2 * CHUNK_BYTES;
        if self.whole || !enough || read.size > most.saturating_mul(16) {
            return None;
        }
        self.whole = true;
        Some(ByteRange::new(0, read.size))
    }
}

impl Stream {
    fn begin(read: Read) -> Self {
        let next = read.offset + read.len;
        let since_ms = read.now_ms;
        Self { next, window: 0, ahead: next, since_ms, since_bytes: 0, rate_before: 0 }
    }

    fn is_near(&self, offset: u64, len: u64) -> bool {
        let near = NEAR_READS * len.min(CHUNK_BYTES);
        offset <= self.next + near && offset + near >= self.next
    }

    fn go_on(&mut self, read: Read, most: u64) -> Option<ByteRange> {
        let end = read.offset + read.len;
        self.next = self.next.max(end);
        self.since_bytes += read.len;
        if self.window == 0 {
            self.window = FIRST_BYTES.min(most);
        } else if read.waits && self.window < most && self.gains(read.now_ms) {
            self.window = (self.window * 2).min(most);
        }
        let mut target = self.next + self.window;
        if self.window >= 4 * ALIGN_BYTES {
            target -= target % ALIGN_BYTES;
        }
        // Many small steps would be many small GETs.
        let step = (self.window / 4).max(CHUNK_BYTES);
        if target < self.ahead + step {
            return None;
        }
        let from = self.ahead.max(end);
        self.ahead = target;
        Some(ByteRange::new(from, target))
    }

    /// Whether a longer window is worth a try: the last one made a difference. To be asked when
    /// the reader waits although the window is fetched ahead of it.
    fn gains(&mut self, now_ms: u64) -> bool {
        if self.window < QUICK_BYTES {
            (self.since_ms, self.since_bytes) = (now_ms, 0);
            return true;
        }
        if self.since_bytes < self.window {
            return false;
        }
        let rate = self.since_bytes / (now_ms - self.since_ms).max(1);
        let gains = rate > self.rate_before + self.rate_before / 8;
        // Without a gain this waits for another window's worth, and compares again.
        self.rate_before = if gains { rate } else { rate.min(self.rate_before) };
        (self.since_ms, self.since_bytes) = (now_ms, 0);
        gains
    }
}

impl Steps {
    /// The next of equal steps, if the last ones were.
    fn note(&mut self, offset: u64, len: u64, most: u64) -> Vec<ByteRange> {
        let step = offset.saturating_sub(self.last);
        self.seen = if step == self.step && step > 0 { self.seen + 1 } else { 0 };
        (self.last, self.step) = (offset, step);
        if self.seen < STEPS_MIN {
            self.ahead = offset;
            return Vec::new();
        }
        let ahead = STEPS_AHEAD.min(2 << (self.seen - STEPS_MIN).min(8)).min(most / len.max(1));
        let first = self.ahead.max(offset);
        let steps = (1..=ahead).map(|n| offset + n * step).filter(|at| *at > first);
        let wanted: Vec<_> = steps.map(|at| ByteRange::new(at, at + len)).collect();
        if let Some(last) = wanted.last() {
            self.ahead = last.start;
        }
        wanted
    }
}

#[cfg(test)]
mod tests;
