//! A hydration that is divided among the nodes that share a volume.
//!
//! It is a group of actions, one for each node that was there when it was asked for; which files, and of large ones
//! which parts, are of which follows from their inode numbers. So nobody hands out anything, and each node walks the
//! tree by itself. What a node brings others have from its tier then. A portion whose node is gone goes to another
//! one, all of it; one whose node has no room for the rest does, too, and who takes it asks that node what it has.
//!
//! `everywhere` is the other kind: each node does all, and they give each other what they fetch.

use std::sync::Arc;

use weir_meta::sessions::Session;
use weir_meta::{ActionClaim, ActionPortion, ClaimedAction};
use weir_types::{ByteRange, CHUNK_BYTES, ErrorKind, FsError, Ino, Result};

use super::action::Action;
use super::claims::is_open_at;
use super::found::Found;
use super::views::{ActionId, ActionKind, ActionRequest, ActionView};
use crate::data::peers::route::mix;
use crate::services::actions::parts::Actions;
use crate::volume::together::Together;

/// Files of more than a record are divided in parts of so many bytes: as much as a hydration asks for in two GETs.
const UNIT_BYTES: u64 = 16 << 20;
/// Small files with inode numbers that differ in so many low bits only go together: they were made one after the
/// other, and lie side by side in segments.
const NEIGHBOUR_BITS: u32 = 8;
/// No portion is slower than this, whatever is left for it of the rate that was asked for.
const RATE_LEAST: u64 = 64 << 10;

/// What of a page of files an action is about.
pub(super) fn own_of(action: &Action, page: Vec<Found>) -> Vec<Found> {
    match action.portion.as_ref().filter(|portion| !portion.everywhere && portion.count > 1) {
        None => page,
        Some(portion) => page.into_iter().filter_map(|file| narrowed(file, portion)).collect(),
    }
}

/// A file with what of it is of a portion; `None` if nothing is.
fn narrowed(mut file: Found, portion: &ActionPortion) -> Option<Found> {
    let (nth, count) = (u64::from(portion.nth), u64::from(portion.count));
    if file.size <= CHUNK_BYTES {
        return (mix(file.ino.0 >> NEIGHBOUR_BITS) % count == nth).then_some(file);
    }
    // The portions have the parts of a file by turns.
    let first = (nth + count - mix(file.ino.0) % count) % count;
    let units = (first..file.size.div_ceil(UNIT_BYTES)).step_by(portion.count as usize);
    let ranges: Vec<_> =
        units.map(|unit| ByteRange::new(unit * UNIT_BYTES, (unit + 1) * UNIT_BYTES)).collect();
    if ranges.is_empty() {
        return None;
    }
    file.files = u64::from(first == 0);
    file.narrow(ranges);
    Some(file)
}

/// Nodes that can have a portion: of this build, and reached by others, who are to have from it what it brings.
fn takers(together: &Together, everywhere: bool) -> Vec<Session> {
    let live = together.live();
    let build = live.iter().find(|one| one.id == together.id()).map(|one| &one.node.build);
    let takes = |one: &&Session| {
        let reached = everywhere || one.id == together.id() || together.peer(one.id).is_some();
        Some(&one.node.build) == build && reached
    };
    live.iter().filter(takes).cloned().collect()
}

/// Of a node that has not begun.
fn claim_of(session: &Session) -> ActionClaim {
    ActionClaim {
        session: session.id,
        node: session.node.name.clone(),
        tier: session.node.tier.clone(),
        runs: false,
        files: (0, 0),
        bytes: (0, 0),
        counted: false,
        refused: 0,
    }
}

