//! Commits on their way: who waits, which lane takes them, and what each is told.

use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, timeout_at};
use weir_types::{ErrorKind, FsError, Result};

use super::super::apply::changes_nothing;
use super::super::contract::{Commit, Outcome};
use super::group::Group;
use super::lane::Lane;
use super::node::Node;
use super::plan::Plan;

/// How long past its time a commit that was sent is waited for: the lane tells what became of it.
const GRACE: Duration = Duration::from_secs(2);

/// What the lanes of an engine share.
pub(super) struct Shared {
    pub(super) node: Arc<Node>,
    group: bool,
    waiting: Mutex<Waiting>,
    wakes: Vec<Notify>,
}

#[derive(Default)]
struct Waiting {
    commits: VecDeque<Pending>,
    idle: BTreeSet<usize>,
    ended: bool,
}

/// A commit that somebody waits for.
struct Pending {
    commit: Commit,
    until: Instant,
    /// Whoever sets it first has the commit: the lane that takes it, or who waits no longer.
    taken: Arc<AtomicBool>,
    tell: oneshot::Sender<Result<Outcome>>,
}

impl Pending {
    fn take(&self) -> bool {
        !self.taken.swap(true, Ordering::AcqRel)
    }
}

impl Shared {
    pub(super) fn new(node: Arc<Node>, lanes: usize, group: bool) -> Self {
        let wakes = (0..lanes).map(|_| Notify::new()).collect();
        Self { node, group, waiting: Mutex::default(), wakes }
    }

    /// Hands a commit to the lanes and waits for what becomes of it.
    pub(super) async fn commit(&self, commit: Commit, timeout: Duration) -> Result<Outcome> {
        let until = Instant::now() + timeout;
        let (tell, told) = oneshot::channel();
        let taken = Arc::new(AtomicBool::new(false));
        {
            let mut waiting = self.waiting.lock();
            if waiting.ended {
                return Err(FsError::new(ErrorKind::Invalid, "the metadata is closed"));
            }
            waiting.commits.push_back(Pending { commit, until, taken: Arc::clone(&taken), tell });
            // The same few lanes if few are needed: counters have a row for each that counted.
            if let Some(lane) = waiting.idle.pop_first() {
                self.wakes[lane].notify_one();
            }
        }
        let mut told = std::pin::pin!(told);
        let answer = match timeout_at(until, told.as_mut()).await {
            Ok(answer) => answer,
            Err(_) if !taken.swap(true, Ordering::AcqRel) => return Err(self.late()),
            Err(_) => {
                timeout_at(until + GRACE, told).await.unwrap_or_else(|_| Ok(Err(self.open())))
            }
        };
        answer.unwrap_or_else(|_| Err(FsError::new(ErrorKind::Bug, "a lane ended; report this")))
    }

    fn late(&self) -> FsError {
        let context = format!(
            "the commit was not made: {} did not get to it in time; try again",
            self.node.place.url
        );
        FsError::new(ErrorKind::Retry, context)
    }

    fn open(&self) -> FsError {
        let context = format!(
            "{} did not answer in time: whether the commit was applied is not known; look before \
             doing it again",
            self.node.place.url
        );
        FsError::new(ErrorKind::Retry, context)
    }

    /// No commit comes in any more; lanes end when those are done that are here.
    fn end(&self) {
        self.waiting.lock().ended = true;
        self.wakes.iter().for_each(Notify::notify_one);
    }

    /// The next commits for a lane; `None` when there will be none.
    async fn next(&self, lane: usize) -> Option<Vec<Pending>> {
        loop {
            {
                let mut waiting = self.waiting.lock();
                let batch = self.take(&mut waiting.commits);
                if !batch.is_empty() {
                    return Some(batch);
                }
                if waiting.ended {
                    return None;
                }
                waiting.idle.insert(lane);
            }
            self.wakes[lane].notified().await;
        }
    }

    /// The first commit that waits, and those that may share its transaction.
    fn take(&self, commits: &mut VecDeque<Pending>) -> Vec<Pending> {
        let mut batch: Vec<Pending> = Vec::new();
        let mut group = Group::default();
        let mut left = VecDeque::new();
        while let Some(pending) = commits.pop_front() {
            let may = batch.is_empty() || self.group;
            if !may {
                left.push_back(pending);
                break;
            }
            // One that contradicts itself goes alone, to be told so.
            let joins = group.join(&pending.commit);
            match joins || batch.is_empty() {
                true if pending.take() => batch.push(pending),
                true => {}
                false => left.push_back(pending),
            }
            if !joins && batch.len() == 1 && left.is_empty() {
                break;
            }
        }
        left.append(commits);
        *commits = left;
        batch
    }
}

/// The lanes of an engine, each a task. They end with it, after what they have in hand.
pub(super) struct Lanes {
    pub(super) shared: Arc<Shared>,
    tasks: Mutex<Vec<JoinHandle<()>>>,
}

impl Lanes {
    pub(super) fn begin(shared: Arc<Shared>) -> Self {
        let lanes = 0..shared.wakes.len();
        let tasks = lanes.map(|at| tokio::spawn(serve(Arc::clone(&shared), at))).collect();
        Self { shared, tasks: Mutex::new(tasks) }
    }

    pub(super) async fn close(&self) {
        self.shared.end();
        let tasks = std::mem::take(&mut *self.tasks.lock());
        for task in tasks {
            // A panic of a lane was told to who waited for it.
            let _ = task.await;
        }
    }
}

impl Drop for Lanes {
    fn drop(&mut self) {
        self.shared.end();
    }
}

async fn serve(shared: Arc<Shared>, at: usize) {
    let mut lane = Lane::new(Arc::clone(&shared.node));
    while let Some(mut batch) = shared.next(at).await {
        if batch.len() > 1 {
            batch = together(&mut lane, batch).await;
        }
        for pending in batch {
            let done = run(&mut lane, &pending.commit, pending.until).await;
            // Who no longer waits is not told.
            let _ = pending.tell.send(done);
        }
    }
    lane.leave().await;
}

async fn run(lane: &mut Lane, commit: &Commit, until: Instant) -> Result<Outcome> {
    match Plan::of(commit) {
        Some(plan) => lane.run(&plan, !changes_nothing(commit), until).await,
        None => Ok(Outcome::Conflict),
    }
}

/// Tries all in one transaction. Those that are to be tried alone come back.
async fn together(lane: &mut Lane, batch: Vec<Pending>) -> Vec<Pending> {
    let mut group = Group::default();
    let joined = batch.iter().all(|pending| group.join(&pending.commit));
    let until = batch.iter().map(|pending| pending.until).min();
    let (true, Some(until)) = (joined, until) else {
        return batch;
    };
    let done = run(lane, &group.into_commit(), until).await;
    let alone = match &done {
        Ok(outcome) => *outcome == Outcome::Conflict,
        // What one of them is to blame for.
        Err(error) => matches!(error.kind(), ErrorKind::Invalid | ErrorKind::Corrupt),
    };
    if alone {
        return batch;
    }
    for pending in batch {
        let told = match &done {
            Ok(outcome) => Ok(*outcome),
            Err(error) => Err(error.share()),
        };
        let _ = pending.tell.send(told);
    }
    Vec::new()
}
