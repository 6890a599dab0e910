//! Counts every request that leaves for a bucket, by who asked and what was asked.
//!
//! Each attempt is one request, answered or not: that is what a service bills. A listing counts
//! one request for each page of 1,000 keys, a multipart upload one for each part and one each to
//! begin and to complete it. Cheap to clone and to count on: atomics only.

use std::collections::HashMap;
use std::ops::Sub;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::SegmentId;

use crate::reads::{SegmentRead, SegmentReads};
use crate::request::{Component, RequestKind};
use crate::trouble::{Trouble, Troubles};

/// Number of latency buckets: bucket `i` counts requests that took from 2^i to 2^(i+1)
/// microseconds (the first also 0, the last also more), up to 134 s.
pub const LATENCY_BUCKETS: usize = 27;

#[derive(Default)]
struct Cell {
    requests: AtomicU64,
    failed: AtomicU64,
    retries: AtomicU64,
    hedges: AtomicU64,
    bytes_sent: AtomicU64,
    bytes_received: AtomicU64,
    latency_us_sum: AtomicU64,
    buckets: [AtomicU64; LATENCY_BUCKETS],
}

/// The counters. Clones share them.
#[derive(Clone, Default)]
pub struct Meter {
    cells: Arc<[[Cell; RequestKind::ALL.len()]; Component::ALL.len()]>,
    pub(crate) troubles: Arc<Troubles>,
    pub(crate) reads: Arc<SegmentReads>,
}

/// How one request went.
pub(crate) struct Counted {
    /// Requests that it took: more than one for a listing of several pages.
    pub(crate) requests: u64,
    /// The answer was an error of the service or of the way to it.
    pub(crate) failed: bool,
    /// It repeats an earlier attempt.
    pub(crate) retry: bool,
    /// It was sent because another one was slow.
    pub(crate) hedge: bool,
    pub(crate) bytes_sent: u64,
    pub(crate) bytes_received: u64,
    pub(crate) latency: Duration,
}

impl Meter {
    /// Counters at zero.
    pub fn new() -> Self {
        Self::default()
    }

    pub(crate) fn count(&self, component: Component, kind: RequestKind, counted: &Counted) {
        let cell = &self.cells[component as usize][kind as usize];
        let add = |counter: &AtomicU64, n: u64| counter.fetch_add(n, Ordering::Relaxed);
        let latency_us = u64::try_from(counted.latency.as_micros()).unwrap_or(u64::MAX);
        add(&cell.requests, counted.requests);
        add(&cell.failed, counted.failed.into());
        add(&cell.retries, counted.retry.into());
        add(&cell.hedges, counted.hedge.into());
        add(&cell.bytes_sent, counted.bytes_sent);
        add(&cell.bytes_received, counted.bytes_received);
        add(&cell.latency_us_sum, latency_us);
        let bucket = (latency_us.max(1).ilog2() as usize).min(LATENCY_BUCKETS - 1);
        add(&cell.buckets[bucket], counted.requests);
    }

    /// From now on it notes which segments are read; [`Meter::take_segment_reads`] is to be called now and then.
    pub fn watch_segments(&self) {
        self.reads.watch();
    }

    /// Which segments were read from their buckets since this was asked the last time.
    pub fn take_segment_reads(&self) -> HashMap<SegmentId, SegmentRead> {
        self.reads.take()
    }

    /// Gives back what could not be noted, to be taken again.
    pub fn give_segment_reads_back(&self, read: HashMap<SegmentId, SegmentRead>) {
        self.reads.give_back(read);
    }

    /// What failed last, of each who asked and each that was asked; also what is over.
    pub fn troubles(&self) -> Vec<Trouble> {
        self.troubles.all()
    }

    /// The counters as they stand. Counters of one row are read one after the other: while
    /// requests run, they may be a request apart.
    pub fn snapshot(&self) -> MeterSnapshot {
        let mut rows = Vec::new();
        for component in Component::ALL {
            for kind in RequestKind::ALL {
                let cell = &self.cells[component as usize][kind as usize];
                let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
                if get(&cell.requests) == 0 {
                    continue;
                }
                rows.push(MeterRow {
                    component,
                    kind,
                    requests: get(&cell.requests),
                    failed: get(&cell.failed),
                    retries: get(&cell.retries),
                    hedges: get(&cell.hedges),
                    bytes_sent: get(&cell.bytes_sent),
                    bytes_received: get(&cell.bytes_received),
                    latency_us_sum: get(&cell.latency_us_sum),
                    buckets: cell.buckets.iter().map(get).collect(),
                });
            }
        }
        MeterSnapshot::of(rows)
    }
}

/// What one component asked of one kind.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeterRow {
    /// Who asked.
    pub component: Component,
    /// What was asked.
    pub kind: RequestKind,
    /// Requests sent, attempts that failed included.
    pub requests: u64,
    /// Those of them that failed: refused, timed out, cut off. "No such key" is an answer.
    pub failed: u64,
    /// Those of them that repeated an earlier attempt.
    pub retries: u64,
    /// Those of them that were sent beside one that was slow.
    #[serde(default)]
    pub hedges: u64,
    /// Bytes of bodies sent.
    pub bytes_sent: u64,
    /// Bytes of bodies received.
    pub bytes_received: u64,
    /// Sum of all latencies, in microseconds.
    pub latency_us_sum: u64,
    /// Requests by latency: the n-th number is of those below the n-th of `bounds_us`, and not below the
    /// one before; the last, which has none, of those above all.
    pub buckets: Vec<u64>,
}

