//! `weir du`: how much is below directories, and how much of it is here.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use schemars::JsonSchema;
use serde::Serialize;
use weir_types::{Bytes, Result};

use super::file_states::{self, Sum};
use crate::cli::DuArgs;
use crate::progress::{Progress, Unit};
use crate::{render, targets};

/// A directory, and what is below it.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DuRow")]
struct Row<'a> {
    /// The directory.
    path: &'a Path,
    #[serde(flatten)]
    sum: Sum,
}

/// How much is below directories.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "DuReport")]
pub(super) struct Report<'a> {
    /// By path.
    rows: Vec<Row<'a>>,
}

pub(crate) async fn run(args: DuArgs) -> Result<ExitCode> {
    let mut sums: BTreeMap<PathBuf, Sum> = BTreeMap::new();
    let (mut progress, mut seen) = (Progress::new(Unit::Objects), 0);
    for mount in targets::find(&args.paths, true)? {
        let roots: Vec<PathBuf> = mount.targets.iter().map(|of| of.real.clone()).collect();
        for root in &roots {
            sums.entry(root.clone()).or_default();
        }
        file_states::of(mount, |files| {
            seen += files.len() as u64;
            progress.show(seen, None, &render::files(seen));
            for (path, state) in files {
                for at in counted_at(&roots, &path, args.depth) {
                    sums.entry(at).or_default().add(&state);
                }
            }
            Ok(())
        })
        .await?;
    }
    drop(progress);
    match args.json {
        true => {
            let rows = sums.iter().map(|(path, sum)| Row { path, sum: *sum }).collect();
            render::say_json(&Report { rows })?;
        }
        false => render::say(&describe(&sums))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// The directories in whose rows a file counts: what was named, and those below it down to `depth`.
fn counted_at(roots: &[PathBuf], file: &Path, depth: usize) -> Vec<PathBuf> {
    let mut at = Vec::new();
    for root in roots.iter().filter(|root| file.starts_with(root)) {
        at.push(root.clone());
        let inner = file.parent().and_then(|parent| parent.strip_prefix(root).ok());
        let mut directory = root.clone();
        for part in inner.into_iter().flat_map(Path::components).take(depth) {
            directory.push(part);
            at.push(directory.clone());
        }
    }
    at.sort();
    at.dedup();
    at
}

fn describe(sums: &BTreeMap<PathBuf, Sum>) -> String {
    let head = ["files", "size", "here", "bucket only", "dirty files", "path"];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    rows.extend(sums.iter().map(|(path, sum)| {
        vec![
            sum.files.to_string(),
            Bytes(sum.bytes).to_string(),
            Bytes(sum.resident_bytes).to_string(),
            Bytes(sum.bytes - sum.resident_bytes).to_string(),
            sum.dirty.to_string(),
            path.display().to_string(),
        ]
    }));
    let widths: Vec<usize> = (0..head.len() - 1)
        .map(|column| rows.iter().map(|row| row[column].chars().count()).max().unwrap_or(0))
        .collect();
    let mut text = String::new();
    for row in rows {
        for (cell, width) in row.iter().zip(&widths) {
            text.push_str(&format!("{cell:>width$}  "));
        }
        text.push_str(&format!("{}\n", row[head.len() - 1]));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_counts_where_it_was_asked_for_and_on_the_way() {
        let roots = [PathBuf::from("/m/a"), PathBuf::from("/m/a/b")];
        let at = counted_at(&roots, Path::new("/m/a/b/c/f"), 1);
        assert_eq!(at, ["/m/a", "/m/a/b", "/m/a/b/c"].map(PathBuf::from));
        assert_eq!(counted_at(&roots[..1], Path::new("/m/a/f"), 5), [PathBuf::from("/m/a")]);
        let file = [PathBuf::from("/m/a/f")];
        assert_eq!(counted_at(&file, Path::new("/m/a/f"), 1), file);
    }

    #[test]
    fn rows_are_columns() {
        let sum = Sum { files: 12, bytes: 4096, resident_bytes: 1024, ..Sum::default() };
        let text = describe(&BTreeMap::from([(PathBuf::from("/m/a"), sum)]));
        let wanted = "files   size   here  bucket only  dirty files  path\n   \
                      12  4 KiB  1 KiB        3 KiB            0  /m/a\n";
        assert_eq!(text, wanted);
    }
}
