//! Reading: one statement and one round trip for a list of keys or a page of a scan.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};
use weir_types::{ErrorKind, FsError, Result};

use super::super::contract::{Followed, Key, Versioned};
use super::connect::{Place, Reader};
use super::error::{Failed, failed};
use super::options::KEY_BYTES_MAX;
use super::sql::Reads;

/// Most rows of one answer.
const PAGE: usize = 2_000;

/// Time between tries while no server answers.
const PAUSE: Duration = Duration::from_millis(100);

type Value<'a> = &'a (dyn ToSql + Sync);

/// Which of the statements: of the rows as they are, and as a kept state has them.
type Question = fn(&Reads<Statement>) -> (&Statement, &Statement);

/// Which rows are read: those that are there, or those of a kept state, by its epoch.
pub(super) type As = Option<i64>;

/// Connections that only read. Many share one: what they ask is answered in turn.
pub(super) struct Readers {
    place: Arc<Place>,
    conns: Vec<Mutex<Option<Arc<Reader>>>>,
    next: AtomicUsize,
    timeout: Duration,
}

impl Readers {
    pub(super) fn new(place: Arc<Place>, connections: usize, timeout: Duration) -> Self {
        let conns = (0..connections).map(|_| Mutex::default()).collect();
        Self { place, conns, next: AtomicUsize::new(0), timeout }
    }

