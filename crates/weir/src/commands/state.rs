//! `weir state`: how files stand.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use weir_engine::FileState;
use weir_types::{Bytes, Result};

use super::file_states::{self, Sum};
use crate::cli::WhatArgs;
use crate::{render, targets};

#[derive(Serialize)]
struct StateReport<'a> {
    path: &'a Path,
    #[serde(flatten)]
    state: FileState,
}

pub(crate) async fn run(what: WhatArgs) -> Result<ExitCode> {
    let mut sum = Sum::default();
    if !what.json {
        render::say(&line("here", "size", "state", "path"))?;
    }
    for mount in targets::find(&what.paths, what.recursive)? {
        file_states::of(mount, |files| tell(files, what.json, &mut sum)).await?;
    }
    if !what.json && sum.files != 1 {
        render::say(&summary(&sum))?;
    }
    Ok(ExitCode::SUCCESS)
}

fn tell(files: Vec<(PathBuf, FileState)>, as_json: bool, sum: &mut Sum) -> Result<()> {
    let mut text = String::new();
    for (path, state) in files {
        sum.add(&state);
        if as_json {
            let of = StateReport { path: &path, state };
            text.push_str(&render::json_line(&of)?);
        } else {
            text.push_str(&describe(&path, &state));
        }
    }
    render::say(&text)
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
