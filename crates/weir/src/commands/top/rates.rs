//! What happened between two looks at a daemon.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use serde::Serialize;
use weir_cost::{Prices, Requests, Usage, per_hour};
use weir_engine::{ActionState, ActionView, TenantView, ThroughputReport};
use weir_object::{MeterSnapshot, RequestKind};
use weir_types::Result;

use crate::api::{GetThroughput, ListActions, StatusAnswer};
use crate::client::Client;

/// All that is asked of a daemon at one moment.
pub(super) struct Sample {
    pub(super) at: Instant,
    pub(super) status: StatusAnswer,
    pub(super) throughput: ThroughputReport,
    /// Those that have not ended.
    pub(super) actions: Vec<ActionView>,
}

impl Sample {
    pub(super) async fn take(client: &Client) -> Result<Sample> {
        let status = client.status().await?;
        let throughput = client.call(&GetThroughput {}).await?;
        let mut actions = client.call(&ListActions {}).await?;
        actions.retain(|of| matches!(of.state, ActionState::Waiting | ActionState::Running));
        Ok(Sample { at: Instant::now(), status, throughput, actions })
    }
}

/// Rates of one interval. Bytes and counts are for a second, but requests to the bucket, which are
/// few, for a minute.
#[derive(Clone, Debug, Default, Serialize)]
pub(super) struct Rates {
    /// How long the interval was.
    pub(super) seconds: f64,
    /// Through the daemon, from wherever.
    pub(super) read_bytes_per_s: u64,
    pub(super) written_bytes_per_s: u64,
    /// From the bucket, read-ahead and hydration among it.
    pub(super) fetched_bytes_per_s: u64,
    pub(super) flushed_bytes_per_s: u64,
    /// Of the bytes read through the daemon, those that nobody had to fetch for it. `null` if
    /// nothing was read.
    pub(super) hit_percent: Option<f64>,
    /// Opens whose reads the kernel answers itself.
    pub(super) passthrough_opens_per_s: f64,
    pub(super) other_opens_per_s: f64,
    /// Requests of the kernel, of all kinds.
    pub(super) operations_per_s: f64,
    /// What I/Os waited for throughput limits and the budget, in milliseconds for each second.
    pub(super) waited_ms_per_s: f64,
    /// Requests to the bucket, by whom and of which kind.
    pub(super) requests: Vec<RequestRate>,
    pub(super) requests_per_min: f64,
    /// At list prices, if all went on so for an hour: requests, and keeping what is stored.
    pub(super) nano_usd_per_hour: i64,
    /// Directories and users that did anything, who moved most first.
    pub(super) tenants: Vec<TenantRate>,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct RequestRate {
    pub(super) component: String,
    pub(super) kind: String,
    pub(super) per_min: f64,
    pub(super) failed_per_min: f64,
    pub(super) mean_ms: f64,
}

#[derive(Clone, Debug, Serialize)]
pub(super) struct TenantRate {
    pub(super) path: String,
    pub(super) user: u32,
    pub(super) read_bytes_per_s: u64,
    pub(super) written_bytes_per_s: u64,
    pub(super) fetched_bytes_per_s: u64,
    pub(super) waited_ms_per_s: f64,
}

impl Rates {
    pub(super) fn between(before: &Sample, now: &Sample, prices: Prices<'_>) -> Rates {
        let elapsed = now.at.saturating_duration_since(before.at);
        let seconds = elapsed.as_secs_f64().max(1e-3);
        let each = |now: u64, before: u64| now.saturating_sub(before) as f64 / seconds;
        let bytes = |now: u64, before: u64| each(now, before) as u64;
        let (then, since) = (&before.status.engine.since_mount, &now.status.engine.since_mount);
        let opens = |sample: &Sample| {
            let passthrough = sample.status.passthrough.as_ref();
            passthrough.map_or((0, 0), |state| (state.opens, state.other_opens))
        };
        let ((by_kernel, by_daemon), (kernel_before, daemon_before)) = (opens(now), opens(before));
        let operations = |sample: &Sample| sample.status.fuse_requests.values().sum::<u64>();
        let tenants = tenants(&before.throughput.tenants, &now.throughput.tenants, seconds);
        let read: u64 = tenants.iter().map(|of| of.read_bytes_per_s).sum();
        let missed: u64 = tenants.iter().map(|of| of.fetched_bytes_per_s).sum();
        let asked = &now.status.engine.requests - &before.status.engine.requests;
        let requests = requests(&asked, seconds);
        Rates {
            seconds,
            read_bytes_per_s: bytes(since.bytes_read, then.bytes_read),
            written_bytes_per_s: bytes(since.bytes_written, then.bytes_written),
            fetched_bytes_per_s: bytes(since.bytes_fetched, then.bytes_fetched),
            flushed_bytes_per_s: bytes(since.bytes_flushed, then.bytes_flushed),
            hit_percent: (read > 0).then(|| 100.0 * (1.0 - missed.min(read) as f64 / read as f64)),
            passthrough_opens_per_s: each(by_kernel, kernel_before),
            other_opens_per_s: each(by_daemon, daemon_before),
            operations_per_s: each(operations(now), operations(before)),
            waited_ms_per_s: tenants.iter().map(|of| of.waited_ms_per_s).sum(),
            requests_per_min: requests.iter().map(|of| of.per_min).sum(),
            requests,
            nano_usd_per_hour: cost(&asked, now, elapsed, prices),
            tenants,
        }
    }
}

fn cost(asked: &MeterSnapshot, now: &Sample, observed: Duration, prices: Prices<'_>) -> i64 {
    let count = |kind| asked.requests(kind);
    let requests = Requests {
        put: count(RequestKind::Put) + count(RequestKind::Copy) + count(RequestKind::List),
        get: count(RequestKind::Get) + count(RequestKind::Head),
        delete: count(RequestKind::Delete),
    };
    let stored_bytes = now.status.engine.billed_bytes();
    let usage = Usage { stored_bytes, requests, observed, ..Usage::default() };
    per_hour(prices, &usage).total.0
}

fn requests(asked: &MeterSnapshot, seconds: f64) -> Vec<RequestRate> {
    let rate = |count: u64| count as f64 * 60.0 / seconds;
    let rows = asked.rows.iter().map(|row| RequestRate {
        component: format!("{:?}", row.component).to_lowercase(),
        kind: format!("{:?}", row.kind).to_uppercase(),
        per_min: rate(row.requests),
        failed_per_min: rate(row.failed),
        mean_ms: row.latency_us_sum as f64 / row.requests.max(1) as f64 / 1e3,
    });
    rows.collect()
}

fn tenants(before: &[TenantView], now: &[TenantView], seconds: f64) -> Vec<TenantRate> {
    let then: HashMap<_, _> = before.iter().map(|of| ((of.path.as_str(), of.client), of)).collect();
    let rates = now.iter().map(|of| {
        let then = then.get(&(of.path.as_str(), of.client));
        let each = |now: u64, before: Option<u64>| {
            now.saturating_sub(before.unwrap_or(0)) as f64 / seconds
        };
        TenantRate {
            path: of.path.clone(),
            user: of.client,
            read_bytes_per_s: each(of.bytes_read, then.map(|t| t.bytes_read)) as u64,
            written_bytes_per_s: each(of.bytes_written, then.map(|t| t.bytes_written)) as u64,
            fetched_bytes_per_s: each(of.bytes_fetched, then.map(|t| t.bytes_fetched)) as u64,
            waited_ms_per_s: each(of.waited_ms, then.map(|t| t.waited_ms)),
        }
    });
    let moved = |of: &TenantRate| of.read_bytes_per_s + of.written_bytes_per_s;
    let mut rates: Vec<_> = rates.filter(|of| moved(of) > 0 || of.waited_ms_per_s > 0.0).collect();
    rates.sort_by_key(|of| std::cmp::Reverse(moved(of)));
    rates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tenant(path: &str, read: u64, fetched: u64) -> TenantView {
        TenantView {
            path: path.to_owned(),
            client: 1000,
            opens: 1,
            opens_unmetered: 0,
            reads: 1,
            writes: 0,
            bytes_read: read,
            bytes_written: 0,
            bytes_fetched: fetched,
            waited_ms: 0,
        }
    }

    #[test]
    fn who_moves_most_is_first_and_who_rests_is_left_out() {
        let before = [tenant("/a", 100, 100), tenant("/idle", 7, 0)];
        let now = [tenant("/a", 300, 200), tenant("/idle", 7, 0), tenant("/new", 4_000, 0)];
        let rates = tenants(&before, &now, 2.0);
        let told: Vec<_> = rates.iter().map(|of| (of.path.as_str(), of.read_bytes_per_s)).collect();
        assert_eq!(told, [("/new", 2_000), ("/a", 100)]);
        assert_eq!(rates[1].fetched_bytes_per_s, 50);
    }

    #[test]
    fn a_daemon_that_began_anew_counts_from_nothing() {
        let rates = tenants(&[tenant("/a", 5_000, 0)], &[tenant("/a", 100, 0)], 1.0);
        assert!(rates.is_empty());
    }
}
