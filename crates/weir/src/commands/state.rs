//! `weir state`: how files stand.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use weir_engine::FileState;
use weir_types::{Bytes, Ino, Result};

use crate::cli::WhatArgs;
use crate::client::{Client, STATES_AT_ONCE};
use crate::{render, targets};

#[derive(Serialize)]
struct StateReport<'a> {
    path: &'a Path,
    #[serde(flatten)]
    state: FileState,
}

/// What all files together are.
#[derive(Default)]
struct Sum {
    files: u64,
    bytes: u64,
    resident_bytes: u64,
    released: u64,
    dirty: u64,
    lost: u64,
}

/// Files are found on a thread of their own, and asked for some thousands at a time, so that memory
/// does not grow with the tree.
pub(crate) async fn run(what: WhatArgs) -> Result<ExitCode> {
    let mut sum = Sum::default();
    if !what.json {
        render::say(&line("here", "size", "state", "path"))?;
    }
    for mount in targets::find(&what.paths, what.recursive)? {
        let (found, mut files) = tokio::sync::mpsc::channel(4);
        let paths: Vec<PathBuf> = mount.targets.into_iter().map(|target| target.real).collect();
        let walk = tokio::task::spawn_blocking(move || walk(&paths, &found));
        while let Some(some) = files.recv().await {
            tell(&mount.client, some, what.json, &mut sum).await?;
        }
        walk.await.map_err(crate::daemon::panicked)??;
    }
    if !what.json && sum.files != 1 {
        render::say(&summary(&sum))?;
    }
    Ok(ExitCode::SUCCESS)
}

type Batch = Vec<(PathBuf, u64)>;

fn walk(paths: &[PathBuf], found: &tokio::sync::mpsc::Sender<Batch>) -> Result<()> {
    let mut some = Vec::new();
    for path in paths {
        targets::files_below(path, &mut |path, ino| {
            some.push((path, ino));
            if some.len() == STATES_AT_ONCE {
                // Nobody listens once an answer failed.
                let _ = found.blocking_send(std::mem::take(&mut some));
            }
            Ok(())
        })?;
    }
    let _ = found.blocking_send(some);
    Ok(())
}

async fn tell(client: &Client, files: Batch, as_json: bool, sum: &mut Sum) -> Result<()> {
    let inos = files.iter().map(|(_, ino)| Ino(*ino)).collect();
    let states = client.states(inos).await?;
    let mut text = String::new();
    for ((path, _), state) in files.iter().zip(states) {
        let Some(state) = state else {
            continue;
        };
        sum.add(&state);
        if as_json {
            let of = StateReport { path, state };
            text.push_str(&serde_json::to_string(&of).unwrap_or_default());
            text.push('\n');
        } else {
            text.push_str(&describe(path, &state));
        }
    }
    render::say(&text)
}

impl Sum {
    fn add(&mut self, state: &FileState) {
        self.files += 1;
        self.bytes += state.size;
        self.resident_bytes += state.resident_bytes.min(state.size);
        self.released += u64::from(state.released);
        self.dirty += u64::from(state.dirty);
        self.lost += u64::from(state.lost);
    }
}

fn describe(path: &Path, state: &FileState) -> String {
    let words = [
        (state.released, "released"),
        (state.archived, "archived"),
        (state.dirty, "dirty"),
        (state.pinned, "pinned"),
        (state.lost, "lost"),
    ];
    let mut words: Vec<_> =
        words.into_iter().filter(|(on, _)| *on).map(|(_, word)| word.to_owned()).collect();
    if let Some(action) = state.action {
        words.push(format!("(action {})", action.0));
    }
    let here = percent(state.resident_bytes, state.size, state.released);
    let (size, path) = (Bytes(state.size).to_string(), path.display().to_string());
    line(&here, &size, &words.join(" "), &path)
}

fn line(here: &str, size: &str, state: &str, path: &str) -> String {
    format!("{here:>5}  {size:>10}  {state:<24}  {path}\n")
}

/// Pages are whole, so that a file's last page counts more than its bytes; 100% is never said of a
/// file that has released bytes.
fn percent(resident: u64, size: u64, released: bool) -> String {
    let part = u128::from(resident.min(size)) * 100 / u128::from(size.max(1));
    match (released, size) {
        (false, _) => "100%".to_owned(),
        (true, _) => format!("{}%", part.min(99)),
    }
}

fn summary(sum: &Sum) -> String {
    let (all, here) = (Bytes(sum.bytes), Bytes(sum.resident_bytes));
    let mut text = format!("{}, {all}, {here} of them here", render::files(sum.files));
    for (count, what) in [(sum.released, "released"), (sum.dirty, "dirty"), (sum.lost, "lost")] {
        if count > 0 {
            text.push_str(&format!("; {count} {what}"));
        }
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use weir_engine::ActionId;

    use super::*;

    fn state() -> FileState {
        FileState {
            exists: true,
            dirty: false,
            released: true,
            archived: true,
            pinned: false,
            lost: false,
            size: 10_000,
            resident_bytes: 4_096,
            object: None,
            action: None,
        }
    }

    #[test]
    fn a_file_is_told_on_one_line() {
        let mut state = state();
        let text = describe(Path::new("/m/f"), &state);
        assert_eq!(text, "  40%     9.8 KiB  released archived         /m/f\n");
        state.action = Some(ActionId(3));
        assert!(describe(Path::new("/m/f"), &state).contains("archived (action 3)"));
        let here = FileState { released: false, resident_bytes: 12_288, ..state };
        assert!(describe(Path::new("/m/f"), &here).starts_with(" 100%"));
    }

    #[test]
    fn all_files_are_summed() {
        let mut sum = Sum::default();
        sum.add(&state());
        sum.add(&FileState { released: false, dirty: true, resident_bytes: 12_288, ..state() });
        let text = summary(&sum);
        assert_eq!(text, "2 files, 19.5 KiB, 13.8 KiB of them here; 1 released; 1 dirty\n");
    }
}
