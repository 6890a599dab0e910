//! `weir hydrate --spread` and `--everywhere`: one hydration on all nodes that share a volume.

use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use weir_engine::{ActionId, ActionKind, ActionRequest, ActionState, ActionView};
use weir_types::{ErrorKind, FsError, Result};

use super::describe::{self, ActionsReport, has_ended};
use crate::api::{ListActions, StartSpread};
use crate::cli::WhatArgs;
use crate::client::Client;
use crate::progress::{self, Progress, Unit, Waited};
use crate::{render, targets};

/// How often all portions are looked at: what others did is known some seconds later anyway.
const LOOK: Duration = Duration::from_secs(1);

/// A hydration of all nodes: one action for each.
struct Group {
    mountpoint: PathBuf,
    actions: Vec<ActionView>,
}

pub(super) async fn run(
    what: &WhatArgs,
    max_bytes_per_s: Option<u64>,
    everywhere: bool,
    wait: bool,
) -> Result<ExitCode> {
    let mut started = Vec::new();
    for mount in targets::find(&what.paths, what.recursive)? {
        let (roots, recursive) = (mount.roots(), what.recursive);
        let kind = ActionKind::Hydrate;
        let request = ActionRequest { kind, roots, recursive, max_bytes_per_s, restore: None };
        let actions = mount.client.call(&StartSpread { request, everywhere }).await?;
        started.push((mount.client, Group { mountpoint: mount.mountpoint, actions }));
    }
    if wait {
        for (client, group) in &mut started {
            match progress::or_ctrl_c(settled(client, group.actions.clone())).await? {
                Waited::Ended(actions) => group.actions = actions,
                Waited::Left => return Ok(progress::left(&goes_on(group))),
            }
        }
    }
    let mut code = ExitCode::SUCCESS;
    for (_, group) in started {
        code = tell(group, what.json, wait)?.unwrap_or(code);
    }
    Ok(code)
}

/// Shows a group as it is or ended; the exit code if that is not 0.
fn tell(group: Group, json: bool, ended: bool) -> Result<Option<ExitCode>> {
    let Group { mountpoint, actions } = group;
    let Some(sum) = sum(&actions) else { return Ok(None) };
    if !json {
        let text = if ended { describe::summary(&sum) } else { begun(&mountpoint, &sum, &actions) };
        render::say(&text)?;
    }
    let mut failed = sum.refused > 0;
    if failed {
        render::tell(&describe::refused(&mountpoint, &sum));
    }
    if sum.state == ActionState::Cancelled {
        render::tell(&format!("weir: of actions {} some were cancelled\n", range(&actions)));
        failed = true;
    }
    for away in actions.iter().filter(|action| ended && !has_ended(action)) {
        let (id, node) = (away.id.0, away.node.as_ref().map_or("", |node| &node.name));
        render::tell(&format!(
            "weir: node {node} is away: action {id} goes on when its tier is mounted again\n"
        ));
        failed = true;
    }
    if json {
        let of = |action| ActionsReport { mountpoint: mountpoint.clone(), action };
        render::say_json_rows(actions.into_iter().map(of))?;
    }
    Ok(failed.then_some(ExitCode::FAILURE))
}

fn begun(mountpoint: &Path, sum: &ActionView, actions: &[ActionView]) -> String {
    let (id, at, nodes) = (sum.id.0, mountpoint.display(), actions.len());
    let nodes = if nodes == 1 { "1 node".to_owned() } else { format!("{nodes} nodes") };
    let (range, paths) = (range(actions), describe::paths(sum));
    format!(
        "actions {range}: hydrate {paths} in {at} by {nodes}; `weir actions {at}` shows them, \
         `weir cancel {id} {at}` stops them\n"
    )
}

fn goes_on(of: &Group) -> String {
    let (at, range) = (of.mountpoint.display(), range(&of.actions));
    let id = of.actions.first().map_or(0, |action| action.id.0);
    format!(
        "actions {range} go on: `weir actions {at}` shows them, `weir cancel {id} {at}` stops them"
    )
}

