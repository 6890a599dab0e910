//! What the mount did, minute by minute, so that somebody may ask what was used since some time.

use std::collections::VecDeque;

use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_cost::Restored;
use weir_types::StorageClass;

use crate::volume::restored::ByRestore;

/// How often a sample is taken, in milliseconds.
pub(crate) const SAMPLE_MS: u64 = 60_000;
/// Samples kept: a week.
const SAMPLES: usize = 7 * 24 * 60;

/// Counters of a mount at one moment, all since it began.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Totals {
    /// When, in milliseconds since 1970.
    pub unix_ms: u64,
    /// Bytes that files took in the volume at that moment.
    pub stored_bytes: u64,
    /// Bytes of the volume's segments in its buckets, compressed, and with what is dead in them. Up to
    /// ten minutes old; as long as they could not be counted, what files take.
    #[serde(default)]
    pub bucket_bytes: u64,
    /// Bytes of objects of linked buckets that are files, in each storage class, the first one first: there is also what
    /// no rule of a link has looked at. As old.
    #[serde(default)]
    pub linked_bytes: [u64; StorageClass::ALL.len()],
    /// Requests of the price of a PUT.
    pub put_requests: u64,
    /// Requests of the price of a GET.
    pub get_requests: u64,
    /// DELETE requests.
    pub delete_requests: u64,
    /// Bytes sent to the buckets.
    pub sent_bytes: u64,
    /// Bytes received from the buckets.
    pub received_bytes: u64,
    /// Files opened.
    pub opens: u64,
    /// Reads that the daemon answered.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Metadata operations, as the doors count them.
    pub metadata_ops: u64,
    /// Bytes that programs read through the daemon.
    pub read_bytes: u64,
    /// Bytes that programs wrote.
    pub written_bytes: u64,
    /// Opens whose reads the kernel answers, unseen.
    pub unmetered_opens: u64,
    /// What of it was in other storage classes than the first, by class.
    #[serde(default)]
    pub cold: [ColdTotals; StorageClass::COLD.len()],
    /// What was restored out of archive classes: of `GLACIER`, `DEEP_ARCHIVE` and `INTELLIGENT_TIERING`, and of each
    /// expedited, standard and in bulk.
    #[serde(default)]
    pub restored: ByRestore<RestoredTotals>,
}

/// The same of one storage class.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ColdTotals {
    /// Bytes of objects in it at that moment.
    pub bucket_bytes: u64,
    /// Objects moved into it.
    pub moved: u64,
    /// GETs of objects in it.
    pub requests: u64,
    /// Bytes that these brought.
    pub read_bytes: u64,
    /// Bytes of objects that left it too early, times the days that were left.
    pub early_byte_days: u64,
}

/// Objects that were asked to be restored in one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RestoredTotals {
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of their copies times the days for which these are kept.
    pub copy_byte_days: u64,
}

impl From<Restored> for RestoredTotals {
    fn from(restored: Restored) -> Self {
        let Restored { objects, bytes, copy_byte_days, .. } = restored;
        Self { objects, bytes, copy_byte_days }
    }
}

impl RestoredTotals {
    fn add(&mut self, other: &Self) {
        self.objects += other.objects;
        self.bytes += other.bytes;
        self.copy_byte_days += other.copy_byte_days;
    }
}

impl ColdTotals {
    fn add(&mut self, other: &Self) {
        self.moved += other.moved;
        self.requests += other.requests;
        self.read_bytes += other.read_bytes;
        self.early_byte_days += other.early_byte_days;
    }
}

impl Totals {
    /// Adds what was counted elsewhere. What is of a moment stays.
    pub(super) fn add(&mut self, other: &Self) {
        self.put_requests += other.put_requests;
        self.get_requests += other.get_requests;
        self.delete_requests += other.delete_requests;
        self.sent_bytes += other.sent_bytes;
        self.received_bytes += other.received_bytes;
        self.opens += other.opens;
        self.reads += other.reads;
        self.writes += other.writes;
        self.metadata_ops += other.metadata_ops;
        self.read_bytes += other.read_bytes;
        self.written_bytes += other.written_bytes;
        self.unmetered_opens += other.unmetered_opens;
        self.cold.iter_mut().zip(&other.cold).for_each(|(sum, other)| sum.add(other));
        let restored = self.restored.as_flattened_mut().iter_mut();
        restored.zip(other.restored.as_flattened()).for_each(|(sum, other)| sum.add(other));
    }
}

