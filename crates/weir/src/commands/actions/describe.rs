//! Actions as text.

use std::path::{Path, PathBuf};

use serde::Serialize;
use weir_engine::{ActionKind, ActionNode, ActionState, ActionView};
use weir_types::Bytes;

use crate::render::{self, files};
use crate::targets;

/// An action and where it is.
#[derive(Serialize)]
pub(super) struct ActionsReport {
    pub(super) mountpoint: PathBuf,
    #[serde(flatten)]
    pub(super) action: ActionView,
}

/// Paths that are named of one action.
const NAMED: usize = 3;

fn done(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Hydrate => "hydrated",
        ActionKind::Release => "released",
        ActionKind::Archive => "archived",
    }
}

/// What an action does, as on the command line.
pub(in crate::commands) fn verb(kind: ActionKind) -> &'static str {
    match kind {
        ActionKind::Hydrate => "hydrate",
        ActionKind::Release => "release",
        ActionKind::Archive => "archive",
    }
}

/// The same, with which portion it is of that.
pub(super) fn verb_of(action: &ActionView) -> String {
    let what = verb(action.request.kind);
    match action.portion {
        None => what.to_owned(),
        Some(portion) if portion.everywhere => format!("{what} everywhere ({})", portion.group.0),
        Some(of) => format!("{what} {}/{} ({})", of.nth, of.count, of.group.0),
    }
}

pub(super) fn state(state: ActionState) -> &'static str {
    match state {
        ActionState::Waiting => "waiting",
        ActionState::Running => "running",
        ActionState::Done => "done",
        ActionState::Cancelled => "cancelled",
        ActionState::Away => "its node is away",
    }
}

/// It was asked for and goes on.
pub(super) fn begun(of: &ActionsReport) -> String {
    let (id, at) = (of.action.id.0, of.mountpoint.display());
    let (what, paths) = (verb(of.action.request.kind), paths(&of.action));
    format!(
        "action {id}: {what} {paths} in {at}; `weir actions {at}` shows it, `weir cancel {id} \
         {at}` stops it\n"
    )
}

/// What it did, once it has ended.
pub(super) fn summary(action: &ActionView) -> String {
    let moved = action.files_done.saturating_sub(action.refused);
    let (what, bytes) = (done(action.request.kind), Bytes(action.bytes_done));
    let mut text = format!("{what} {}, {bytes}", files(moved));
    let ms = action.ended_unix_ms.map_or(0, |end| end.saturating_sub(action.asked_unix_ms));
    if let Some(ms) = u64::try_from(ms).ok().filter(|ms| *ms > 0) {
        let rate = Bytes((u128::from(action.bytes_done) * 1000 / u128::from(ms)) as u64);
        let took = match ms {
            0..60_000 => format!("{:.1} s", ms as f64 / 1e3),
            _ => render::seconds(ms / 1000),
        };
        text.push_str(&format!(" in {took}"));
        // What was found in place says nothing of the rate.
        if action.request.kind != ActionKind::Release && ms >= 1000 {
            text.push_str(&format!(", {rate}/s"));
        }
    }
    if action.refused > 0 {
        text.push_str(&format!("; {} refused", action.refused));
    }
    text.push('\n');
    text
}

/// The machine that works on it.
pub(super) fn node(node: &ActionNode) -> String {
    if node.here { format!("{} (here)", node.name) } else { node.name.clone() }
}

/// How far it is.
pub(in crate::commands) fn how_far(action: &ActionView) -> String {
    let more = if action.counted { "" } else { " or more" };
    let archived = match action.archived.waiting {
        0 => String::new(),
        waiting => format!(", {} to be restored", files(waiting)),
    };
    format!(
        "{} of {}{more}, {} of {}{more}{archived}",
        action.files_done,
        files(action.files_total),
        Bytes(action.bytes_done),
        Bytes(action.bytes_total)
    )
}

