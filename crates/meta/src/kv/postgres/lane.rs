//! A lane: a connection that commits, one transaction at a time, and knows of each what became of it.
//!
//! The lane's row holds the version of its last commit. Each transaction sets it from the last one
//! to its own, so when an answer is lost, the row tells: it has the version, or it is set to another
//! one, and then the transaction can never be applied any more. So no commit is done twice, and
//! none is told to have failed that was done.

use std::sync::Arc;
use std::time::Duration;

use rand::RngExt;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::Row;
use weir_types::{ErrorKind, FsError, Result};

use super::super::contract::Outcome;
use super::clock::LANE_MAX;
use super::connect::Writer;
use super::error::{Failed, code_of, failed, is_error};
use super::node::Node;
use super::plan::Plan;
use super::sql;
use super::transaction::{Stamp, Step, send};

/// How often a transaction is tried that others get in the way of.
const TRIES: u32 = 12;

/// First time between tries while no server answers, and longest.
const PAUSE: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// SQLSTATE of what our statements do to end a transaction, and of a row that is there already.
const DIVIDED: &str = "22012";
const TAKEN: &str = "23505";

/// A row of lanes that is ours.
#[derive(Clone, Copy)]
struct Claim {
    lane: i32,
    last: i64,
    epoch: i64,
    /// Whether a state is kept that ends before this epoch.
    saves: bool,
}

pub(super) struct Lane {
    node: Arc<Node>,
    conn: Option<Arc<Writer>>,
    claim: Option<Claim>,
    /// The claim that did not hold.
    left: Option<Claim>,
}

/// What became of one try.
enum Tried {
    Done(Outcome),
    /// The lane is somebody else's by now, or another epoch began; nothing was done.
    NoLane,
}

impl Lane {
    pub(super) fn new(node: Arc<Node>) -> Self {
        Self { node, conn: None, claim: None, left: None }
    }

    /// Applies a plan, or tells for sure that it was not applied; `Retry` if neither is known in
    /// time, which its text says.
    pub(super) async fn run(
        &mut self,
        plan: &Plan,
        writes: bool,
        until: Instant,
    ) -> Result<Outcome> {
        let mut doubt = None;
        let (mut tries, mut pause, mut last) = (0, PAUSE, None);
        loop {
            let tried = timeout_at(until, self.attempt(plan, writes, &mut doubt, until)).await;
            let error = match tried {
                Ok(Ok(Tried::Done(outcome))) => return Ok(outcome),
                Ok(Ok(Tried::NoLane)) => {
                    self.left = self.claim.take();
                    continue;
                }
                Ok(Err(Failed::Final(error))) => return Err(self.told(error, doubt)),
                Ok(Err(Failed::Again(error))) => {
                    tries += 1;
                    if tries == TRIES || Instant::now() >= until {
                        return Err(self.told(error, doubt));
                    }
                    error
                }
                Ok(Err(Failed::Lost(error))) => {
                    self.conn = None;
                    if Instant::now() >= until {
                        return Err(self.told(error, doubt));
                    }
                    error
                }
                Err(_) => {
                    self.conn = None;
                    let why =
                        || FsError::new(ErrorKind::Retry, "the server did not answer in time");
                    return Err(self.told(last.unwrap_or_else(why), doubt));
                }
            };
            last = Some(error);
            let wait = rand::rng().random_range(pause / 2..pause);
            sleep(wait).await;
            pause = PAUSE_MAX.min(pause * 2);
        }
    }

    /// An error that ends the commit, with what is known of that.
    fn told(&mut self, error: FsError, doubt: Option<i64>) -> FsError {
        if doubt.is_none() {
            return error;
        }
        // A transaction may be on its way in that lane: the next one takes another.
        self.claim = None;
        let why = "the commit was sent and its answer did not come: whether it was applied is not \
                   known";
        FsError::new(ErrorKind::Retry, format!("{why} ({error}); look before doing it again"))
            .with_source(error)
    }

