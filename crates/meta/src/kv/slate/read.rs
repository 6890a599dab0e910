//! Reading, the same for the writer and for its followers.

use std::cmp::Ordering;
use std::future::Future;
use std::ops::Bound;
use std::task::Poll;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::FuturesUnordered;
use slatedb::config::ScanOptions;
use slatedb::{DbReadOps, KeyValue};
use weir_types::{ErrorKind, FsError, Result};

use super::error::from_slate;
use super::recent::Row;
use crate::kv::contract::{Key, Versioned};

/// Lookups of one call that may wait for the bucket at once.
const LOOKUPS_IN_FLIGHT: usize = 32;

/// Bytes fetched at once by the longest scans.
const READ_AHEAD_MAX: usize = 1 << 20;

/// What a scan expects an entry to take, so that a short one fetches little.
const ENTRY_BYTES: usize = 256;

pub(super) async fn get_many(
    db: &(impl DbReadOps + Sync),
    keys: &[Key],
) -> Result<Vec<Option<Versioned>>> {
    let mut found = vec![None; keys.len()];
    let mut waiting = FuturesUnordered::new();
    for (at, key) in keys.iter().enumerate() {
        // Most are answered from memory, at once.
        let mut lookup = Box::pin(get(db, key));
        match futures::poll!(&mut lookup) {
            Poll::Ready(value) => found[at] = value?,
            Poll::Pending => waiting.push(async move { (at, lookup.await) }),
        }
        if waiting.len() == LOOKUPS_IN_FLIGHT
            && let Some((at, value)) = waiting.next().await
        {
            found[at] = value?;
        }
    }
    while let Some((at, value)) = waiting.next().await {
        found[at] = value?;
    }
    Ok(found)
}

async fn get(db: &(impl DbReadOps + Sync), key: &Key) -> Result<Option<Versioned>> {
    let found = db.get_key_value(key).await.map_err(|error| from_slate("read metadata", error))?;
    Ok(found.map(versioned))
}

/// Scans, with `recent` laid over what the database has: rows in key order, of which the first
/// `limit` values are among the results or have others before them.
pub(super) async fn scan(
    db: &(impl DbReadOps + Sync),
    recent: Vec<(Bytes, Row)>,
    prefix: &[u8],
    after: Option<&[u8]>,
    limit: usize,
) -> Result<Vec<(Key, Versioned)>> {
    let start = match after {
        Some(after) if after.starts_with(prefix) => Bound::Excluded(after[prefix.len()..].to_vec()),
        Some(after) if after > prefix => return Ok(Vec::new()),
        _ => Bound::Unbounded,
    };
    if limit == 0 {
        return Ok(Vec::new());
    }
    let failed = |error| from_slate("scan metadata", error);
    let read_ahead = limit.saturating_mul(ENTRY_BYTES).min(READ_AHEAD_MAX);
    let options = ScanOptions::default()
        .with_cache_blocks(true)
        .with_read_ahead_bytes(read_ahead)
        .with_max_fetch_tasks(2);
    let range = (start, Bound::Unbounded);
    let mut rows = db.scan_prefix_with_options(prefix, range, &options).await.map_err(failed)?;
    let mut recent = recent.into_iter().peekable();
    let mut row = rows.next().await.map_err(failed)?;
    let mut found = Vec::new();
    while found.len() < limit {
        let order = match (recent.peek(), &row) {
            (None, None) => break,
            (Some(_), None) => Ordering::Less,
            (None, Some(_)) => Ordering::Greater,
            (Some((key, _)), Some(row)) => key.cmp(&row.key),
        };
        let newer = if order.is_le() { recent.next() } else { None };
        let older = if order.is_ge() { row.take() } else { None };
        if order.is_ge() {
            row = rows.next().await.map_err(failed)?;
        }
        // The database may have got a later commit since `recent` was read.
        match (newer, older) {
            (Some((_, newer)), Some(older)) if older.seq > newer.version => {
                found.push((older.key.to_vec(), versioned(older)));
            }
            (Some((key, Row { version, value, .. })), _) => {
                found.extend(value.map(|value| (key.to_vec(), Versioned { version, value })));
            }
            (None, Some(older)) => found.push((older.key.to_vec(), versioned(older))),
            (None, None) => {}
        }
    }
    Ok(found)
}

fn versioned(row: KeyValue) -> Versioned {
    Versioned { version: row.seq, value: row.value }
}

/// The answer of `work`, or `Retry` when the bucket has not let it finish in `limit`. What was
/// begun goes on or is begun anew by the next caller; nothing is lost.
pub(super) async fn bounded<T>(
    limit: Duration,
    what: &str,
    work: impl Future<Output = Result<T>>,
) -> Result<T> {
    tokio::time::timeout(limit, work).await.unwrap_or_else(|_| {
        let context = format!(
            "cannot {what}: the bucket has not answered for {} ms; it is tried again without end, \
             check the network and the bucket's credentials",
            limit.as_millis()
        );
        Err(FsError::new(ErrorKind::Retry, context))
    })
}
