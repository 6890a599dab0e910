//! Whose an action is, where nodes share the volume: one node works on each.
//!
//! A hydration or a release is of a tier, and so of the node at which it was asked for: while that one is
//! not there it waits, and goes on when its tier is mounted again. An archive that lost its node is gone
//! on with by the node on duty.

use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

use weir_meta::sessions::SessionId;
use weir_meta::{ActionClaim, ActionEnd, ActionRow, ActionRowKind, AskedOfNodes, ClaimedAction};
use weir_types::{ErrorKind, FsError, Result};

use super::action::Action;
use super::views::{ActionId, ActionNode, ActionState, ActionView};
use crate::services::actions::parts::Actions;
use crate::volume::together::Together;

/// How often a node looks what became of its actions, and that on duty of those of nodes that are gone.
const LOOK: Duration = Duration::from_secs(3);
/// An action whose node is gone ends so long after it was asked for, in milliseconds.
const LOST_MS: i64 = 7 * 24 * 3_600 * 1_000;

impl Actions {
    /// The claim of this node on an action; `None` where nodes share nothing.
    pub(super) fn claim(&self, action: &Action) -> Option<ActionClaim> {
        let together = self.context.together.as_ref()?;
        let view = action.view();
        Some(ActionClaim {
            session: together.id(),
            node: self.host.clone(),
            tier: self.tier_directory.clone(),
            runs: view.state == ActionState::Running,
            files: (view.files_total, view.files_done),
            bytes: (view.bytes_total, view.bytes_done),
            counted: view.counted,
            refused: view.refused,
        })
    }

    /// Takes up what the metadata knows of pins and of actions: of those that have not ended only such as
    /// are of this tier. Three reads, and a commit if there are any.
    pub(crate) async fn load_claimed(&self) -> Result<()> {
        let Some(together) = &self.context.together else { return Ok(()) };
        self.space.pins.load(self.meta.pins().await?);
        let all = self.meta.claimed_actions().await?;
        self.schedule.lists().last = all.last().map_or(0, |(number, _)| *number);
        let (mut ended, mut open) = (Vec::new(), Vec::new());
        for (number, action) in all {
            match (&action.row.1.end, &action.claim) {
                (Some(end), _) => ended.push((end.unix_ms, number, action)),
                (None, Some((_, claim))) if together.had(claim.session) => {
                    open.push((number, action));
                }
                (None, _) => {}
            }
        }
        ended.sort_by_key(|(unix_ms, number, _)| (*unix_ms, *number));
        for (_, number, action) in ended {
            let ClaimedAction { row: (_, row), portion, restore, .. } = action;
            self.schedule.take_up(Arc::new(Action::from_row(number, row, portion, restore)));
        }
        self.take(open).await
    }

    /// All actions, each with its node. Two reads.
    pub(super) async fn claimed_views(&self, together: &Together) -> Result<Vec<ActionView>> {
        let all = self.meta.claimed_actions().await?;
        let view = |(number, action)| self.claimed_view(number, action, together);
        Ok(all.into_iter().map(view).collect())
    }

    /// One of them; `NotFound` if there is none. One read.
    pub(super) async fn view_elsewhere(
        &self,
        id: ActionId,
        together: &Together,
    ) -> Result<ActionView> {
        let found = self.meta.these_actions(&[id.0]).await?.pop().flatten();
        let found = found.ok_or_else(|| unknown(id))?;
        Ok(self.claimed_view(id.0, found, together))
    }

