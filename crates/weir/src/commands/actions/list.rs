//! `weir actions` and `weir cancel`.

use std::process::ExitCode;

use weir_engine::{ActionId, ActionNode};
use weir_types::{Bytes, ErrorKind, FsError, Result, UnixTime};

use super::archived;
use super::describe::{self, ActionsReport, has_ended};
use crate::api::{Cancel, ListActions};
use crate::cli::{ActionsArgs, CancelArgs};
use crate::client::ask_mounts;
use crate::{clock, render};

pub(crate) async fn list(args: ActionsArgs) -> Result<ExitCode> {
    let mut found = Vec::new();
    for (_, mountpoint, actions) in ask_mounts(args.path.as_deref(), &ListActions {}).await? {
        let wanted = actions.into_iter().filter(|action| args.all || !has_ended(action));
        found.extend(wanted.map(|action| ActionsReport { mountpoint: mountpoint.clone(), action }));
    }
    match args.json {
        true => render::say_json_rows(&found)?,
        false if found.is_empty() => render::say("Nothing is under way.\n")?,
        false => render::say(&table(&found, clock::now()))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn table(found: &[ActionsReport], now: UnixTime) -> String {
    let mut text = String::new();
    for of_mount in found.chunk_by(|a, b| a.mountpoint == b.mountpoint) {
        let names = ["id", "action", "state", "asked", "files", "bytes", "refused"];
        let with_nodes = of_mount.iter().any(|of| of.action.node.is_some());
        let node = with_nodes.then_some("node");
        let head = names.into_iter().chain(node).chain(["paths"]).map(str::to_owned);
        let mut rows = vec![head.collect::<Vec<_>>()];
        for ActionsReport { action, .. } in of_mount {
            let more = if action.counted { "" } else { "+" };
            let ago = now.0 / 1_000_000_000 - action.asked_unix_ms / 1_000;
            let mut row = vec![
                action.id.0.to_string(),
                describe::verb_of(action),
                describe::state(action.state).to_owned(),
                format!("{} ago", render::seconds(u64::try_from(ago).unwrap_or(0))),
                format!("{} of {}{more}", action.files_done, action.files_total),
                format!("{} of {}{more}", Bytes(action.bytes_done), Bytes(action.bytes_total)),
                action.refused.to_string(),
            ];
            let node = || action.node.as_ref().map_or_else(String::new, describe::node);
            row.extend(with_nodes.then(node));
            row.push(describe::paths(action));
            rows.push(row);
        }
        let title = of_mount.first().map(|of| of.mountpoint.display().to_string());
        text.push_str(&render::heading(&title.unwrap_or_default()));
        text.push('\n');
        text.push_str(&render::table(&rows, rows[0].len()));
        for ActionsReport { action, .. } in of_mount {
            if let Some(told) = archived::told(action) {
                text.push_str(&format!("action {}: {told}\n", action.id.0));
            }
        }
    }
    text
}

pub(crate) async fn cancel(args: CancelArgs) -> Result<ExitCode> {
    let id = ActionId(args.id);
    let mut having = Vec::new();
    for (client, mountpoint, actions) in ask_mounts(args.path.as_deref(), &ListActions {}).await? {
        if let Some(action) = actions.into_iter().find(|of| of.id == id && !has_ended(of)) {
            having.push((client, mountpoint, action.node));
        }
    }
    let refuse = |kind, text| Err(FsError::new(kind, text));
    // Several mounts of a volume that nodes share tell of one and the same.
    having.sort_by_key(|(.., node)| !node.as_ref().is_some_and(|node: &ActionNode| node.here));
    having
        .dedup_by(|(.., a), (.., b)| a.as_ref().zip(b.as_ref()).is_some_and(|(a, b)| a.id == b.id));
    let (client, mountpoint, _) = match &having[..] {
        [one] => one,
        [] => {
            let text = format!("no action {} is under way: see `weir actions`", args.id);
            return refuse(ErrorKind::NotFound, text);
        }
        [(_, a, _), (_, b, _), ..] => {
            let (id, a, b) = (args.id, a.display(), b.display());
            let text =
                format!("{a} and {b} both have an action {id}: write `weir cancel {id} {a}`");
            return refuse(ErrorKind::Invalid, text);
        }
    };
    let action = client.call(&Cancel { id }).await?;
    match args.json {
        true => render::say_json(&ActionsReport { mountpoint: mountpoint.clone(), action })?,
        false => {
            let what = describe::verb(action.request.kind);
            let how_far = describe::how_far(&action);
            render::say(&format!("cancelled action {} ({what}): {how_far}\n", args.id))?;
        }
    }
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn actions_are_shown_by_mount() {
        let action = super::super::describe::tests::action();
        let of = |at: &str| ActionsReport { mountpoint: at.into(), action: action.clone() };
        let text = table(&[of("/a"), of("/a"), of("/b")], UnixTime(1_061_000_000_000));
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(lines.len(), 7, "{text}");
        assert_eq!((lines[0], lines[4]), ("/a", "/b"));
        assert_eq!(
            lines[2],
            "  7   hydrate  running  1 min 1 s ago  41 of 100+  1 GiB of 3 GiB+  0        \
             d1, d2, d3 and 2 more"
        );
    }
}