    async fn conn(&mut self, until: Instant) -> Result<Arc<Writer>, Failed> {
        if let Some(conn) = self.conn.as_ref().filter(|conn| !conn.client.is_closed()) {
            return Ok(Arc::clone(conn));
        }
        let conn = self.node.place.writer(until).await?;
        self.node.ask_time(&conn.client).await?;
        Ok(self.conn.insert(conn).clone())
    }

    async fn attempt(
        &mut self,
        plan: &Plan,
        writes: bool,
        doubt: &mut Option<i64>,
        until: Instant,
    ) -> Result<Tried, Failed> {
        let conn = self.conn(until).await?;
        if let Some(version) = *doubt {
            if self.settle(&conn, version).await? {
                return Ok(Tried::Done(Outcome::Applied(version.cast_unsigned())));
            }
            *doubt = None;
        }
        let guard = self.node.guard.lock().clone().filter(|_| writes);
        if !writes {
            let sent = send(&conn, plan, None, None).await;
            return self.decide(sent.map(|()| self.node.versions.newest()), doubt);
        }
        let claim = match self.claim {
            Some(claim) => claim,
            None => self.claim_lane(&conn).await?,
        };
        let under_way = self.node.versions.next(claim.lane);
        let version = under_way.version;
        let Claim { lane, last, epoch, saves } = claim;
        let stamp = Stamp { lane, owner: self.node.owner, last, version, epoch, saves };
        *doubt = Some(version);
        let sent = send(&conn, plan, Some(&stamp), guard.as_ref()).await;
        if sent.is_ok() {
            self.claim = Some(Claim { last: version, ..claim });
            under_way.applied();
        }
        self.decide(sent.map(|()| version.cast_unsigned()), doubt)
    }

    /// What the answers come to.
    fn decide(
        &self,
        sent: Result<u64, (Step, tokio_postgres::Error)>,
        doubt: &mut Option<i64>,
    ) -> Result<Tried, Failed> {
        let (step, error) = match sent {
            Ok(version) => {
                *doubt = None;
                return Ok(Tried::Done(Outcome::Applied(version)));
            }
            Err(met) => met,
        };
        let answered = error.as_db_error().is_some_and(is_error);
        if !answered || step == Step::Commit {
            let lost = failed("commit metadata", error).into_error();
            return Err(Failed::Lost(lost));
        }
        // The server gave it up, and said so.
        *doubt = None;
        match (step, code_of(&error)) {
            (Step::Lane, DIVIDED) => Ok(Tried::NoLane),
            (Step::Guard, DIVIDED) => Err(Failed::Final(self.node.fenced())),
            (Step::Check, DIVIDED) | (Step::Insert, TAKEN) => Ok(Tried::Done(Outcome::Conflict)),
            (Step::Count, DIVIDED) => Err(Failed::Final(FsError::new(
                ErrorKind::Corrupt,
                "a counter holds other than 8 bytes: it is no counter; run a check",
            ))),
            // Somebody made the row between two statements.
            (Step::Count, TAKEN) => Err(Failed::Again(failed("count", error).into_error())),
            (Step::Add, "22003") => {
                let text = "a counter overflows: its sum is past what 8 bytes hold";
                Err(Failed::Final(FsError::new(ErrorKind::Invalid, text)))
            }
            _ => Err(failed("commit metadata", error)),
        }
    }