impl Actions {
    /// Begins a hydration that is divided among the nodes of the volume; with `everywhere` each does all of it.
    /// Answers the group. One commit. `Unsupported` on a mount that shares the volume with nobody, else as
    /// [`Actions::start_action`].
    pub(crate) async fn start_spread(
        &self,
        mut request: ActionRequest,
        everywhere: bool,
    ) -> Result<Vec<ActionView>> {
        let Some(together) = &self.context.together else {
            let text = "only nodes that share a volume divide work: mount it with --shared, or leave \
                        --spread and --everywhere out";
            return Err(FsError::new(ErrorKind::Unsupported, text));
        };
        if request.kind != ActionKind::Hydrate {
            return Err(FsError::new(
                ErrorKind::Invalid,
                "only a hydration is divided among nodes",
            ));
        }
        self.check_roots(&request.roots, request.recursive).await?;
        let takers = takers(together, everywhere);
        if takers.is_empty() {
            let text = "this node has not seen the others yet: try again in some seconds";
            return Err(FsError::new(ErrorKind::Retry, text));
        }
        let share = |rate: u64| (rate / takers.len() as u64).max(RATE_LEAST);
        request.max_bytes_per_s = request.max_bytes_per_s.map(share);
        let claims: Vec<_> = takers.iter().map(claim_of).collect();
        let _adding = self.schedule.adding.lock().await;
        let row = Action::new(ActionId(0), request, self.context.unix_ms().cast_signed()).row(None);
        let mut first = self.schedule.lists().last + 1;
        loop {
            match self.meta.add_actions(first, &row, everywhere, &claims).await {
                Err(error) if error.kind() == ErrorKind::Exists => first += 1,
                added => break added?,
            }
        }
        self.take_given(together).await?;
        let mut views = self.claimed_views(together).await?;
        views.retain(|view| view.portion.is_some_and(|of| of.group == ActionId(first)));
        Ok(views)
    }

    /// Takes up portions that were given to this node. Three reads.
    pub(super) async fn take_given(&self, together: &Together) -> Result<()> {
        let all = self.meta.claimed_actions().await?;
        for (number, found) in all {
            if found.portion.is_some() && is_open_at(&found, together.id()) {
                let ClaimedAction { row: (_, row), portion, restore, .. } = found;
                self.schedule
                    .take_up_new(Arc::new(Action::from_row(number, row, portion, restore)));
            }
        }
        Ok(())
    }

    /// Gives a portion that lost its node to one of those that live. A commit.
    pub(super) async fn give_on(
        &self,
        number: u64,
        found: &ClaimedAction,
        together: &Together,
    ) -> Result<()> {
        let Some(portion) = &found.portion else { return Ok(()) };
        let Some(taker) = taker(together, portion) else { return Ok(()) };
        self.meta.give_portion(number, found, portion, &claim_of(&taker)).await.map(drop)
    }

    /// Whether another node goes on with what found no room in this one's tier. A read and a commit then.
    pub(super) async fn passed_on(&self, action: &Action) -> bool {
        let Some(together) = &self.context.together else { return false };
        if !action.found_no_room() {
            return false;
        }
        let passed = self.try_pass_on(action, together).await;
        if let Err(error) = &passed {
            let id = action.id.0;
            tracing::warn!(action = id, %error, "what found no room here was not passed on");
        }
        passed.unwrap_or(false)
    }

    async fn try_pass_on(&self, action: &Action, together: &Together) -> Result<bool> {
        loop {
            let found = self.meta.these_actions(&[action.id.0]).await?.pop().flatten();
            let Some(found) = found.filter(|found| is_open_at(found, together.id())) else {
                return Ok(false);
            };
            let Some(mut portion) = found.portion.clone().filter(|portion| !portion.everywhere)
            else {
                return Ok(false);
            };
            portion.full.push(together.id());
            let Some(taker) = taker(together, &portion) else { return Ok(false) };
            let claim = claim_of(&taker);
            if self.meta.give_portion(action.id.0, &found, &portion, &claim).await? {
                tracing::info!(
                    action = action.id.0,
                    node = claim.node,
                    "another node goes on with what found no room in this tier"
                );
                self.schedule.stop(action, self.context.unix_ms().cast_signed());
                return Ok(true);
            }
        }
    }

    /// A page of files without what those have who had no room for more of the portion.
    pub(super) async fn without_held(&self, action: &Action, page: Vec<Found>) -> Vec<Found> {
        let full = match &action.portion {
            Some(portion) if !portion.full.is_empty() => &portion.full,
            _ => return page,
        };
        let mut ranges: Vec<(Ino, ByteRange)> = Vec::new();
        for file in &page {
            ranges.extend(file.ranges().into_iter().map(|range| (file.ino, range)));
        }
        let held = self.fetcher.held_by(full, &ranges).await;
        let mut left = Vec::with_capacity(page.len());
        let mut held = held.into_iter();
        for mut file in page {
            let (files, before) = (file.files, file.bytes());
            let mut missing = file.ranges();
            missing.retain(|_| !held.next().unwrap_or(false));
            match missing.is_empty() {
                true => action.done(files, before),
                false => {
                    file.narrow(missing);
                    action.moved(before - file.bytes());
                    left.push(file);
                }
            }
        }
        left
    }