    /// Asks until there is an answer or no time left.
    async fn ask(
        &self,
        what: &str,
        rows: As,
        of: Question,
        values: &[Value<'_>],
    ) -> Result<Vec<Row>> {
        let until = Instant::now() + self.timeout;
        let mut last = None;
        loop {
            let asked = timeout_at(until, self.ask_once(what, until, (rows, of), values)).await;
            match asked {
                Ok(Ok(answer)) => return Ok(answer),
                Ok(Err(Failed::Final(error))) => return Err(error),
                Ok(Err(Failed::Again(error) | Failed::Lost(error))) => last = Some(error),
                Err(_) => return Err(last.unwrap_or_else(|| silent(what, &self.place))),
            }
            // A server that refuses at once is not stopped by the clock.
            if let Some(error) = last.take_if(|_| Instant::now() >= until) {
                return Err(error);
            }
            sleep(PAUSE).await;
        }
    }

    async fn ask_once(
        &self,
        what: &str,
        until: Instant,
        (rows, of): (As, Question),
        values: &[Value<'_>],
    ) -> Result<Vec<Row>, Failed> {
        let at = self.next.fetch_add(1, Ordering::Relaxed) % self.conns.len();
        let conn = {
            let mut held = self.conns[at].lock().await;
            match held.as_ref().filter(|conn| !conn.client.is_closed()) {
                Some(conn) => Arc::clone(conn),
                None => held.insert(self.place.reader(until).await?).clone(),
            }
        };
        let (now, past) = of(&conn.statements);
        let answered = match &rows {
            None => conn.client.query(now, values).await.map_err(|error| failed(what, error)),
            Some(epoch) => {
                let values: Vec<_> =
                    std::iter::once(epoch as Value<'_>).chain(values.iter().copied()).collect();
                ask_past(&conn, what, past, &values).await
            }
        };
        if let Err(Failed::Lost(_)) = &answered {
            let mut held = self.conns[at].lock().await;
            if held.as_ref().is_some_and(|one| Arc::ptr_eq(one, &conn)) {
                *held = None;
            }
        }
        answered
    }

    pub(super) async fn get_many(&self, of: As, keys: &[Key]) -> Result<Vec<Option<Versioned>>> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let rows = self.ask("read metadata", of, |s| (&s.get, &s.past_get), &[&keys]).await?;
        let mut parts = by_place(&rows)?;
        let each = keys.iter().zip(1..);
        each.map(|(key, at)| parts.remove(&at).map(|parts| parts.value(key)).transpose()).collect()
    }

    pub(super) async fn follow(&self, of: As, key: &Key, tags: &[u8]) -> Result<Followed> {
        let each: Vec<&[u8]> = tags.chunks(1).collect();
        let values: [Value<'_>; 2] = [key, &each];
        let rows = self.ask("read metadata", of, |s| (&s.follow, &s.past_follow), &values).await?;
        let mut parts = by_place(&rows)?;
        let from = parts.remove(&0).map(|parts| parts.value(key)).transpose()?;
        let of_tag = |(tag, at)| parts.remove(&at).map(|parts| parts.value(tag)).transpose();
        let to = each.into_iter().zip(1..).map(of_tag).collect::<Result<_>>()?;
        Ok(Followed { from, to })
    }

    pub(super) async fn scan(
        &self,
        of: As,
        prefix: &[u8],
        after: Option<&[u8]>,
        limit: usize,
    ) -> Result<Vec<(Key, Versioned)>> {
        let end = end_of(prefix);
        let (mut from, mut shard) = match after {
            Some(after) if after >= prefix => (after.to_vec(), i32::MAX),
            _ => (prefix.to_vec(), i32::MIN),
        };
        let mut found = Vec::new();
        let mut last: Option<(Key, Parts)> = None;
        while found.len() < limit {
            // One more, so that the last one is known to be whole.
            let page = (limit - found.len()).saturating_add(1).min(PAGE);
            let most = page as i64;
            let values: [Value<'_>; 4] = [&from, &shard, &end, &most];
            let rows = self.ask("list metadata", of, |s| (&s.scan, &s.past_scan), &values).await?;
            for row in &rows {
                let key: &[u8] = row.get(0);
                if last.as_ref().is_some_and(|(have, _)| have != key)
                    && let Some((key, parts)) = last.take()
                {
                    let value = parts.value(&key)?;
                    found.push((key, value));
                }
                last.get_or_insert_with(|| (key.to_vec(), Parts::default())).1.add(row)?;
            }
            match rows.last() {
                Some(row) if rows.len() == page => {
                    (from, shard) = (row.get::<_, &[u8]>(0).to_vec(), row.get(1));
                }
                _ => {
                    if let Some((key, parts)) = last.take() {
                        let value = parts.value(&key)?;
                        found.push((key, value));
                    }
                    break;
                }
            }
        }
        found.truncate(limit);
        Ok(found)
    }

    /// Ends all connections.
    pub(super) async fn close(&self) {
        for conn in &self.conns {
            *conn.lock().await = None;
        }
    }
}

/// Asks for rows of a kept state, and then whether it is kept: if so, it was when the rows were read, and they
/// are right.
async fn ask_past(
    conn: &Reader,
    what: &str,
    past: &Statement,
    values: &[Value<'_>],
) -> Result<Vec<Row>, Failed> {
    let rows = conn.client.query(past, values);
    let kept = conn.client.query_opt(&conn.statements.is_kept, &values[..1]);
    let (rows, kept) = futures::try_join!(rows, kept).map_err(|error| failed(what, error))?;
    match kept {
        Some(_) => Ok(rows),
        None => Err(Failed::Final(not_kept())),
    }
}

/// What is told of a state that nobody keeps.
pub(super) fn not_kept() -> FsError {
    FsError::new(ErrorKind::NotFound, "this state of the metadata is not kept any more")
}

/// The rows of each key, by the place that the question gave it.
fn by_place(rows: &[Row]) -> Result<BTreeMap<i64, Parts>> {
    let mut parts = BTreeMap::<i64, Parts>::new();
    for row in rows {
        parts.entry(row.get(0)).or_default().add(row)?;
    }
    Ok(parts)
}

fn silent(what: &str, place: &Place) -> FsError {
    let context = format!("cannot {what}: {} does not answer; try again", place.url);
    FsError::new(ErrorKind::Retry, context)
}

/// The least key that is past all keys with this prefix.
fn end_of(prefix: &[u8]) -> Key {
    match prefix.iter().rposition(|byte| *byte != 0xff) {
        Some(at) => {
            let mut end = prefix[..=at].to_vec();
            end[at] += 1;
            end
        }
        None => vec![0xff; KEY_BYTES_MAX + 1],
    }
}

/// The rows of one key.
#[derive(Default)]
struct Parts {
    plain: Option<(i64, Bytes)>,
    shards: bool,
    /// The greatest of what lanes raised.
    raised: Option<Bytes>,
    sum: i128,
    versions: i128,
}

impl Parts {
    /// Takes in columns 1 to 4 of a row.
    fn add(&mut self, row: &Row) -> Result<()> {
        let (shard, version): (i32, i64) = (row.get(1), row.get(2));
        self.versions += i128::from(version);
        if shard == 0 {
            let value: Option<&[u8]> = row.get(3);
            self.plain = Some((version, Bytes::copy_from_slice(value.unwrap_or_default())));
        } else {
            self.shards = true;
            let raised = row.get::<_, Option<&[u8]>>(3).map(Bytes::copy_from_slice);
            self.raised = raised.max(self.raised.take());
            self.sum += i128::from(row.get::<_, Option<i64>>(4).unwrap_or(0));
        }
        Ok(())
    }

    /// What they come to.
    fn value(self, key: &[u8]) -> Result<Versioned> {
        let corrupt = |why: &str| {
            let context = format!("counter {} {why}; run a check", key.escape_ascii());
            FsError::new(ErrorKind::Corrupt, context)
        };
        if !self.shards {
            let (version, value) = self.plain.ok_or_else(|| corrupt("has no row"))?;
            return Ok(Versioned { version: version.cast_unsigned(), value });
        }
        // Versions of plain rows are even, so this one is odd, and not past what an i64 holds.
        let version = (self.versions % (1_i128 << 63)) as u64 + 1;
        if let Some(raised) = self.raised {
            let value = self.plain.map_or(raised.clone(), |(_, value)| value.max(raised));
            return Ok(Versioned { version, value });
        }
        let mut sum = self.sum;
        if let Some((_, value)) = self.plain {
            let bytes = value.as_ref().try_into();
            let bytes = bytes.map_err(|_| corrupt("was also put, as what is no counter"))?;
            sum += i128::from(i64::from_le_bytes(bytes));
        }
        let sum = i64::try_from(sum).map_err(|_| corrupt("overflows"))?;
        Ok(Versioned { version, value: Bytes::copy_from_slice(&sum.to_le_bytes()) })
    }
}