/// The counters of a [`Meter`] at one moment, or between two. Rows without requests are left out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct MeterSnapshot {
    /// By component, then by kind.
    pub rows: Vec<MeterRow>,
    /// What divides `buckets` of each row, in microseconds: 2, 4, 8 and so on up to 134 s. One fewer
    /// than buckets.
    #[serde(default = "bounds_us")]
    pub bounds_us: Vec<u64>,
}

fn bounds_us() -> Vec<u64> {
    (1..LATENCY_BUCKETS).map(|n| 1 << n).collect()
}

impl Default for MeterSnapshot {
    fn default() -> Self {
        Self::of(Vec::new())
    }
}

impl MeterSnapshot {
    fn of(rows: Vec<MeterRow>) -> Self {
        Self { rows, bounds_us: bounds_us() }
    }

    /// The row of `component` and `kind`, if there was any request.
    pub fn row(&self, component: Component, kind: RequestKind) -> Option<&MeterRow> {
        self.rows.iter().find(|row| row.component == component && row.kind == kind)
    }

    /// Requests of `kind`, by anybody.
    pub fn requests(&self, kind: RequestKind) -> u64 {
        self.rows.iter().filter(|row| row.kind == kind).map(|row| row.requests).sum()
    }

    /// Bytes received, by anybody.
    pub fn bytes_received(&self) -> u64 {
        self.rows.iter().map(|row| row.bytes_received).sum()
    }

    /// Bytes sent, by anybody.
    pub fn bytes_sent(&self) -> u64 {
        self.rows.iter().map(|row| row.bytes_sent).sum()
    }
}

/// What happened between two snapshots of one meter: `later - earlier`.
impl Sub for &MeterSnapshot {
    type Output = MeterSnapshot;

    fn sub(self, earlier: &MeterSnapshot) -> MeterSnapshot {
        let rows = self.rows.iter().map(|row| match earlier.row(row.component, row.kind) {
            Some(before) => MeterRow {
                component: row.component,
                kind: row.kind,
                requests: row.requests.saturating_sub(before.requests),
                failed: row.failed.saturating_sub(before.failed),
                retries: row.retries.saturating_sub(before.retries),
                hedges: row.hedges.saturating_sub(before.hedges),
                bytes_sent: row.bytes_sent.saturating_sub(before.bytes_sent),
                bytes_received: row.bytes_received.saturating_sub(before.bytes_received),
                latency_us_sum: row.latency_us_sum.saturating_sub(before.latency_us_sum),
                buckets: std::iter::zip(&row.buckets, &before.buckets)
                    .map(|(now, then)| now.saturating_sub(*then))
                    .collect(),
            },
            None => row.clone(),
        });
        MeterSnapshot::of(rows.filter(|row| row.requests > 0).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn get(latency_us: u64) -> Counted {
        Counted {
            requests: 1,
            failed: false,
            retry: false,
            hedge: false,
            bytes_sent: 0,
            bytes_received: 10,
            latency: Duration::from_micros(latency_us),
        }
    }

    #[test]
    fn rows_add_up_and_subtract() {
        let meter = Meter::new();
        meter.count(Component::Data, RequestKind::Get, &get(0));
        meter.count(Component::Data, RequestKind::Get, &get(5));
        let before = meter.snapshot();
        meter.clone().count(Component::Data, RequestKind::Get, &get(u64::MAX));
        meter.count(Component::Meta, RequestKind::Put, &Counted { failed: true, ..get(9) });
        let between = &meter.snapshot() - &before;
        let row = between.row(Component::Data, RequestKind::Get).expect("counted");
        assert_eq!((row.requests, row.failed, row.bytes_received), (1, 0, 10));
        assert_eq!(row.buckets[LATENCY_BUCKETS - 1], 1);
        let row = before.row(Component::Data, RequestKind::Get).expect("counted");
        assert_eq!((row.buckets[0], row.buckets[2], row.latency_us_sum), (1, 1, 5));
        assert_eq!(between.row(Component::Meta, RequestKind::Put).map(|r| r.failed), Some(1));
        assert_eq!(between.rows.len(), 2);
        assert_eq!((&before - &before).rows, []);
    }

    #[test]
    fn snapshots_are_plain_data() {
        let meter = Meter::new();
        meter.count(Component::Link, RequestKind::List, &get(100));
        let json = serde_json::to_string(&meter.snapshot()).expect("json");
        assert!(json.contains("\"component\":\"link\",\"kind\":\"list\""), "{json}");
        assert_eq!(serde_json::from_str::<MeterSnapshot>(&json).expect("json"), meter.snapshot());
        // 100 us are between 64 and 128.
        let MeterSnapshot { rows, bounds_us } = meter.snapshot();
        assert_eq!(
            (rows[0].buckets.len(), bounds_us.len()),
            (LATENCY_BUCKETS, LATENCY_BUCKETS - 1)
        );
        assert_eq!((bounds_us[5], bounds_us[6], rows[0].buckets[6]), (64, 128, 1));
    }
}
