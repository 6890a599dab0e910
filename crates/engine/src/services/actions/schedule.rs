//! Which actions there are, which of them run, and whose turn is next.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::Notify;
use weir_types::{ErrorKind, FsError, Ino, Result};

use super::action::Action;
use super::views::{ActionId, ActionKind, ActionState};
use crate::data::upward::WaitedFor;
use crate::volume::locks::{self, Place};

/// Actions of one line that run side by side.
const RUNNING_MAX: usize = 8;
/// Lines: one for each kind, and the last for hydrations that restore, which wait for hours: no other is to wait
/// for them.
const LINES: usize = 4;
/// Ended actions are kept so long, in milliseconds, and so many of them.
const KEPT_MS: i64 = 7 * 24 * 3_600 * 1_000;
const KEPT_MAX: usize = 100;

/// All actions of a mount, and whose turn it is.
pub(crate) struct Schedule {
    pub(super) lists: Mutex<Lists>,
    /// Held while a number is given out.
    pub(super) adding: locks::Mutex,
    /// Wakes the loop that starts them.
    pub(super) added: Notify,
}

#[derive(Default)]
pub(super) struct Lists {
    pub(super) all: BTreeMap<ActionId, Arc<Action>>,
    /// Those that wait, and how many run, of each line.
    pub(super) lines: [(VecDeque<Arc<Action>>, usize); LINES],
    /// Ended ones, in the order in which they ended.
    pub(super) ended: VecDeque<Arc<Action>>,
    pub(super) last: u64,
}

impl Default for Schedule {
    fn default() -> Self {
        let adding = locks::Mutex::new(Place::ActionNumber, 0, ());
        Self { lists: Mutex::default(), adding, added: Notify::new() }
    }
}

/// Which line an action waits in.
pub(super) fn line_of(action: &Action) -> usize {
    match action.request.restore {
        None => action.request.kind as usize,
        Some(_) => LINES - 1,
    }
}

impl Schedule {
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

    pub(super) fn lists(&self) -> MutexGuard<'_, Lists> {
        self.lists.lock()
    }

    pub(super) fn take_up(&self, action: Arc<Action>) {
        let mut lists = self.lists();
        lists.last = lists.last.max(action.id.0);
        lists.all.insert(action.id, action.clone());
        match action.has_ended() {
            true => lists.ended.push_back(action),
            false => lists.lines[line_of(&action)].0.push_back(action),
        }
        self.added.notify_one();
    }

    /// The same for one that may be known.
    pub(super) fn take_up_new(&self, action: Arc<Action>) {
        let known = self.lists().all.contains_key(&action.id);
        if !known {
            self.take_up(action);
        }
    }

    /// An action is not this node's any more: what is known of it is elsewhere.
    pub(super) fn stop(&self, action: &Action, unix_ms: i64) {
        self.lists().all.remove(&action.id);
        action.set_ended(true, unix_ms);
    }

    /// The next action whose turn it is; it runs from here on.
    pub(super) fn next(&self) -> Option<Arc<Action>> {
        let mut lists = self.lists();
        for (waiting, running) in &mut lists.lines {
            while *running < RUNNING_MAX
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
    pub(super) fn outdated(&self, now_unix_ms: i64) -> Vec<u64> {
        let mut lists = self.lists();
        let mut outdated = Vec::new();
        while let Some(first) = lists.ended.front() {
            let old = first.ended_unix_ms().is_none_or(|at| at + KEPT_MS < now_unix_ms);
            if first.id.0 == lists.last || (!old && lists.ended.len() < KEPT_MAX) {
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

impl WaitedFor for Schedule {
    /// Hydrations bring it next.
    fn needed(&self, ino: Ino) {
        for action in self.open() {
            if action.request.kind == ActionKind::Hydrate && action.state() == ActionState::Running
            {
                action.need(ino);
            }
        }
    }
}
