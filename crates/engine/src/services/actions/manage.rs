//! Which actions there are, which of them run, and what becomes of them.
//!
//! Each kind has a line of its own. An action's row is written when it is asked for and when it
//! ends; one without an end begins anew at the next mount, and finds what is done already.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use weir_meta::{ActionEnd, ClaimedAction};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Result};

use super::action::Action;
use super::schedule::line_of;
use super::views::{ActionId, ActionKind, ActionRequest, ActionState, ActionView, FileState, Root};
use super::{archive, hydrate, release};
use crate::names::past::check_present;
use crate::services::actions::parts::Actions;
use crate::volume::together::Together;

/// How often an action of another node is looked at, in milliseconds.
const LOOK_MS: u64 = 1_000;

impl Actions {
    /// Begins an action; one commit. `Invalid` for a directory without `recursive`, or for one that restores and
    /// is no hydration, or for no days; `NotFound` if a root is not there.
    pub(crate) async fn start_action(&self, request: ActionRequest) -> Result<ActionView> {
        if request.kind == ActionKind::Archive {
            self.context.check_writable()?;
        }
        let restores = request.restore.is_some_and(|restore| restore.days > 0);
        if request.restore.is_some() && !(restores && request.kind == ActionKind::Hydrate) {
            let text = "only a hydration restores what is archived, and for a day at least";
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        self.check_roots(&request.roots, request.recursive).await?;
        self.add_action(request).await
    }

    /// All actions that run, wait, or ended of late, oldest first.
    /// Where nodes share the volume, those of all of them; two reads then.
    pub(crate) async fn actions(&self) -> Result<Vec<ActionView>> {
        if let Some(together) = &self.context.together {
            return self.claimed_views(together).await;
        }
        Ok(self.schedule.all().iter().map(|action| action.view()).collect())
    }

    /// One action; `NotFound` if there is none of this name.
    pub(crate) async fn action(&self, id: ActionId) -> Result<ActionView> {
        if let Some(together) = &self.context.together {
            return self.view_elsewhere(id, together).await;
        }
        Ok(self.schedule.find(id)?.view())
    }

    /// Returns the action once it has ended, or as it stands after `wait_ms`.
    pub(crate) async fn wait_for_action(&self, id: ActionId, wait_ms: u64) -> Result<ActionView> {
        let action = match (self.schedule.find(id), &self.context.together) {
            (Ok(action), _) => action,
            (Err(_), Some(together)) => return self.wait_elsewhere(id, wait_ms, together).await,
            (Err(error), None) => return Err(error),
        };
        let _ = tokio::time::timeout(Duration::from_millis(wait_ms), action.end()).await;
        match self.context.is_shared() {
            // It may have ended for being another's.
            true => self.action(id).await,
            false => Ok(action.view()),
        }
    }

    /// As [`Actions::wait_for_action`] for one of another node, which is looked at each second.
    async fn wait_elsewhere(
        &self,
        id: ActionId,
        wait_ms: u64,
        together: &Together,
    ) -> Result<ActionView> {
        let mut left_ms = wait_ms;
        loop {
            let view = self.view_elsewhere(id, together).await?;
            let ended = matches!(view.state, ActionState::Done | ActionState::Cancelled);
            if ended || left_ms == 0 {
                return Ok(view);
            }
            let rest_ms = left_ms.min(LOOK_MS);
            tokio::time::sleep(Duration::from_millis(rest_ms)).await;
            left_ms -= rest_ms;
        }
    }

    /// Stops an action, and all others of its group; one commit for each. What it did stays done, and what is
    /// on its way still comes.
    pub(crate) async fn cancel_action(&self, id: ActionId) -> Result<ActionView> {
        for one in self.others_of_group(id).await? {
            self.cancel_one(one).await?;
        }
        self.cancel_one(id).await
    }

    async fn cancel_one(&self, id: ActionId) -> Result<ActionView> {
        match (self.schedule.find(id), &self.context.together) {
            (Ok(action), _) => self.end_action(&action, true).await?,
            (Err(_), Some(together)) => return self.cancel_elsewhere(id, together).await,
            (Err(error), None) => return Err(error),
        }
        self.action(id).await
    }

    /// Pins files, so that they are never released, or unpins them. Answers how many there were.
    /// With `recursive` those that are below a directory now. One commit for each 512 files.
    pub(crate) async fn pin(
        self: &Arc<Self>,
        roots: &[Root],
        recursive: bool,
        pinned: bool,
    ) -> Result<u64> {
        self.context.check_writable()?;
        self.check_roots(roots, recursive).await?;
        self.set_pins(roots, recursive, pinned).await
    }

    /// How a regular file stands. One read of the metadata; more for files with holes, and for
    /// those that an action may have to do with.
    pub(crate) async fn file_state(&self, ino: Ino) -> Result<FileState> {
        self.state_of(ino).await
    }
}

impl Actions {
    pub(super) async fn check_roots(&self, roots: &[Root], recursive: bool) -> Result<()> {
        if roots.is_empty() {
            return Err(FsError::new(ErrorKind::Invalid, "no file or directory is named"));
        }
        for root in roots {
            check_present(&[root.ino])?;
            let inode = self.meta.inode(root.ino).await?;
            if inode.kind == FileKind::Directory && !recursive {
                let text = format!("{} is a directory: say so with -r", root.path);
                return Err(FsError::new(ErrorKind::Invalid, text));
            }
        }
        Ok(())
    }
}

impl Actions {
    /// Takes up what the metadata knows of actions and pins. Five reads, one more for each 1,000.
    pub(crate) async fn load_actions(&self) -> Result<()> {
        self.space.pins.load(self.meta.pins().await?);
        if self.context.read_only {
            return Ok(());
        }
        if self.meta.kv().is_far() {
            // What nodes were at is all this mount's.
            self.meta.unclaim_actions().await?;
        }
        let mut found = self.meta.claimed_actions().await?;
        let ended_ms = |of: &ClaimedAction| of.row.1.end.as_ref().map(|end| end.unix_ms);
        found.sort_by_key(|(number, of)| (ended_ms(of), *number));
        for (number, of) in found {
            let ClaimedAction { row: (_, row), portion, restore, .. } = of;
            self.schedule.take_up(Arc::new(Action::from_row(number, row, portion, restore)));
        }
        Ok(())
    }