/// What was used between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Period {
    /// When it began, in milliseconds since 1970.
    pub from_unix_ms: u64,
    /// Bytes that files took, as an average over it.
    pub average_stored_bytes: u64,
    /// Bytes of the volume's segments in its buckets, as an average over it.
    #[serde(default)]
    pub average_bucket_bytes: u64,
    /// Of these the bytes in each other storage class than the first, in their order, as an average.
    #[serde(default)]
    pub average_cold_bytes: [u64; StorageClass::COLD.len()],
    /// Bytes of objects of linked buckets that are files, in each storage class, as an average.
    #[serde(default)]
    pub average_linked_bytes: [u64; StorageClass::ALL.len()],
    /// Counters of it, and the moment that it ended.
    pub used: Totals,
}

/// Samples, oldest first.
#[derive(Default)]
pub(crate) struct History(Mutex<VecDeque<Totals>>);

impl History {
    pub(crate) fn add(&self, totals: Totals) {
        let mut samples = self.samples();
        if samples.len() == SAMPLES {
            // The first one is that of the mount.
            samples.remove(1);
        }
        samples.push_back(totals);
    }

    /// What was used since about that time, or since the mount.
    pub(crate) fn since(&self, unix_ms: Option<u64>, now: Totals) -> Period {
        let samples = self.samples();
        let begin = *samples.get(first(&samples, unix_ms)).unwrap_or(&now);
        let within = samples.iter().filter(|s| s.unix_ms > begin.unix_ms).copied().chain([now]);
        Period {
            from_unix_ms: begin.unix_ms,
            average_stored_bytes: average(begin, within.clone(), |of| of.stored_bytes),
            average_bucket_bytes: average(begin, within.clone(), |of| of.bucket_bytes),
            average_cold_bytes: std::array::from_fn(|at| {
                average(begin, within.clone(), |of| of.cold[at].bucket_bytes)
            }),
            average_linked_bytes: std::array::from_fn(|at| {
                average(begin, within.clone(), |of| of.linked_bytes[at])
            }),
            used: between(&begin, &now),
        }
    }

    /// The sample of about that time, those after it, and the present.
    pub(crate) fn each_since(&self, unix_ms: Option<u64>, now: Totals) -> Vec<Totals> {
        let samples = self.samples();
        samples.iter().skip(first(&samples, unix_ms)).copied().chain([now]).collect()
    }

    /// The last sample.
    pub(super) fn last(&self) -> Option<Totals> {
        self.samples().back().copied()
    }

    fn samples(&self) -> MutexGuard<'_, VecDeque<Totals>> {
        self.0.lock()
    }
}

/// Where the samples begin of which somebody asks since some time: the one before it, else the first.
fn first(samples: &VecDeque<Totals>, unix_ms: Option<u64>) -> usize {
    let before = |unix_ms| samples.iter().rposition(|s| s.unix_ms <= unix_ms);
    unix_ms.and_then(before).unwrap_or(0)
}

/// Bytes of samples, each sample's until the next one's time.
fn average(
    begin: Totals,
    later: impl Iterator<Item = Totals>,
    bytes: impl Fn(&Totals) -> u64,
) -> u64 {
    let (mut at, mut sum, mut last) = (begin, 0_u128, begin);
    for sample in later {
        sum += u128::from(bytes(&at)) * u128::from(sample.unix_ms.saturating_sub(at.unix_ms));
        (at, last) = (sample, sample);
    }
    match last.unix_ms.saturating_sub(begin.unix_ms) {
        0 => bytes(&last),
        ms => u64::try_from(sum / u128::from(ms)).unwrap_or(u64::MAX),
    }
}

