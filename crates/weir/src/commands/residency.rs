//! `weir residency`: where the bytes of files are.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use hyper::Method;
use serde::{Deserialize, Serialize};
use weir_types::{Bytes, ErrorKind, FsError, Result};

use crate::cli::ResidencyArgs;
use crate::client::Client;
use crate::render;

#[derive(Clone, Copy, Default, Deserialize, Serialize)]
struct Residency {
    hole: u64,
    released: u64,
    resident: u64,
    dirty: u64,
}

#[derive(Serialize)]
struct Of {
    path: PathBuf,
    #[serde(flatten)]
    residency: Residency,
}

pub(crate) async fn run(args: ResidencyArgs) -> Result<ExitCode> {
    let mut found = Vec::new();
    for asked in &args.paths {
        let path = fs::canonicalize(asked).map_err(at(asked))?;
        let client = Client::holding(&path)?;
        let mut files = Vec::new();
        files_below(&path, &mut files)?;
        for (path, ino) in files {
            let answer = client.request(Method::GET, &format!("/residency?ino={ino}")).await?;
            let residency = serde_json::from_value(answer).map_err(|error| {
                FsError::new(ErrorKind::Unsupported, "the daemon's answer is not understood")
                    .with_source(error)
            })?;
            found.push(Of { path, residency });
        }
    }
    match args.json {
        true => render::say_json(&found)?,
        false => render::say(&describe(&found))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The regular files at and below `path`, in the order of their names.
fn files_below(path: &Path, files: &mut Vec<(PathBuf, u64)>) -> Result<()> {
    let metadata = fs::symlink_metadata(path).map_err(at(path))?;
    if metadata.is_file() {
        files.push((path.to_owned(), metadata.ino()));
    }
    if metadata.is_dir() {
        let entries = fs::read_dir(path).map_err(at(path))?;
        let mut entries: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
        entries.sort();
        for entry in entries {
            files_below(&entry, files)?;
        }
    }
    Ok(())
}

fn at(path: &Path) -> impl Fn(std::io::Error) -> FsError {
    move |error| FsError::local_io(path.display(), error)
}

fn describe(found: &[Of]) -> String {
    let cells = |what: &str, r: Residency| {
        let sizes = [r.hole, r.released, r.resident, r.dirty].map(|n| Bytes(n).to_string());
        std::iter::once(what.to_owned()).chain(sizes).collect::<Vec<_>>()
    };
    let names = ["file", "hole", "released", "resident", "dirty"];
    let mut rows = vec![names.map(str::to_owned).to_vec()];
    let mut sum = Residency::default();
    for Of { path, residency } in found {
        rows.push(cells(&path.display().to_string(), *residency));
        sum.hole += residency.hole;
        sum.released += residency.released;
        sum.resident += residency.resident;
        sum.dirty += residency.dirty;
    }
    if found.len() > 1 {
        rows.push(cells("all", sum));
    }
    render::table(&rows, 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_files_are_summed() {
        let of = |path: &str, resident| Of {
            path: path.into(),
            residency: Residency { resident, ..Residency::default() },
        };
        let one = describe(&[of("/a", 4096)]);
        assert_eq!(one.lines().count(), 2);
        let two = describe(&[of("/a", 4096), of("/b", 8192)]);
        assert!(two.lines().last().is_some_and(|l| l.contains("12 KiB")), "{two}");
    }
}