    fn claimed_view(&self, number: u64, found: ClaimedAction, together: &Together) -> ActionView {
        let ClaimedAction { row: (_, row), claim, portion, restore } = found;
        let claim = claim.map(|(_, claim)| claim);
        let here = claim.as_ref().is_none_or(|claim| claim.session == together.id());
        let own = self.schedule.find(ActionId(number)).ok().filter(|_| here);
        let has_ended = row.end.is_some();
        let kind = row.kind;
        let mut view = match own {
            Some(action) => action.view(),
            None => Action::from_row(number, row, portion, restore).view(),
        };
        let Some(claim) = claim else { return view };
        if !here && !has_ended {
            let lives = together.live().iter().any(|session| session.id == claim.session);
            view.state = match (lives, kind) {
                (true, _) if claim.runs => ActionState::Running,
                (true, _) | (false, ActionRowKind::Archive) => ActionState::Waiting,
                (false, _) => ActionState::Away,
            };
            (view.files_total, view.files_done) = claim.files;
            (view.bytes_total, view.bytes_done) = claim.bytes;
            (view.counted, view.refused) = (claim.counted, claim.refused);
        }
        let ActionClaim { session, node: name, tier, .. } = claim;
        view.node = Some(ActionNode { id: session.to_string(), name, tier, here });
        view
    }

    /// Stops an action of another node, which notices within seconds; one that is not there has it
    /// stopped for good. A read and a commit.
    pub(super) async fn cancel_elsewhere(
        &self,
        id: ActionId,
        together: &Together,
    ) -> Result<ActionView> {
        self.context.check_writable()?;
        loop {
            let found = self.meta.these_actions(&[id.0]).await?.pop().flatten();
            let found = found.ok_or_else(|| unknown(id))?;
            if found.row.1.end.is_some() || self.end_lost(id.0, &found, Vec::new()).await? {
                return self.view_elsewhere(id, together).await;
            }
        }
    }

    /// Ends an action as cancelled that another node works on, or none.
    async fn end_lost(
        &self,
        number: u64,
        found: &ClaimedAction,
        reasons: Vec<(String, String)>,
    ) -> Result<bool> {
        let (files, bytes, refused) = found
            .claim
            .as_ref()
            .map_or_else(Default::default, |(_, of)| (of.files, of.bytes, of.refused));
        let unix_ms = self.context.unix_ms().cast_signed();
        let end = ActionEnd { unix_ms, cancelled: true, files, bytes, refused, reasons };
        let row = ActionRow { end: Some(end), ..found.row.1.clone() };
        self.meta.end_action(number, found, &row, &[]).await
    }

    /// Writes the end of an action of this node, unless it is another's by now or somebody ended it.
    /// `false` then. A read and a commit.
    pub(super) async fn end_claimed(
        &self,
        action: &Action,
        row: &ActionRow,
        forget: &[u64],
        together: &Together,
    ) -> Result<bool> {
        loop {
            let found = self.meta.these_actions(&[action.id.0]).await?.pop().flatten();
            let Some(found) = found.filter(|found| is_open_at(found, together.id())) else {
                return Ok(false);
            };
            if self.meta.end_action(action.id.0, &found, row, forget).await? {
                return Ok(true);
            }
        }
    }
}

impl Actions {
    /// Makes these this node's, and has them begun. A commit, if there are any.
    async fn take(&self, open: Vec<(u64, ClaimedAction)>) -> Result<()> {
        let mut claims = Vec::new();
        let mut actions = Vec::new();
        for (number, found) in open {
            let ClaimedAction { row: (_, row), portion, restore, .. } = found;
            let action = Arc::new(Action::from_row(number, row, portion, restore));
            let seen = found.claim.map(|(version, _)| version);
            claims.extend(self.claim(&action).map(|claim| (number, seen, claim)));
            actions.push(action);
        }
        if claims.is_empty() {
            return Ok(());
        }
        if self.meta.claim_actions(&claims).await? {
            actions.into_iter().for_each(|action| self.schedule.take_up(action));
        }
        Ok(())
    }

    /// Takes up what other nodes asked of this one since that was `seen`. One read, and more where there is any.
    async fn look_at_asked(&self, together: &Together, seen: &mut AskedOfNodes) -> Result<()> {
        let now = self.meta.asked_of_nodes().await?;
        if now.portions != seen.portions {
            self.take_given(together).await?;
            seen.portions = now.portions;
        }
        if now.pins != seen.pins {
            self.space.pins.replace(self.meta.pins().await?);
            seen.pins = now.pins;
        }
        Ok(())
    }

