//! Which actions there are, which of them run, and what becomes of them.
//!
//! Each kind has a line of its own. An action's row is written when it is asked for and when it
//! ends; one without an end begins anew at the next mount, and finds what is done already.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex, MutexGuard};

use tokio::sync::{Notify, watch};
use tokio::task::JoinSet;
use weir_meta::{ActionEnd, ActionRow, ActionRowKind};
use weir_types::{ErrorKind, FsError, Ino, Result};

use super::pins::Pins;
use super::walk::Found;
use super::{
    ActionId, ActionKind, ActionRequest, ActionState, ActionView, Refused, Root, archive, hydrate,
    release,
};
use crate::engine::Core;

/// Actions of one kind that run side by side.
const RUNNING_MOST: usize = 8;
/// Refused files whose reason is kept.
const REASONS_MOST: usize = 20;
/// Ended actions are kept so long, in milliseconds, and so many of them.
const KEPT_MS: i64 = 7 * 24 * 3_600 * 1_000;
const KEPT_MOST: usize = 100;
/// Files that were opened and wait for their turn, of each hydration.
const NEEDED_MOST: usize = 64;

/// One action, and how far it came.
pub(crate) struct Action {
    pub(crate) id: ActionId,
    pub(crate) request: ActionRequest,
    asked_unix_ms: i64,
    state: watch::Sender<ActionState>,
    progress: Mutex<Progress>,
    /// Held while it is brought to its end.
    ending: tokio::sync::Mutex<()>,
    /// Files that somebody opened, to be looked at before others.
    needed: Mutex<VecDeque<Ino>>,
}

#[derive(Clone, Debug, Default)]
struct Progress {
    files_total: u64,
    files_done: u64,
    bytes_total: u64,
    bytes_done: u64,
    counted: bool,
    refused: u64,
    reasons: Vec<Refused>,
    ended_unix_ms: Option<i64>,
}

impl Action {
    fn new(id: ActionId, request: ActionRequest, asked_unix_ms: i64) -> Self {
        Self {
            id,
            request,
            asked_unix_ms,
            state: watch::Sender::new(ActionState::Waiting),
            progress: Mutex::default(),
            ending: tokio::sync::Mutex::default(),
            needed: Mutex::default(),
        }
    }

    pub(crate) fn view(&self) -> ActionView {
        let progress = self.progress().clone();
        ActionView {
            id: self.id,
            request: self.request.clone(),
            state: self.state(),
            asked_unix_ms: self.asked_unix_ms,
            ended_unix_ms: progress.ended_unix_ms,
            files_total: progress.files_total,
            files_done: progress.files_done,
            bytes_total: progress.bytes_total,
            bytes_done: progress.bytes_done,
            counted: progress.counted,
            refused: progress.refused,
            reasons: progress.reasons,
        }
    }

    pub(crate) fn state(&self) -> ActionState {
        *self.state.borrow()
    }

    fn has_ended(&self) -> bool {
        ended(&self.state())
    }

    /// Waits until it has ended.
    pub(crate) async fn end(&self) {
        // The sender is here, so this does not fail.
        let _ = self.state.subscribe().wait_for(ended).await;
    }

    /// The walk found these files.
    pub(crate) fn found(&self, files: &[Found]) {
        let mut progress = self.progress();
        progress.files_total += files.len() as u64;
        progress.bytes_total += files.iter().map(|file| file.size).sum::<u64>();
    }

    /// The walk has found all files.
    pub(crate) fn counted(&self) {
        self.progress().counted = true;
    }

    /// Bytes found, if these are all.
    pub(crate) fn bytes_total(&self) -> Option<u64> {
        let progress = self.progress();
        progress.counted.then_some(progress.bytes_total)
    }

    pub(crate) fn moved(&self, bytes: u64) {
        self.progress().bytes_done += bytes;
    }

    /// Bytes that were counted did not help.
    pub(crate) fn unmoved(&self, bytes: u64) {
        self.progress().bytes_done -= bytes;
    }

    /// Files are as they were asked to be.
    pub(crate) fn done(&self, files: u64, bytes: u64) {
        let mut progress = self.progress();
        progress.files_done += files;
        progress.bytes_done += bytes;
    }

    /// A file stays as it is.
    pub(crate) fn refuse(&self, file: &Found, reason: &str) {
        self.progress().files_done += 1;
        self.refuse_path(|| file.path(), reason);
    }

    /// What is at a path stays as it is, and is not among the files found.
    pub(crate) fn refuse_path(&self, path: impl FnOnce() -> String, reason: &str) {
        let mut progress = self.progress();
        progress.refused += 1;
        if progress.reasons.len() < REASONS_MOST {
            progress.reasons.push(Refused { path: path(), reason: reason.to_owned() });
        }
    }

    /// The next file that somebody opened.
    pub(crate) fn take_needed(&self) -> Option<Ino> {
        self.needed.lock().unwrap_or_else(|e| e.into_inner()).pop_front()
    }

    fn need(&self, ino: Ino) {
        let mut needed = self.needed.lock().unwrap_or_else(|e| e.into_inner());
        if needed.len() < NEEDED_MOST && !needed.contains(&ino) {
            needed.push_back(ino);
        }
    }

