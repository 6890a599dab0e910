//! `weir locks`: who holds which advisory lock, and who waits.

use std::path::Path;
use std::process::ExitCode;

use weir_engine::{BucketUrl, LockKind, LockView, NodesOptions};
use weir_types::{ErrorKind, FsError, Result};

use crate::api::{ALONE, GetLocks};
use crate::cli::LocksArgs;
use crate::client::Client;
use crate::targets::{self, Finder, Target};
use crate::{buckets, render};

pub(crate) async fn run(args: LocksArgs) -> Result<ExitCode> {
    let locks = match args.place.contains("://") {
        true => of_volume(&args).await?,
        false => at_path(Path::new(&args.place)).await?,
    };
    match args.json {
        true => render::say_json_rows(&locks)?,
        false => render::say(&describe(&locks))?,
    }
    Ok(ExitCode::SUCCESS)
}

/// Those of a volume: a mount of it on this machine knows its own without delay.
async fn of_volume(args: &LocksArgs) -> Result<Vec<LockView>> {
    let url: BucketUrl = args.place.parse()?;
    if let Some((client, status)) = Client::having(&url).await
        && !status.engine.read_only
    {
        return client.call(&GetLocks {}).await;
    }
    let connector =
        buckets::volume_connector(&args.connect, buckets::connect_options(&args.connect))?;
    let metadata_url = args.meta.clone();
    let options = NodesOptions { url, connector, metadata_url };
    if weir_engine::nodes(&options, false).await?.is_empty() {
        return Err(FsError::new(ErrorKind::Invalid, ALONE));
    }
    weir_engine::locks(&options).await
}

async fn at_path(path: &Path) -> Result<Vec<LockView>> {
    let mut finder = Finder::default();
    let (mount, target) = finder.locate(path)?;
    let mount = &finder.mounts[mount];
    let locks = mount.client.call(&GetLocks {}).await?;
    let inner = targets::below(&mount.mountpoint, &target.real);
    Ok(locks.into_iter().filter(|lock| is_meant(lock, &target, &inner)).collect())
}

/// Whether a lock is of this file, or below this directory.
fn is_meant(lock: &LockView, target: &Target, inner: &str) -> bool {
    let below = |path: &str| path.strip_prefix(inner).is_some_and(|rest| rest.starts_with('/'));
    inner == "."
        || lock.ino.0 == target.ino
        || target.is_dir && lock.path.as_deref().is_some_and(below)
}

fn describe(locks: &[LockView]) -> String {
    if locks.is_empty() {
        return "Nothing is locked.\n".to_owned();
    }
    let head = ["file", "bytes", "kind", "for", "machine", "process", ""];
    let mut rows = vec![head.map(str::to_owned).to_vec()];
    for lock in locks {
        let bytes = match (lock.kind, lock.start, lock.last) {
            (LockKind::Flock, ..) | (_, 0, None) => "all".to_owned(),
            (_, start, None) => format!("{start}-"),
            (_, start, Some(last)) => format!("{start}-{last}"),
        };
        rows.push(vec![
            lock.path.clone().unwrap_or_else(|| format!("inode {}", lock.ino)),
            bytes,
            if lock.kind == LockKind::Flock { "flock" } else { "fcntl" }.to_owned(),
            if lock.exclusive { "writing" } else { "reading" }.to_owned(),
            lock.machine.clone(),
            lock.pid.to_string(),
            if lock.waits { "waits" } else { "holds it" }.to_owned(),
        ]);
    }
    render::table(&rows, 7)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use weir_types::Ino;

    use super::*;

    fn lock(ino: u64, path: Option<&str>, last: Option<u64>, waits: bool) -> LockView {
        LockView {
            ino: Ino(ino),
            path: path.map(str::to_owned),
            kind: LockKind::Fcntl,
            exclusive: !waits,
            start: 5,
            last,
            waits,
            pid: 7,
            owner: String::new(),
            node: "1".to_owned(),
            machine: "a".to_owned(),
        }
    }

    #[test]
    fn it_tells_who_holds_and_who_waits() {
        let text = describe(&[lock(2, Some("d/f"), Some(9), false), lock(3, None, None, true)]);
        let lines: Vec<_> = text.lines().collect();
        for word in ["d/f", "5-9", "writing", "holds it"] {
            assert!(lines[1].contains(word), "{word}: {text}");
        }
        for word in ["inode 3", "5- ", "reading", "waits"] {
            assert!(lines[2].contains(word), "{word}: {text}");
        }
        assert_eq!(describe(&[]), "Nothing is locked.\n");
    }

    #[test]
    fn those_are_meant_that_are_of_the_file_or_below_the_directory() {
        let target = |ino, is_dir: bool| Target {
            asked: PathBuf::new(),
            real: PathBuf::new(),
            ino,
            is_file: !is_dir,
            is_dir,
        };
        let (f, removed) = (lock(2, Some("d/f"), None, false), lock(3, None, None, false));
        assert!(is_meant(&f, &target(1, true), ".") && is_meant(&removed, &target(1, true), "."));
        assert!(is_meant(&f, &target(9, true), "d") && !is_meant(&removed, &target(9, true), "d"));
        assert!(!is_meant(&f, &target(9, true), "d/f2") && !is_meant(&f, &target(9, true), "dd"));
        assert!(is_meant(&f, &target(2, false), "another/name"), "of several names");
        assert!(!is_meant(&f, &target(8, false), "d"), "a file has nothing below it");
    }
}
