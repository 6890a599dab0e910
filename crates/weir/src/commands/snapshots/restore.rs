//! `weir restore`: a volume, or a part of it, made as a snapshot has it.
//!
//! It is a copy out of the snapshot within the mount: each file is as it was before or as in the snapshot at any
//! moment, bytes are shared and not moved, and what a run that was broken off left the next one does.

use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use schemars::JsonSchema;
use serde::Serialize;
use tokio::time::Instant;
use weir_engine::{LinkView, SnapshotOptions, moment_name};
use weir_sync::{Comparison, Options, Place, Progress, Report, Scope};
use weir_types::{Bytes, ErrorKind, FsError, Ino, Result};

use crate::api::{CreateSnapshot, ListLinks};
use crate::cli::RestoreArgs;
use crate::client::Client;
use crate::commands::sync::{INTERRUPTED, show, tell_failures};
use crate::{clock, render};

/// What was done.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "RestoreReport")]
pub(crate) struct Told<'a> {
    /// How long it took.
    seconds: f64,
    /// Nothing was written.
    dry_run: bool,
    /// The snapshot that has what was there before, if one was made.
    before: Option<&'a str>,
    /// Directories that stayed as they were: those of linked buckets, and where other file systems are mounted.
    left: &'a [String],
    #[serde(flatten)]
    report: &'a Report,
}

/// A part that is restored: both tops, and what below them.
#[derive(Debug, PartialEq, Eq)]
struct Part {
    from: PathBuf,
    to: PathBuf,
    only: Option<PathBuf>,
}

