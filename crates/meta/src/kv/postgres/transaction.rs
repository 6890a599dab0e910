//! One transaction: all its statements are sent before an answer to any is waited for.

use futures::future::BoxFuture;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Statement};

use super::super::contract::{Key, Version};
use super::connect::Writer;
use super::plan::{Changes, Plan};
use super::sql;

/// Which statement it was that failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Begin,
    /// The lane's last commit.
    Lane,
    /// The key that every commit checks.
    Guard,
    /// Checks.
    Check,
    /// A row that must not be there.
    Insert,
    /// Rows that are noted as they were.
    Save,
    /// Rows that are changed whatever they were.
    Change,
    /// A plain value that becomes a counter.
    Count,
    /// Counters.
    Add,
    Commit,
}

/// What is needed to commit: the lane, its owner, its last commit, and this one; the epoch, and whether
/// a state is kept that has rows as they are before it.
pub(super) struct Stamp {
    pub(super) lane: i32,
    pub(super) owner: i64,
    pub(super) last: i64,
    pub(super) version: i64,
    pub(super) epoch: i64,
    pub(super) saves: bool,
}

type Running<'a> = (Step, BoxFuture<'a, Result<(), Error>>);
type Value<'a> = &'a (dyn ToSql + Sync);

/// Sends the whole of it. One that changes nothing has no stamp. An error of a step before the last
/// one says that the server gave the transaction up, if it was the server that said it.
pub(super) async fn send(
    conn: &Writer,
    plan: &Plan,
    stamp: Option<&Stamp>,
    guard: Option<&(Key, Version)>,
) -> Result<(), (Step, Error)> {
    let guarded = guard.map(|(key, version)| (key, version.cast_signed()));
    let mut batch = Batch { conn, running: Vec::with_capacity(16) };
    batch.text(Step::Begin, sql::BEGIN);
    let statements = &conn.statements;
    if let Some(stamp) = stamp {
        let Stamp { lane, owner, last, version, epoch, .. } = stamp;
        batch.run(Step::Lane, &statements.lane, vec![lane, owner, version, last, epoch]);
    }
    if let Some((key, version)) = &guarded {
        batch.run(Step::Guard, &statements.guard, vec![key, version]);
    }
    if !plan.locks.keys.is_empty() {
        let locks = &plan.locks;
        let values: Vec<Value<'_>> = vec![&locks.keys, &locks.wants, &locks.changes];
        batch.run(Step::Check, &statements.lock, values);
    }
    if let Some(stamp) = stamp {
        batch.change(&plan.first, stamp);
    }
    if !plan.counted.keys.is_empty() {
        let values: Vec<Value<'_>> = vec![&plan.counted.keys, &plan.counted.wants];
        batch.run(Step::Check, &statements.counted, values);
    }
    if let Some(stamp) = stamp {
        if !plan.uncounted.keys.is_empty() {
            let values: Vec<Value<'_>> =
                vec![&stamp.epoch, &plan.uncounted.keys, &plan.uncounted.wants];
            batch.run(Step::Check, &statements.uncount, values);
        }
        batch.change(&plan.then, stamp);
    }
    batch.text(Step::Commit, "COMMIT");
    batch.answers().await
}

struct Batch<'a> {
    conn: &'a Writer,
    running: Vec<Running<'a>>,
}

impl<'a> Batch<'a> {
    fn text(&mut self, step: Step, text: &'a str) {
        self.running.push((step, Box::pin(self.conn.client.batch_execute(text))));
    }

    fn run(&mut self, step: Step, statement: &'a Statement, values: Vec<Value<'a>>) {
        let client = &self.conn.client;
        let done = async move { client.execute(statement, &values).await.map(drop) };
        self.running.push((step, Box::pin(done)));
    }

    fn change(&mut self, changes: &'a Changes, stamp: &'a Stamp) {
        let statements = &self.conn.statements;
        let Stamp { version, lane, epoch, .. } = stamp;
        for keys in [&changes.upserts, &changes.adds, &changes.raises] {
            if stamp.saves && !keys.is_empty() {
                self.run(Step::Save, &statements.save, vec![epoch, keys, lane]);
            }
        }
        if !changes.deletes.is_empty() {
            let values: Vec<Value<'_>> =
                vec![epoch, &changes.deletes, &changes.plain, &changes.shards];
            self.run(Step::Change, &statements.delete, values);
        }
        if !changes.inserts.is_empty() {
            let values: Vec<Value<'_>> = vec![&changes.inserts, &changes.inserted, version, epoch];
            self.run(Step::Insert, &statements.insert, values);
        }
        if !changes.upserts.is_empty() {
            let values: Vec<Value<'_>> = vec![&changes.upserts, &changes.upserted, version, epoch];
            self.run(Step::Change, &statements.upsert, values);
        }
        if !changes.adds.is_empty() {
            self.run(Step::Count, &statements.count, vec![&changes.adds, version, epoch]);
            let values: Vec<Value<'_>> = vec![&changes.adds, &changes.added, version, lane, epoch];
            self.run(Step::Add, &statements.add, values);
        }
        if !changes.raises.is_empty() {
            self.run(Step::Count, &statements.share, vec![&changes.raises, version, epoch]);
            let values: Vec<Value<'_>> =
                vec![&changes.raises, &changes.raised, version, lane, epoch];
            self.run(Step::Add, &statements.raise, values);
        }
    }

    /// Sends what was gathered, in order, and waits for all answers.
    async fn answers(mut self) -> Result<(), (Step, Error)> {
        // A statement goes out when it is first polled.
        let mut early = Vec::with_capacity(self.running.len());
        for (_, running) in &mut self.running {
            early.push(futures::poll!(running));
        }
        let mut outcome = Ok(());
        for ((step, running), early) in self.running.into_iter().zip(early) {
            let answer = match early {
                std::task::Poll::Ready(answer) => answer,
                std::task::Poll::Pending => running.await,
            };
            // Those after the first only say that the transaction is over.
            if let Err(error) = answer
                && outcome.is_ok()
            {
                outcome = Err((step, error));
            }
        }
        outcome
    }
}