    /// Whether the commit was applied whose answer is missing; if not, it never will be.
    async fn settle(&mut self, conn: &Writer, version: i64) -> Result<bool, Failed> {
        let Some(claim) = &mut self.claim else {
            return Err(Failed::Final(FsError::new(ErrorKind::Retry, "the lane was given up")));
        };
        let schema = &self.node.place.schema;
        let lost = |error| failed("see what became of a commit", error);
        let client = &conn.client;
        client.batch_execute(sql::BEGIN).await.map_err(lost)?;
        let look = client.query_opt(&sql::look_at_lane(schema), &[&claim.lane]).await;
        let row = look.map_err(|error| Failed::Lost(lost(error).into_error()))?;
        let found = row.map(|row| (row.get::<_, i64>(0), row.get::<_, i64>(1)));
        match found {
            Some((owner, last)) if owner == self.node.owner => {
                let applied = last == version;
                let next = if applied { last } else { self.node.versions.next(claim.lane).version };
                let cut = client.execute(&sql::cut_lane(schema), &[&claim.lane, &next]).await;
                cut.map_err(|error| Failed::Lost(lost(error).into_error()))?;
                let done = client.batch_execute("COMMIT").await;
                done.map_err(|error| Failed::Lost(lost(error).into_error()))?;
                claim.last = next;
                Ok(applied)
            }
            _ => {
                let _ = client.batch_execute("ROLLBACK").await;
                let text = "another node took the lane of the commit over";
                Err(Failed::Final(FsError::new(ErrorKind::Retry, text)))
            }
        }
    }

    /// Takes a lane: the one that we had, if only the epoch is another one; one that nobody uses; or a new
    /// one.
    async fn claim_lane(&mut self, conn: &Writer) -> Result<Claim, Failed> {
        let schema = &self.node.place.schema;
        let mut claim = match self.again(conn).await? {
            Some(claim) => claim,
            None => any_lane(&self.node, conn).await?,
        };
        self.left = None;
        // Read behind the epoch: what is kept of earlier ones is seen.
        let row = conn.client.query_one(&sql::any_kept(schema), &[]).await;
        let row = row.map_err(|error| failed("look for states that are kept", error))?;
        claim.saves = row.get(0);
        Ok(*self.claim.insert(claim))
    }

    /// The lane that we had, of the epoch that it is in by now; `None` if it is another's.
    async fn again(&self, conn: &Writer) -> Result<Option<Claim>, Failed> {
        let Some(left) = self.left else { return Ok(None) };
        let text = sql::look_at_lane(&self.node.place.schema);
        let row = conn.client.query_opt(&text, &[&left.lane]).await;
        let row = row.map_err(|error| failed("look at the lane of commits", error))?;
        let ours = |row: &Row| {
            row.get::<_, i64>(0) == self.node.owner && row.get::<_, i64>(1) == left.last
        };
        Ok(row.filter(ours).map(|row| Claim { epoch: row.get(2), ..left }))
    }

    /// Gives the lane back. What fails here costs others a few minutes of waiting for it.
    pub(super) async fn leave(&mut self) {
        let (Some(conn), Some(claim)) = (self.conn.take(), self.claim.take()) else {
            return;
        };
        let text = sql::leave_lane(&self.node.place.schema);
        let _ = conn.client.execute(&text, &[&claim.lane, &self.node.owner]).await;
    }
}

/// Takes a lane that nobody uses, or a new one.
async fn any_lane(node: &Node, conn: &Writer) -> Result<Claim, Failed> {
    let schema = &node.place.schema;
    let what = "take a lane to commit in";
    for text in [sql::take_lane(schema), sql::make_lane(schema)] {
        let row = match conn.client.query_opt(&text, &[&node.owner]).await {
            Ok(row) => row,
            Err(error) if code_of(&error) == TAKEN => {
                return Err(Failed::Again(failed(what, error).into_error()));
            }
            Err(error) => return Err(failed(what, error)),
        };
        if let Some(row) = row {
            let (lane, last, epoch) = (row.get(0), row.get(1), row.get(2));
            let claim = Claim { lane, last, epoch, saves: true };
            if claim.lane > LANE_MAX {
                let text = format!("cannot {what}: there are more than {LANE_MAX} already");
                return Err(Failed::Final(FsError::new(ErrorKind::Bug, text)));
            }
            node.versions.pass(claim.last);
            return Ok(claim);
        }
    }
    let text = format!("cannot {what}: the server made none; try again");
    Err(Failed::Again(FsError::new(ErrorKind::Retry, text)))
}