pub(crate) async fn run(args: RestoreArgs) -> Result<ExitCode> {
    let real = std::fs::canonicalize(&args.dir);
    let real = real.map_err(|error| FsError::local_io(args.dir.display(), error))?;
    let (client, mountpoint) = Client::holding(&real)?;
    let snapshot = find(mountpoint, &args.to)?;
    let parts = match args.paths.is_empty() {
        true => vec![part(&snapshot, mountpoint, &real)?],
        false => {
            let named = args.paths.iter().map(|path| named(&real, path));
            named.map(|path| part(&snapshot, mountpoint, &path?)).collect::<Result<_>>()?
        }
    };
    let links = client.call(&ListLinks {}).await?;
    let mut left = linked(&links, mountpoint)?;
    left.extend(weir_door_fuse::mounts_below(mountpoint)?);
    let before = match args.no_snapshot || args.dry_run {
        true => None,
        false => Some(keep(&client).await?),
    };
    if let (Some(before), false) = (&before, args.json) {
        render::tell(&format!("weir: what is there now is kept as snapshot {before}\n"));
    }
    let (progress, began) = (Arc::new(Progress::default()), Instant::now());
    let restoring = restore(&parts, &left, &args, &progress);
    let done = tokio::select! {
        done = restoring => done,
        never = show(&progress) => never,
    };
    if progress.cancelled.load(Ordering::Relaxed) {
        render::tell("weir: broken off; the same command goes on with what is missing\n");
        return Ok(ExitCode::from(INTERRUPTED));
    }
    let report = done?;
    let seconds = began.elapsed().as_secs_f64();
    let left: Vec<String> = left.iter().map(|path| path.display().to_string()).collect();
    let (before, dry_run) = (before.as_deref(), args.dry_run);
    let told = Told { seconds, dry_run, before, left: &left, report: &report };
    match args.json {
        true => render::say_json(&told)?,
        false => render::say(&describe(&told, &args.dir))?,
    }
    tell_failures(&report);
    Ok(if report.failed == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Where the mount shows a snapshot.
fn find(mountpoint: &Path, name: &str) -> Result<PathBuf> {
    let wrong = |text: String| Err(FsError::new(ErrorKind::NotFound, text));
    if name.is_empty() || name.contains('/') || name.starts_with('.') {
        return wrong(format!("`{}` is no name of a snapshot", name.escape_debug()));
    }
    let path = mountpoint.join(".snapshots").join(name);
    match std::fs::symlink_metadata(&path) {
        // Where the volume has something else under the name of the snapshots' directory.
        Ok(found) if found.ino() <= Ino::LIVE_MAX => wrong(format!(
            "{} is no snapshot: rename what the volume has under that name",
            path.display()
        )),
        Ok(_) => Ok(path),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => wrong(format!(
            "there is no snapshot `{name}` in this volume: `weir snapshot list {}` has them",
            mountpoint.display()
        )),
        Err(error) => Err(FsError::local_io(path.display(), error)),
    }
}

/// A path that was named, below `dir` unless it is absolute, without symbolic links on the way to it; it need not be
/// there.
fn named(dir: &Path, path: &Path) -> Result<PathBuf> {
    let whole = dir.join(path);
    if whole.components().any(|part| part == Component::ParentDir) {
        let text = format!("{}: name it without `..`", path.display());
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    let name = whole.file_name().map(ToOwned::to_owned);
    let (Some(parent), Some(name)) = (whole.parent(), name) else { return Ok(whole) };
    for above in parent.ancestors() {
        if let Ok(real) = above.canonicalize() {
            let rest = parent.strip_prefix(above).unwrap_or(Path::new(""));
            return Ok(real.join(rest).join(name));
        }
    }
    Ok(whole)
}

/// What of the snapshot goes where, for a path below the mount.
fn part(snapshot: &Path, mountpoint: &Path, path: &Path) -> Result<Part> {
    let outside = || {
        let text = format!("{} is not in {}", path.display(), mountpoint.display());
        FsError::new(ErrorKind::Invalid, text)
    };
    let below = path.strip_prefix(mountpoint).map_err(|_| outside())?;
    if below.starts_with(".snapshots") {
        return Err(FsError::new(ErrorKind::Invalid, "what is in snapshots cannot be changed"));
    }
    if below.as_os_str().is_empty() {
        let (from, to) = (snapshot.to_owned(), mountpoint.to_owned());
        return Ok(Part { from, to, only: None });
    }
    if let Err(error) = std::fs::symlink_metadata(snapshot.join(below)) {
        let name = snapshot.file_name().unwrap_or_default().to_string_lossy();
        return Err(match error.kind() {
            std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory => {
                let text = format!("{} was not there when `{name}` was made", path.display());
                FsError::new(ErrorKind::NotFound, text)
            }
            _ => FsError::local_io(path.display(), error),
        });
    }
    // The directories above that are missing come with it.
    let is_directory = |path: PathBuf| path.symlink_metadata().is_ok_and(|found| found.is_dir());
    let parent = below.parent().unwrap_or(Path::new(""));
    let top = parent.ancestors().find(|top| is_directory(mountpoint.join(top)));
    let top = top.unwrap_or(Path::new(""));
    let only = below.strip_prefix(top).map_err(|_| outside())?.to_owned();
    Ok(Part { from: snapshot.join(top), to: mountpoint.join(top), only: Some(only) })
}

/// The directories of linked buckets: what changes there, changes objects.
fn linked(links: &[LinkView], mountpoint: &Path) -> Result<Vec<PathBuf>> {
    let mut all = Vec::with_capacity(links.len());
    for link in links {
        let path = mountpoint.join(link.path.trim_start_matches('/'));
        let found = path.symlink_metadata().map(|found| found.ino());
        if !found.is_ok_and(|ino| ino == link.ino.0) {
            let text = format!(
                "the directory of a linked bucket was at {} and is not there any more: `weir unlink` it first, or \
                 restore other directories by name",
                path.display()
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
        all.push(path);
    }
    Ok(all)
}

/// Keeps what is there now, so that one can go back again.
async fn keep(client: &Client) -> Result<String> {
    let name = format!("before-restore-{}", moment_name(clock::now().0 / 1_000_000));
    let options = SnapshotOptions { name, flush: true, rule: None };
    let made = client.call(&CreateSnapshot(options)).await;
    let made = made.map_err(|error| {
        error.within("cannot keep what is there now (--no-snapshot goes on without)")
    })?;
    Ok(made.name)
}

async fn restore(
    parts: &[Part],
    left: &[PathBuf],
    args: &RestoreArgs,
    progress: &Arc<Progress>,
) -> Result<Report> {
    let mut all = Report::default();
    for part in parts {
        let (from, to) = (Place::directory(&part.from, false)?, Place::directory(&part.to, false)?);
        let only = part.only.as_ref().map(|only| only.as_os_str().as_bytes().to_vec());
        // What is named within a link is meant; another file system has no snapshot here.
        let asked = part.only.as_ref().map_or(part.to.clone(), |only| part.to.join(only));
        let left = left.iter().filter(|link| link.starts_with(&asked) && **link != asked);
        let left = left.filter_map(|link| link.strip_prefix(&part.to).ok());
        let leave = left.map(|link| link.as_os_str().as_bytes().to_vec()).collect();
        let options = Options {
            comparison: if args.all { Comparison::Nothing } else { Comparison::SizeAndTime },
            delete: !args.keep_new,
            empty: true,
            dry_run: args.dry_run,
            verify: false,
            jobs: usize::from(args.jobs),
            snapshot: true,
            scope: Scope { only, leave },
        };
        all.add(weir_sync::sync(&from, &to, &options, progress).await?);
    }
    Ok(all)
}

fn describe(told: &Told<'_>, dir: &Path) -> String {
    let Report { copied, bytes, same, deleted, extra, skipped, .. } = told.report;
    let (did, removes) = match told.dry_run {
        true => ("would restore", "would remove"),
        false => ("restored", "removed"),
    };
    let mut text = format!("{did} {copied} of {} entries, {}", copied + same, Bytes(*bytes));
    if !told.dry_run && told.seconds >= 1.0 {
        text.push_str(&format!(" in {}", render::seconds(told.seconds as u64)));
    }
    for (count, what) in [
        (deleted, format!("{removes} {deleted} that came since")),
        (extra, format!("{extra} that came since stay")),
        (skipped, format!("{skipped} devices are left out: only root makes them")),
    ] {
        if *count > 0 {
            text.push_str(&format!("; {what}"));
        }
    }
    text.push('\n');
    for link in told.left {
        text.push_str(&format!(
            "{link} is a linked bucket, or another file system, and stays as it is\n"
        ));
    }
    if let Some(before) = told.before {
        text.push_str(&format!("to undo it: weir restore {} --to {before}\n", dir.display()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_begins_where_both_have_a_directory() {
        let dir = tempfile::tempdir().expect("a directory");
        let (mount, snapshot) = (dir.path().join("mnt"), dir.path().join("past"));
        for made in ["mnt/a", "past/a/b/c"] {
            std::fs::create_dir_all(dir.path().join(made)).expect("made");
        }
        let of = |path: &str| part(&snapshot, &mount, &mount.join(path));
        let wanted = |top: &str, only: &str| Part {
            from: snapshot.join(top),
            to: mount.join(top),
            only: Some(only.into()),
        };
        assert_eq!(of("a/b/c").expect("is there"), wanted("a", "b/c"));
        assert_eq!(of("a").expect("is there"), wanted("", "a"));
        assert_eq!(of("").expect("is there").only, None);
        assert_eq!(of("a/x").expect_err("was not there").kind(), ErrorKind::NotFound);
        assert_eq!(of(".snapshots/x").expect_err("is past").kind(), ErrorKind::Invalid);
        let outside = part(&snapshot, &mount, dir.path());
        assert_eq!(outside.expect_err("is outside").kind(), ErrorKind::Invalid);
        assert!(named(&mount, Path::new("../x")).is_err());
        std::os::unix::fs::symlink("a", mount.join("l")).expect("linked");
        let real = mount.canonicalize().expect("is there");
        let found = named(&real, Path::new("l/gone/x")).expect("is one");
        assert_eq!(found, real.join("a/gone/x"));
    }
}