/// The numbers of a group.
fn range(actions: &[ActionView]) -> String {
    match actions {
        [] => String::new(),
        [one] => one.id.0.to_string(),
        [first, .., last] => format!("{} to {}", first.id.0, last.id.0),
    }
}

/// Shows how the group goes until nothing more becomes of it while the nodes that are there are.
async fn settled(client: &Client, mut actions: Vec<ActionView>) -> Result<Vec<ActionView>> {
    let mut progress = Progress::new(Unit::Bytes);
    let group = actions.first().and_then(|action| action.portion).map(|portion| portion.group);
    loop {
        let waits = |action: &ActionView| {
            let everywhere = action.portion.is_some_and(|portion| portion.everywhere);
            let away = action.state == ActionState::Away;
            !(has_ended(action) || everywhere && away)
        };
        let Some(sum) = sum(&actions).filter(|_| actions.iter().any(waits)) else {
            return Ok(actions);
        };
        let all = sum.counted.then_some(sum.bytes_total).filter(|bytes| *bytes > 0);
        progress.show(sum.bytes_done, all, &describe::how_far(&sum));
        tokio::time::sleep(LOOK).await;
        actions = of_group(client.call(&ListActions {}).await?, group)?;
    }
}

fn of_group(all: Vec<ActionView>, group: Option<ActionId>) -> Result<Vec<ActionView>> {
    let mut actions = all;
    actions.retain(|action| action.portion.map(|portion| portion.group) == group);
    match actions.is_empty() {
        false => Ok(actions),
        true => Err(FsError::new(ErrorKind::NotFound, "nothing is known of the actions any more")),
    }
}

/// All actions of a group as one.
fn sum(actions: &[ActionView]) -> Option<ActionView> {
    let mut sum = actions.first()?.clone();
    for action in &actions[1..] {
        sum.files_total += action.files_total;
        sum.files_done += action.files_done;
        sum.bytes_total += action.bytes_total;
        sum.bytes_done += action.bytes_done;
        sum.counted &= action.counted;
        sum.refused += action.refused;
        sum.reasons.extend(action.reasons.iter().cloned());
        sum.ended_unix_ms = sum.ended_unix_ms.max(action.ended_unix_ms);
        if action.state == ActionState::Cancelled {
            sum.state = ActionState::Cancelled;
        }
    }
    Some(sum)
}

#[cfg(test)]
mod tests {
    use super::*;
    use weir_engine::PortionView;

    fn group() -> Vec<ActionView> {
        let one = describe::tests::action();
        (0..3)
            .map(|nth| {
                let group = ActionId(7);
                let portion = PortionView { group, nth: nth + 1, count: 3, everywhere: false };
                ActionView {
                    id: ActionId(7 + u64::from(nth)),
                    portion: Some(portion),
                    counted: true,
                    ..one.clone()
                }
            })
            .collect()
    }

    #[test]
    fn a_group_is_shown_as_one() {
        let mut all = group();
        let one = sum(&all).expect("some");
        assert_eq!(describe::how_far(&one), "123 of 300 files, 3 GiB of 9 GiB");
        assert_eq!(describe::verb_of(&all[1]), "hydrate 2/3 (7)");
        let text = begun(Path::new("/mnt"), &one, &all);
        assert!(
            text.starts_with("actions 7 to 9: hydrate d1, d2, d3 and 2 more in /mnt by 3 nodes;")
        );
        all[2].counted = false;
        all[1].state = ActionState::Cancelled;
        let one = sum(&all).expect("some");
        assert!(!one.counted && one.state == ActionState::Cancelled);
        let mut others = group();
        others.iter_mut().for_each(|action| action.portion = None);
        let found = of_group([others, all].concat(), Some(ActionId(7))).expect("some");
        assert_eq!(found.len(), 3);
        assert!(of_group(Vec::new(), Some(ActionId(7))).is_err());
    }
}