    fn row(&self, end: Option<ActionEnd>) -> ActionRow {
        ActionRow {
            kind: match self.request.kind {
                ActionKind::Hydrate => ActionRowKind::Hydrate,
                ActionKind::Release => ActionRowKind::Release,
                ActionKind::Archive => ActionRowKind::Archive,
            },
            roots: self.request.roots.iter().map(|r| (r.ino, r.path.clone())).collect(),
            recursive: self.request.recursive,
            max_bytes_per_s: self.request.max_bytes_per_s,
            asked_unix_ms: self.asked_unix_ms,
            end,
        }
    }

    fn from_row(number: u64, row: ActionRow) -> Self {
        let root = |(ino, path)| Root { ino, path };
        let request = ActionRequest {
            kind: match row.kind {
                ActionRowKind::Hydrate => ActionKind::Hydrate,
                ActionRowKind::Release => ActionKind::Release,
                ActionRowKind::Archive => ActionKind::Archive,
            },
            roots: row.roots.into_iter().map(root).collect(),
            recursive: row.recursive,
            max_bytes_per_s: row.max_bytes_per_s,
        };
        let action = Self::new(ActionId(number), request, row.asked_unix_ms);
        if let Some(end) = row.end {
            let refused = |(path, reason)| Refused { path, reason };
            *action.progress() = Progress {
                files_total: end.files.0,
                files_done: end.files.1,
                bytes_total: end.bytes.0,
                bytes_done: end.bytes.1,
                counted: !end.cancelled,
                refused: end.refused,
                reasons: end.reasons.into_iter().map(refused).collect(),
                ended_unix_ms: Some(end.unix_ms),
            };
            action.state.send_replace(match end.cancelled {
                true => ActionState::Cancelled,
                false => ActionState::Done,
            });
        }
        action
    }

    fn progress(&self) -> MutexGuard<'_, Progress> {
        self.progress.lock().unwrap_or_else(|e| e.into_inner())
    }
}

fn ended(state: &ActionState) -> bool {
    matches!(state, ActionState::Done | ActionState::Cancelled)
}

/// All actions and pins of a mount.
#[derive(Default)]
pub(crate) struct Actions {
    lists: Mutex<Lists>,
    /// Held while a number is given out.
    adding: tokio::sync::Mutex<()>,
    /// Wakes the loop that starts them.
    added: Notify,
    /// When those hydrations began that run, in the tier's time of uses.
    hydrating: Mutex<BTreeSet<u64>>,
    /// Bytes that hydrations have room for and that are not here yet.
    pub(crate) reserved_bytes: AtomicU64,
    pub(crate) pins: Pins,
}

#[derive(Default)]
struct Lists {
    all: BTreeMap<ActionId, Arc<Action>>,
    /// Those that wait, and how many run, of each kind.
    lines: [(VecDeque<Arc<Action>>, usize); 3],
    /// Ended ones, in the order in which they ended.
    ended: VecDeque<Arc<Action>>,
    last: u64,
}

impl Actions {
    pub(crate) fn all(&self) -> Vec<Arc<Action>> {
        self.lists().all.values().cloned().collect()
    }

    pub(crate) fn find(&self, id: ActionId) -> Result<Arc<Action>> {
        let found = self.lists().all.get(&id).cloned();
        found.ok_or_else(|| {
            let text = format!("there is no action {}, or it ended long ago", id.0);
            FsError::new(ErrorKind::NotFound, text)
        })
    }

    /// Those that have not ended.
    pub(crate) fn open(&self) -> Vec<Arc<Action>> {
        let lists = self.lists();
        if lists.all.len() == lists.ended.len() {
            return Vec::new();
        }
        lists.all.values().filter(|action| !action.has_ended()).cloned().collect()
    }

    /// Somebody opened a file or waits for bytes of it: hydrations bring it next. Cheap when there
    /// are none.
    pub(crate) fn needed(&self, ino: Ino) {
        if self.hydrating().is_empty() {
            return;
        }
        for action in self.open() {
            if action.request.kind == ActionKind::Hydrate && action.state() == ActionState::Running
            {
                action.need(ino);
            }
        }
    }

    /// When the first of the hydrations that run began.
    pub(super) fn hydrating_since(&self) -> u64 {
        self.hydrating().first().copied().unwrap_or(u64::MAX)
    }

    fn hydrating(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.hydrating.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock().unwrap_or_else(|e| e.into_inner())
    }

    fn take_up(&self, action: Arc<Action>) {
        let mut lists = self.lists();
        lists.last = lists.last.max(action.id.0);
        lists.all.insert(action.id, action.clone());
        match action.has_ended() {
            true => lists.ended.push_back(action),
            false => lists.lines[action.request.kind as usize].0.push_back(action),
        }
        self.added.notify_one();
    }

    /// The next action whose turn it is; it runs from here on.
    fn next(&self) -> Option<Arc<Action>> {
        let mut lists = self.lists();
        for (waiting, running) in &mut lists.lines {
            while *running < RUNNING_MOST
                && let Some(action) = waiting.pop_front()
            {
                if action.state.send_if_modified(|state| {
                    let waits = *state == ActionState::Waiting;
                    if waits {
                        *state = ActionState::Running;
                    }
                    waits
                }) {
                    *running += 1;
                    return Some(action);
                }
            }
        }
        None
    }

