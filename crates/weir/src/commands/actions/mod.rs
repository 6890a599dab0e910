//! `weir hydrate`, `release`, `archive`, `actions`, `cancel`, `pin` and `unpin`.

mod archived;
mod describe;
mod list;
mod spread;

use std::path::PathBuf;
use std::process::ExitCode;

use serde::Serialize;
use weir_engine::{ActionKind, ActionRequest, ActionState, ActionView};
use weir_types::{Restore, Result};

use crate::api::{GetAction, Pin, StartAction};
use crate::cli::{ArchiveArgs, HydrateArgs, WhatArgs};
use crate::client::Client;
use crate::progress::{self, Progress, Unit, Waited};
use crate::{render, targets};

use describe::{ActionsReport, has_ended};
pub(super) use describe::{how_far, verb};
pub(crate) use list::{cancel, list};

pub(crate) async fn hydrate(args: HydrateArgs) -> Result<ExitCode> {
    let restore = args.restored();
    let HydrateArgs { what, wait, max_rate, spread, everywhere, .. } = args;
    let max_rate = max_rate.map(|rate| rate.0);
    match spread || everywhere {
        true => spread::run(&what, max_rate, everywhere, wait).await,
        false => run(ActionKind::Hydrate, &what, (max_rate, restore), wait).await,
    }
}

pub(crate) async fn archive(args: ArchiveArgs) -> Result<ExitCode> {
    run(ActionKind::Archive, &args.what, (None, None), args.wait).await
}

/// Releasing asks no bucket, so it is always waited for.
pub(crate) async fn release(what: WhatArgs) -> Result<ExitCode> {
    run(ActionKind::Release, &what, (None, None), true).await
}

/// One request for each mount; all are under way before the first is waited for.
async fn run(
    kind: ActionKind,
    what: &WhatArgs,
    (max_bytes_per_s, restore): (Option<u64>, Option<Restore>),
    wait: bool,
) -> Result<ExitCode> {
    let mut started = Vec::new();
    for mount in targets::find(&what.paths, what.recursive)? {
        let (roots, recursive) = (mount.roots(), what.recursive);
        let request = ActionRequest { kind, roots, recursive, max_bytes_per_s, restore };
        let action = mount.client.call(&StartAction(request)).await?;
        started.push((mount.client, ActionsReport { mountpoint: mount.mountpoint, action }));
    }
    if wait {
        for (client, of) in &mut started {
            match progress::or_ctrl_c(ended(client, of.action.clone())).await? {
                Waited::Ended(action) => of.action = action,
                Waited::Left => return Ok(progress::left(&goes_on(of))),
            }
        }
    }
    let all: Vec<ActionsReport> = started.into_iter().map(|(_, of)| of).collect();
    if what.json {
        render::say_json_rows(&all)?;
    } else {
        for of in &all {
            let text = if wait { describe::summary(&of.action) } else { describe::begun(of) };
            render::say(&text)?;
            if let Some(restored) = archived::told(&of.action) {
                render::say(&format!("{restored}\n"))?;
            }
        }
    }
    Ok(judge(&all))
}

fn goes_on(of: &ActionsReport) -> String {
    let (id, at) = (of.action.id.0, of.mountpoint.display());
    format!("action {id} goes on: `weir actions {at}` shows it, `weir cancel {id} {at}` stops it")
}

/// Shows how the action goes until it has ended.
async fn ended(client: &Client, mut action: ActionView) -> Result<ActionView> {
    let mut progress = Progress::new(Unit::Bytes);
    while !has_ended(&action) {
        let all = action.counted.then_some(action.bytes_total).filter(|bytes| *bytes > 0);
        progress.show(action.bytes_done, all, &describe::how_far(&action));
        let wait_ms = u64::try_from(progress.interval().as_millis()).unwrap_or(u64::MAX);
        action = client.call(&GetAction { id: action.id, wait_ms }).await?;
    }
    Ok(action)
}

/// 1 if something was refused or cancelled; the first reasons go to standard error.
fn judge(all: &[ActionsReport]) -> ExitCode {
    let mut code = ExitCode::SUCCESS;
    for of in all {
        if of.action.refused > 0 {
            render::tell(&describe::refused(&of.mountpoint, &of.action));
            code = ExitCode::FAILURE;
        }
        if of.action.state == ActionState::Cancelled {
            render::tell(&format!("weir: action {} was cancelled\n", of.action.id.0));
            code = ExitCode::FAILURE;
        }
    }
    code
}

/// Pins or unpins.
pub(crate) async fn pin(what: WhatArgs, pinned: bool) -> Result<ExitCode> {
    #[derive(Serialize)]
    struct Pins {
        mountpoint: PathBuf,
        pinned: bool,
        files: u64,
    }
    let mut all = Vec::new();
    for mount in targets::find(&what.paths, what.recursive)? {
        let pin = Pin { roots: mount.roots(), recursive: what.recursive, pinned };
        let files = mount.client.call(&pin).await?.files;
        all.push(Pins { mountpoint: mount.mountpoint, pinned, files });
    }
    if what.json {
        render::say_json_rows(&all)?;
        return Ok(ExitCode::SUCCESS);
    }
    let verb = if pinned { "pinned" } else { "unpinned" };
    for Pins { mountpoint, files, .. } in &all {
        render::say(&format!("{verb} {} of {}\n", render::files(*files), mountpoint.display()))?;
    }
    Ok(ExitCode::SUCCESS)
}
