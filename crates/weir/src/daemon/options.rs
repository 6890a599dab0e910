//! From command line arguments to what the engine and the door are given, all checked.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use weir_door_fuse::{FuseOptions, check_mountpoint};
use weir_engine::{BucketUrl, ConnectOptions, MountOptions};
use weir_types::{ErrorKind, FsError, Result, Settings};

use crate::cli::MountArgs;
use crate::{clock, commands, hooks, paths};

/// Everything a mount needs.
pub(crate) struct Resolved {
    pub(crate) mountpoint: PathBuf,
    pub(crate) engine: MountOptions,
    pub(crate) fuse: FuseOptions,
    pub(crate) admin_listen: Option<SocketAddr>,
    pub(crate) daemon: bool,
}

/// Checks all that can be checked without a request, and puts the options together.
pub(crate) fn resolve(args: MountArgs) -> Result<Resolved> {
    let url: BucketUrl = args.url.parse()?;
    let settings = settings(&args)?;
    if let Some(address) = args.admin_listen.filter(|address| !address.ip().is_loopback()) {
        let text = format!(
            "--admin-listen {address}: it has no authentication and so listens on loopback only: \
             use 127.0.0.1:{}",
            address.port()
        );
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    check_mountpoint(&args.dir)?;
    let mountpoint = paths::real(&args.dir)?;
    let tier = absolute(&args.tier)?;
    let journal = args.journal.as_deref().map(absolute).transpose()?;
    let inside = [("--tier", Some(&tier)), ("--journal", journal.as_ref())];
    for (what, directory) in inside {
        if let Some(directory) = directory.filter(|d| d.starts_with(&mountpoint)) {
            let text = format!(
                "{what} {} lies below the mount point {}: name a directory outside of it",
                directory.display(),
                mountpoint.display()
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
    }
    weir_tier::check_directory("--tier", &tier)?;
    let clock = clock::real();
    let mut fuse = FuseOptions::new(&mountpoint, url.to_string(), clock.now.clone());
    let mut read_only = args.read_only;
    for word in args.options.iter().flat_map(|o| o.split(',')) {
        match word {
            "ro" => read_only = true,
            "allow_other" => fuse.allow_other = true,
            "" | "rw" => {}
            _ => fuse.extra.push(word.to_owned()),
        }
    }
    fuse.read_only = read_only;
    fuse.allow_other |= args.allow_other;
    fuse.threads = args.threads;
    fuse.passthrough = !args.no_passthrough;
    if read_only {
        // Another mount may write meanwhile.
        fuse = fuse.shared();
    }
    let connect = ConnectOptions {
        timeout_ms: settings.bucket_timeout_ms,
        hedge_percent: settings.hedge_percent,
        ..commands::connect_options(&args.connect)
    };
    let engine = MountOptions {
        connector: commands::connector(connect)?,
        url,
        tier,
        journal,
        read_only,
        take_over: args.take_over,
        settings,
        clock,
        host: hooks::host(),
    };
    hooks::arm()?;
    Ok(Resolved { mountpoint, engine, fuse, admin_listen: args.admin_listen, daemon: args.daemon })
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| FsError::local_io(path.display(), e))
}

/// Defaults, over them the file, over that the flags; all problems are told at once.
fn settings(args: &MountArgs) -> Result<Settings> {
    let mut settings = match &args.config {
        Some(path) => read_settings(path)?,
        None => Settings::default(),
    };
    if let Some(size) = args.tier_size {
        settings.tier_bytes = size;
    }
    if let Some(size) = args.memory {
        settings.memory_bytes = size;
    }
    if let Some(age) = args.flush_age {
        settings.flush_age_ms = age;
    }
    match settings.problems() {
        problems if problems.is_empty() => Ok(settings),
        problems => {
            let text = format!("settings: {}", problems.join("; "));
            Err(FsError::new(ErrorKind::Invalid, text))
        }
    }
}

fn read_settings(path: &Path) -> Result<Settings> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|e| FsError::local_io(format!("--config {shown}"), e))?;
    serde_json::from_str(&text).map_err(|error| {
        let text = format!("--config {shown}: it is not JSON settings: {error}");
        FsError::new(ErrorKind::Invalid, text)
    })
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;
    use crate::cli::{Cli, Command};

    fn args(line: &str) -> MountArgs {
        let words = ["weir", "mount", "memory://b/v", "/nowhere", "--tier", "/t"];
        let cli = Cli::try_parse_from(words.into_iter().chain(line.split_whitespace()));
        match cli.expect("parses").command {
            Command::Mount(mount) => *mount,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("settings.json");
        std::fs::write(&file, r#"{"tier_bytes": 1073741824, "flush_age_ms": 5000}"#)
            .expect("write");
        let found = settings(&args(&format!("--config {} --flush-age 1s", file.display())))
            .expect("settings");
        assert_eq!((found.tier_bytes.0, found.flush_age_ms), (1 << 30, 1000));
        assert_eq!(found.meta_flush_ms, Settings::default().meta_flush_ms);
        std::fs::write(&file, r#"{"tier_bites": 1}"#).expect("write");
        let error = settings(&args(&format!("--config {}", file.display()))).expect_err("typo");
        assert!(error.to_string().contains("tier_bites"), "{error}");
    }

    #[test]
    fn all_problems_of_the_settings_are_told() {
        let error = settings(&args("--tier-size 1MiB --flush-age 1ms")).expect_err("bad");
        let text = error.to_string();
        assert!(text.contains("tier_bytes") && text.contains("flush_age_ms"), "{text}");
    }

    #[test]
    fn the_admin_port_stays_on_this_machine() {
        let error = resolve(args("--admin-listen 0.0.0.0:9100")).map(|_| ()).expect_err("open");
        assert!(error.to_string().contains("127.0.0.1:9100"), "{error}");
    }
}