    /// Ended actions that nobody needs to hear of once another ends; the newest is kept, because its number
    /// must not be used again.
    fn outdated(&self, now_unix_ms: i64) -> Vec<u64> {
        let mut lists = self.lists();
        let mut outdated = Vec::new();
        while let Some(first) = lists.ended.front() {
            let old = first.progress().ended_unix_ms.is_none_or(|at| at + KEPT_MS < now_unix_ms);
            if first.id.0 == lists.last || (!old && lists.ended.len() < KEPT_MOST) {
                break;
            }
            let id = first.id;
            lists.ended.pop_front();
            lists.all.remove(&id);
            outdated.push(id.0);
        }
        outdated
    }
}

impl Core {
    /// Takes up what the metadata knows of actions and pins. One read for each 1,000.
    pub(crate) async fn load_actions(&self) -> Result<()> {
        self.actions.pins.load(self.seen(self.meta.pins().await)?);
        if self.read_only {
            return Ok(());
        }
        let mut rows = self.seen(self.meta.actions().await)?;
        rows.sort_by_key(|(number, row)| (row.end.as_ref().map(|end| end.unix_ms), *number));
        for (number, row) in rows {
            self.actions.take_up(Arc::new(Action::from_row(number, row)));
        }
        Ok(())
    }

    /// Notes an action and has it begun. On a read-only mount it is known to this mount only.
    pub(super) async fn add_action(&self, request: ActionRequest) -> Result<ActionView> {
        let _adding = self.actions.adding.lock().await;
        let id = ActionId(self.actions.lists().last + 1);
        let action = Arc::new(Action::new(id, request, self.unix_ms().cast_signed()));
        if !self.read_only {
            self.seen(self.meta.add_action(id.0, &action.row(None)).await)?;
        }
        let view = action.view();
        self.actions.take_up(action);
        Ok(view)
    }

    /// Brings an action to its end, unless it has one.
    pub(super) async fn end_action(&self, action: &Arc<Action>, cancelled: bool) -> Result<()> {
        let _ending = action.ending.lock().await;
        if action.has_ended() {
            return Ok(());
        }
        let unix_ms = self.unix_ms().cast_signed();
        let forget = self.actions.outdated(unix_ms);
        if !self.read_only {
            let view = action.view();
            let end = ActionEnd {
                unix_ms,
                cancelled,
                files: (view.files_total, view.files_done),
                bytes: (view.bytes_total, view.bytes_done),
                refused: view.refused,
                reasons: view.reasons.into_iter().map(|r| (r.path, r.reason)).collect(),
            };
            let row = action.row(Some(end));
            self.seen(self.meta.put_action(action.id.0, &row, &forget).await)?;
        }
        action.progress().ended_unix_ms = Some(unix_ms);
        self.actions.lists().ended.push_back(action.clone());
        action.state.send_replace(match cancelled {
            true => ActionState::Cancelled,
            false => ActionState::Done,
        });
        Ok(())
    }

    async fn run_action(self: Arc<Self>, action: Arc<Action>) {
        let work = async {
            match action.request.kind {
                ActionKind::Hydrate => hydrate::run(&self, &action).await,
                ActionKind::Release => release::run(&self, &action).await,
                ActionKind::Archive => archive::run(&self, &action).await,
            }
        };
        let done = tokio::select! {
            () = action.end() => return,
            done = work => done,
        };
        let ended = match done {
            Ok(()) => self.end_action(&action, false).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            let id = action.id.0;
            tracing::warn!(action = id, %error, "an action stopped: the next mount goes on with it");
        }
    }
}

/// A hydration that runs.
pub(super) struct Hydrating<'a> {
    core: &'a Core,
    since: u64,
}

impl<'a> Hydrating<'a> {
    pub(super) fn begin(core: &'a Core) -> Self {
        let since = core.tier.tick();
        core.actions.hydrating().insert(since);
        Self { core, since }
    }
}

impl Drop for Hydrating<'_> {
    fn drop(&mut self) {
        self.core.actions.hydrating().remove(&self.since);
    }
}

/// A place among the actions of a kind that run.
struct InLine {
    core: Arc<Core>,
    kind: ActionKind,
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.core.actions.lists().lines[self.kind as usize].1 -= 1;
    }
}

/// Starts actions when their turn comes. When this task ends, they stop.
pub(crate) async fn run_loop(core: Arc<Core>) {
    let mut running = JoinSet::new();
    loop {
        while let Some(action) = core.actions.next() {
            let running_one = InLine { core: core.clone(), kind: action.request.kind };
            running.spawn(async move {
                running_one.core.clone().run_action(action).await;
                drop(running_one);
            });
        }
        tokio::select! {
            () = core.actions.added.notified() => {}
            Some(ended) = running.join_next() => if let Err(error) = ended {
                tracing::error!(%error, "an action broke off: the next mount goes on with it");
            }
        }
    }
}
