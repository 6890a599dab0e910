//! Which actions there are, which of them run, and what becomes of them.
//!
//! Each kind has a line of its own. An action's row is written when it is asked for and when it
//! ends; one without an end begins anew at the next mount, and finds what is done already.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use tokio::task::JoinSet;
use weir_meta::ActionEnd;
use weir_tier::Amount;
use weir_types::{ErrorKind, FsError, Ino, Result};

use super::action::Action;
use super::pins::Pins;
use super::{
    ActionId, ActionKind, ActionRequest, ActionState, ActionView, archive, hydrate, release,
};
use crate::engine::Core;

/// Actions of one kind that run side by side.
const RUNNING_MOST: usize = 8;
/// Ended actions are kept so long, in milliseconds, and so many of them.
const KEPT_MS: i64 = 7 * 24 * 3_600 * 1_000;
const KEPT_MOST: usize = 100;

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
    /// What hydrations have room for and that is not here yet.
    reserved: Mutex<Amount>,
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
    pub(crate) fn hydrating_since(&self) -> u64 {
        self.hydrating().first().copied().unwrap_or(u64::MAX)
    }

    /// Room that hydrations keep for what is not here yet.
    pub(crate) fn reserved(&self) -> Amount {
        *self.reserved.lock()
    }

    pub(super) fn reserve(&self, amount: Amount, begin: bool) {
        let mut reserved = self.reserved.lock();
        *reserved = if begin { reserved.plus(&amount) } else { reserved.less(&amount) };
    }

    fn hydrating(&self) -> MutexGuard<'_, BTreeSet<u64>> {
        self.hydrating.lock()
    }

    fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock()
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
            let old = first.ended_unix_ms().is_none_or(|at| at + KEPT_MS < now_unix_ms);
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
        self.actions.lists().ended.push_back(action.clone());
        action.set_ended(cancelled, unix_ms);
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
            // Whoever waits for it is told; its row says that there is more to do.
            action.refuse_path(String::new, &error.to_string());
            self.actions.lists().ended.push_back(action.clone());
            action.set_ended(true, self.unix_ms().cast_signed());
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