fn between(begin: &Totals, end: &Totals) -> Totals {
    let minus = |of: fn(&Totals) -> u64| of(end).saturating_sub(of(begin));
    Totals {
        unix_ms: end.unix_ms,
        stored_bytes: end.stored_bytes,
        bucket_bytes: end.bucket_bytes,
        linked_bytes: end.linked_bytes,
        put_requests: minus(|t| t.put_requests),
        get_requests: minus(|t| t.get_requests),
        delete_requests: minus(|t| t.delete_requests),
        sent_bytes: minus(|t| t.sent_bytes),
        received_bytes: minus(|t| t.received_bytes),
        opens: minus(|t| t.opens),
        reads: minus(|t| t.reads),
        writes: minus(|t| t.writes),
        metadata_ops: minus(|t| t.metadata_ops),
        read_bytes: minus(|t| t.read_bytes),
        written_bytes: minus(|t| t.written_bytes),
        unmetered_opens: minus(|t| t.unmetered_opens),
        cold: std::array::from_fn(|at| cold_between(&begin.cold[at], &end.cold[at])),
        restored: std::array::from_fn(|class| {
            let (begin, end) = (&begin.restored[class], &end.restored[class]);
            std::array::from_fn(|tier| restored_between(&begin[tier], &end[tier]))
        }),
    }
}

fn restored_between(begin: &RestoredTotals, end: &RestoredTotals) -> RestoredTotals {
    RestoredTotals {
        objects: end.objects.saturating_sub(begin.objects),
        bytes: end.bytes.saturating_sub(begin.bytes),
        copy_byte_days: end.copy_byte_days.saturating_sub(begin.copy_byte_days),
    }
}

fn cold_between(begin: &ColdTotals, end: &ColdTotals) -> ColdTotals {
    let minus = |of: fn(&ColdTotals) -> u64| of(end).saturating_sub(of(begin));
    ColdTotals {
        bucket_bytes: end.bucket_bytes,
        moved: minus(|t| t.moved),
        requests: minus(|t| t.requests),
        read_bytes: minus(|t| t.read_bytes),
        early_byte_days: minus(|t| t.early_byte_days),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(unix_ms: u64, stored_bytes: u64, get_requests: u64) -> Totals {
        Totals { unix_ms, stored_bytes, get_requests, ..Totals::default() }
    }

    #[test]
    fn a_period_is_what_came_since_the_sample_before_its_time() {
        let history = History::default();
        for minute in 0..5 {
            history.add(at(minute * SAMPLE_MS, 100 * minute, 10 * minute));
        }
        let now = at(5 * SAMPLE_MS, 900, 77);
        let period = history.since(Some(3 * SAMPLE_MS + 5), now);
        assert_eq!((period.from_unix_ms, period.used.get_requests), (3 * SAMPLE_MS, 47));
        // 300 for a minute and 400 for a minute.
        assert_eq!(period.average_stored_bytes, 350);
        let all = history.since(None, now);
        assert_eq!((all.from_unix_ms, all.used.get_requests), (0, 77));
        assert_eq!(history.since(Some(0), now), all);
    }

    #[test]
    fn each_minute_is_told_from_the_one_before_up_to_now() {
        let history = History::default();
        let now = at(5 * SAMPLE_MS + 1, 900, 77);
        assert_eq!(history.each_since(Some(7), now), [now], "nothing was looked at yet");
        for minute in 1..=5 {
            history.add(at(minute * SAMPLE_MS, 100, 10 * minute));
        }
        let gets = |since| {
            let told = history.each_since(since, now);
            told.iter().map(|totals| totals.get_requests).collect::<Vec<_>>()
        };
        assert_eq!(gets(Some(3 * SAMPLE_MS + 5)), [30, 40, 50, 77]);
        assert_eq!(gets(Some(9 * SAMPLE_MS)), [50, 77]);
        assert_eq!(gets(None), [10, 20, 30, 40, 50, 77]);
        assert_eq!(gets(Some(0)), gets(None), "it knows of no earlier one");
    }

    #[test]
    fn the_week_before_last_is_forgotten_but_not_the_mount() {
        let history = History::default();
        for minute in 0..SAMPLES as u64 + 100 {
            history.add(at(minute * SAMPLE_MS, 1, minute));
        }
        assert_eq!(history.samples().len(), SAMPLES);
        let now = at((SAMPLES as u64 + 100) * SAMPLE_MS, 1, 0);
        assert_eq!(history.since(None, now).from_unix_ms, 0);
        assert_eq!(history.since(Some(50 * SAMPLE_MS), now).from_unix_ms, 0, "says so");
        assert_eq!(history.since(Some(200 * SAMPLE_MS), now).from_unix_ms, 200 * SAMPLE_MS);
    }
}