    /// Notes an action and has it begun. On a read-only mount it is known to this mount only.
    pub(super) async fn add_action(&self, request: ActionRequest) -> Result<ActionView> {
        let _adding = self.schedule.adding.lock().await;
        let asked_at = self.context.unix_ms().cast_signed();
        let mut number = self.schedule.lists().last;
        let action = loop {
            number += 1;
            let action = Arc::new(Action::new(ActionId(number), request.clone(), asked_at));
            if self.context.read_only {
                break action;
            }
            let claim = self.claim(&action);
            let (row, restore) = (action.row(None), request.restore.as_ref());
            match self.meta.add_action(number, &row, claim.as_ref(), restore).await {
                // Another node's.
                Err(error) if error.kind() == ErrorKind::Exists && self.context.is_shared() => {}
                added => {
                    added?;
                    break action;
                }
            }
        };
        let view = action.view();
        self.schedule.take_up(action);
        Ok(view)
    }

    /// Brings an action to its end, unless it has one.
    pub(super) async fn end_action(&self, action: &Arc<Action>, cancelled: bool) -> Result<()> {
        let _ending = action.ending.lock().await;
        if action.has_ended() {
            return Ok(());
        }
        let unix_ms = self.context.unix_ms().cast_signed();
        let forget = self.schedule.outdated(unix_ms);
        if !self.context.read_only {
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
            match &self.context.together {
                None => self.meta.put_action(action.id.0, &row, &forget).await?,
                Some(together) => {
                    if !self.end_claimed(action, &row, &forget, together).await? {
                        self.schedule.stop(action, unix_ms);
                        return Ok(());
                    }
                }
            }
        }
        self.schedule.lists().ended.push_back(action.clone());
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
            Ok(()) if self.passed_on(&action).await => return,
            Ok(()) => self.end_action(&action, false).await,
            Err(error) => Err(error),
        };
        if let Err(error) = ended {
            let id = action.id.0;
            tracing::warn!(action = id, %error, "an action stopped: the next mount goes on with it");
            // Whoever waits for it is told; its row says that there is more to do.
            action.refuse_path(String::new, &error.to_string());
            self.schedule.lists().ended.push_back(action.clone());
            action.set_ended(true, self.context.unix_ms().cast_signed());
        }
    }
}

/// A place among those of a line that run.
struct InLine {
    actions: Arc<Actions>,
    line: usize,
}

impl Drop for InLine {
    fn drop(&mut self) {
        self.actions.schedule.lists().lines[self.line].1 -= 1;
    }
}

/// Starts actions when their turn comes. When this task ends, they stop.
pub(crate) async fn run_loop(actions: Arc<Actions>) {
    let mut running = JoinSet::new();
    loop {
        while let Some(action) = actions.schedule.next() {
            let running_one = InLine { actions: actions.clone(), line: line_of(&action) };
            running.spawn(async move {
                running_one.actions.clone().run_action(action).await;
                drop(running_one);
            });
        }
        tokio::select! {
            () = actions.schedule.added.notified() => {}
            Some(ended) = running.join_next() => if let Err(error) = ended {
                tracing::error!(%error, "an action broke off: the next mount goes on with it");
            }
        }
    }
}