/// The first that were refused.
pub(super) fn refused(mountpoint: &Path, action: &ActionView) -> String {
    let mut text =
        format!("weir: {} could not be {}:\n", files(action.refused), done(action.request.kind));
    let mut by_reason: Vec<(&str, Vec<PathBuf>)> = Vec::new();
    for refused in &action.reasons {
        let path = targets::above(mountpoint, &refused.path);
        match by_reason.iter_mut().find(|(reason, _)| *reason == refused.reason) {
            Some((_, paths)) => paths.push(path),
            None => by_reason.push((&refused.reason, vec![path])),
        }
    }
    for (reason, paths) in by_reason {
        match &paths[..] {
            [path] => text.push_str(&format!("  {}: {reason}\n", path.display())),
            paths => {
                text.push_str(&format!("  {reason}:\n"));
                for path in paths {
                    text.push_str(&format!("    {}\n", path.display()));
                }
            }
        }
    }
    let told = u64::try_from(action.reasons.len()).unwrap_or(u64::MAX);
    if action.refused > told {
        text.push_str(&format!("  and {} more\n", action.refused - told));
    }
    text
}

/// The first of what it was asked for.
pub(super) fn paths(action: &ActionView) -> String {
    let roots = &action.request.roots;
    let mut text =
        roots.iter().take(NAMED).map(|root| root.path.as_str()).collect::<Vec<_>>().join(", ");
    if roots.len() > NAMED {
        text.push_str(&format!(" and {} more", roots.len() - NAMED));
    }
    text
}

/// Whether nothing more becomes of it.
pub(super) fn has_ended(action: &ActionView) -> bool {
    matches!(action.state, ActionState::Done | ActionState::Cancelled)
}

#[cfg(test)]
pub(super) mod tests {
    use weir_engine::{ActionId, ActionRequest, Refused, Root};
    use weir_types::Ino;

    use super::*;

    pub(in super::super) fn action() -> ActionView {
        let roots = (1..=5).map(|n| Root { ino: Ino(n), path: format!("d{n}") }).collect();
        ActionView {
            id: ActionId(7),
            request: ActionRequest {
                kind: ActionKind::Hydrate,
                roots,
                recursive: true,
                max_bytes_per_s: None,
                restore: None,
            },
            state: ActionState::Running,
            asked_unix_ms: 1_000_000,
            ended_unix_ms: None,
            files_total: 100,
            files_done: 41,
            bytes_total: 3 << 30,
            bytes_done: 1 << 30,
            counted: false,
            refused: 0,
            reasons: Vec::new(),
            portion: None,
            node: None,
            archived: Default::default(),
        }
    }

    #[test]
    fn totals_that_are_not_final_say_so() {
        let mut action = action();
        assert_eq!(how_far(&action), "41 of 100 files or more, 1 GiB of 3 GiB or more");
        action.counted = true;
        assert_eq!(how_far(&action), "41 of 100 files, 1 GiB of 3 GiB");
        assert_eq!(paths(&action), "d1, d2, d3 and 2 more");
    }

    #[test]
    fn the_end_tells_what_was_done_and_what_was_not() {
        let mut action = action();
        action.state = ActionState::Done;
        action.ended_unix_ms = Some(1_004_000);
        assert_eq!(summary(&action), "hydrated 41 files, 1 GiB in 4.0 s, 256 MiB/s\n");
        action.refused = 2;
        let reason = "is open".to_owned();
        action.reasons.push(Refused { path: "d1/x".to_owned(), reason });
        assert!(summary(&action).starts_with("hydrated 39 files"));
        let text = refused(Path::new("/mnt"), &action);
        assert_eq!(
            text,
            "weir: 2 files could not be hydrated:\n  /mnt/d1/x: is open\n  and 1 more\n"
        );
        let reason = "is open".to_owned();
        action.reasons.push(Refused { path: "d1/y".to_owned(), reason });
        let text = refused(Path::new("/mnt"), &action);
        assert!(text.ends_with("\n  is open:\n    /mnt/d1/x\n    /mnt/d1/y\n"), "once: {text}");
    }
}