    /// Stops what is not this node's any more, and says how far its actions are. A read and a commit where
    /// it has any.
    async fn look_at_own(&self, together: &Together) -> Result<()> {
        let open = self.schedule.open();
        if open.is_empty() {
            return Ok(());
        }
        let numbers: Vec<_> = open.iter().map(|action| action.id.0).collect();
        let mut news = Vec::new();
        for (action, found) in open.iter().zip(self.meta.these_actions(&numbers).await?) {
            match found {
                Some(found) if is_open_at(&found, together.id()) => {
                    let now = self.claim(action);
                    let (version, before) = found.claim.unzip();
                    let news_of = now.filter(|now| before.as_ref() != Some(now));
                    news.extend(news_of.map(|claim| (action.id.0, version, claim)));
                }
                _ => self.schedule.stop(action, self.context.unix_ms().cast_signed()),
            }
        }
        if !news.is_empty() {
            // One that ends meanwhile is no news any more.
            self.meta.claim_actions(&news).await?;
        }
        Ok(())
    }

    /// Goes on with what lost its node and can be done at any, and ends what nobody came back for. Two
    /// reads, and one more where there is any such.
    async fn look_at_lost(&self, together: &Together) -> Result<()> {
        let own: HashSet<u64> = self.schedule.open().iter().map(|action| action.id.0).collect();
        let live = together.live();
        let mut lost = self.meta.claimed_actions().await?;
        lost.retain(|(number, action)| {
            let claim = action.claim.as_ref().map(|(_, claim)| claim.session);
            let lives = |id: SessionId| live.iter().any(|session| session.id == id);
            action.row.1.end.is_none() && !own.contains(number) && !claim.is_some_and(lives)
        });
        let sessions: Vec<_> =
            lost.iter().filter_map(|(_, of)| Some(of.claim.as_ref()?.1.session)).collect();
        let there = match sessions.is_empty() {
            true => Vec::new(),
            false => self.meta.are_there(&sessions).await?,
        };
        // Who joined since the last look is there.
        let there: HashSet<_> =
            sessions.into_iter().zip(there).filter(|(_, there)| *there).map(|(id, _)| id).collect();
        let before_ms = self.context.unix_ms().cast_signed() - LOST_MS;
        let mut taken = Vec::new();
        for (number, action) in lost {
            match &action.claim {
                Some((_, claim)) if there.contains(&claim.session) => {}
                Some(_) if action.portion.as_ref().is_some_and(|of| !of.everywhere) => {
                    self.give_on(number, &action, together).await?;
                }
                Some((_, claim)) if action.row.1.kind != ActionRowKind::Archive => {
                    if action.row.1.asked_unix_ms < before_ms {
                        let why = format!("its node {} did not come back", claim.node);
                        self.end_lost(number, &action, vec![(String::new(), why)]).await?;
                    }
                }
                _ => taken.push((number, action)),
            }
        }
        self.take(taken).await
    }
}

pub(super) fn is_open_at(found: &ClaimedAction, session: SessionId) -> bool {
    let claim = found.claim.as_ref();
    found.row.1.end.is_none() && claim.is_some_and(|(_, claim)| claim.session == session)
}

fn unknown(id: ActionId) -> FsError {
    let text = format!("there is no action {}, or it ended long ago", id.0);
    FsError::new(ErrorKind::NotFound, text)
}

/// Looks after the actions of the nodes that share a volume.
pub(crate) async fn claims_loop(actions: Arc<Actions>, together: Arc<Together>) {
    let mut seen = AskedOfNodes::default();
    loop {
        tokio::time::sleep(LOOK).await;
        let mut looked = actions.look_at_asked(&together, &mut seen).await;
        if looked.is_ok() {
            looked = actions.look_at_own(&together).await;
        }
        if looked.is_ok() && together.is_on_duty() {
            looked = actions.look_at_lost(&together).await;
        }
        if let Err(error) = looked {
            tracing::debug!(%error, "what becomes of actions is looked at again");
        }
    }
}