    /// The other actions of the same group. One read.
    pub(super) async fn others_of_group(&self, id: ActionId) -> Result<Vec<ActionId>> {
        if !self.context.is_shared() {
            return Ok(Vec::new());
        }
        let found = self.meta.these_actions(&[id.0]).await?.pop().flatten();
        let Some(portion) = found.and_then(|found| found.portion) else { return Ok(Vec::new()) };
        let mut numbers: Vec<_> =
            (portion.group..portion.group + u64::from(portion.count)).collect();
        numbers.retain(|number| *number != id.0);
        let there = self.meta.these_actions(&numbers).await?;
        let there = numbers.into_iter().zip(there).filter(|(_, found)| found.is_some());
        Ok(there.map(|(number, _)| ActionId(number)).collect())
    }
}

/// Who takes a portion: by turns, so that those of one node that went are not all one's.
fn taker(together: &Together, portion: &ActionPortion) -> Option<Session> {
    let mut takers = takers(together, false);
    takers.retain(|one| !portion.full.contains(&one.id));
    let count = takers.len().max(1);
    (!takers.is_empty()).then(|| takers.swap_remove(portion.nth as usize % count))
}

#[cfg(test)]
mod tests {
    use super::*;
    fn portion(nth: u32, count: u32) -> ActionPortion {
        ActionPortion { group: 1, nth, count, everywhere: false, full: Vec::new() }
    }

    #[test]
    fn each_byte_is_of_one_portion_and_each_file_counts_once() {
        const MIB: u64 = 1 << 20;
        for count in [2, 3, 4, 7] {
            let mut bytes = vec![0; count as usize];
            for (ino, size) in
                (100..400).zip([0, 1, MIB, MIB + 1, 16 * MIB, 100 * MIB + 5].into_iter().cycle())
            {
                let of: Vec<_> = (0..count)
                    .map(|nth| narrowed(Found::of_size(Ino(ino), size), &portion(nth, count)))
                    .collect();
                let found: Vec<_> = of.iter().flatten().collect();
                assert_eq!(found.iter().map(|file| file.files).sum::<u64>(), 1);
                assert_eq!(found.iter().map(|file| file.bytes()).sum::<u64>(), size);
                let mut ranges: Vec<_> = found.iter().flat_map(|file| file.ranges()).collect();
                ranges.sort_unstable_by_key(|range| range.start);
                assert!(ranges.windows(2).all(|two| two[0].end == two[1].start), "{ranges:?}");
                let most = found.iter().map(|file| file.bytes()).max().unwrap_or(0);
                let fair = size / u64::from(count) + 2 * UNIT_BYTES;
                assert!(size <= UNIT_BYTES || most <= fair, "{most} of {size} are one's");
                for (nth, file) in of.iter().enumerate() {
                    bytes[nth] += file.as_ref().map_or(0, Found::bytes);
                }
            }
            let (most, least) = (bytes.iter().max(), bytes.iter().min());
            assert!(most.zip(least).is_some_and(|(most, least)| *most < least * 2), "{bytes:?}");
        }
        // Those that were made together lie together.
        let one = |ino| narrowed(Found::of_size(Ino(ino), 100), &portion(0, 3)).is_some();
        assert!((512..768).all(|ino| one(ino) == one(512)));
    }

    #[test]
    fn what_is_missing_of_a_portion_is_cut_to_it() {
        let range = |start, end| ByteRange::new(start * UNIT_BYTES, end * UNIT_BYTES);
        let mut file = Found::of_size(Ino(7), 10 * UNIT_BYTES - 5);
        assert_eq!(file.wanted_of(vec![range(3, 5)]), [range(3, 5)]);
        file.narrow(vec![range(1, 2), range(4, 5), range(9, 10)]);
        assert_eq!(file.bytes(), 3 * UNIT_BYTES - 5);
        let missing = vec![ByteRange::new(0, UNIT_BYTES + 10), range(4, 10)];
        let cut = [ByteRange::new(UNIT_BYTES, UNIT_BYTES + 10), range(4, 5), range(9, 10)];
        assert_eq!(file.wanted_of(missing), cut);
    }
}
