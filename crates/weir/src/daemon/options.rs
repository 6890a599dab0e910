//! From command line arguments to what the engine and the doors are given, all checked.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};

use weir_door_block::{NbdOptions, ServerFiles};
use weir_door_fuse::{FuseOptions, Transport, check_mountpoint};
use weir_door_nfs::NfsOptions;
use weir_engine::{AcceptLoss, BucketUrl, ConnectOptions, MountOptions};
use weir_types::{ErrorKind, FsError, Result, Settings};

use super::token::TokenFile;
use super::work::Work;
use crate::cli::{self, EngineArgs, Loss, MountArgs, NbdArgs, NfsArgs};
use crate::{buckets, clock, failpoints, paths};

/// Everything a daemon needs.
pub(crate) struct Resolved {
    /// Its mount point, or the URL that it serves.
    pub(crate) place: PathBuf,
    pub(crate) engine: MountOptions,
    pub(crate) fuse: Option<FuseOptions>,
    pub(crate) nbd: NbdOptions,
    pub(crate) nfs: Option<NfsOptions>,
    pub(crate) admin_listen: Option<SocketAddr>,
    /// What lets cancel actions there.
    pub(crate) token: Option<TokenFile>,
    pub(crate) daemon: bool,
}

/// Checks all that can be checked without a request, and puts the options together. With `mounted` the
/// volume is mounted there already.
pub(crate) fn resolve(work: &Work, mounted: Option<&Path>) -> Result<Resolved> {
    let args = work.engine();
    let url: BucketUrl = work.url().parse()?;
    let settings = settings(args)?;
    if let Some(address) = args.admin_listen.filter(|address| !address.ip().is_loopback()) {
        let text = format!(
            "--admin-listen {address}: it has no authentication and so listens on loopback only: \
             use 127.0.0.1:{}",
            address.port()
        );
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    let token = args.admin_token_file.as_deref().map(|path| TokenFile::new(absolute(path)?));
    let token = token.transpose()?;
    let tier = absolute(&args.tier)?;
    let journal = args.journal.as_deref().map(absolute).transpose()?;
    let (place, fuse) = match work {
        Work::Serve(_) => (paths::of_volume(&url), None),
        Work::Mount(mount) => {
            let mountpoint = match mounted {
                // Nobody may serve it at the moment: not even a look at it would end.
                Some(mountpoint) => mountpoint.to_owned(),
                None => {
                    check_mountpoint(&mount.dir)?;
                    paths::real(&mount.dir)?
                }
            };
            check_outside(&mountpoint, &tier, journal.as_deref())?;
            let fuse = fuse_options(mount, &mountpoint, &url, &settings);
            (mountpoint, Some(fuse))
        }
    };
    weir_tier::check_directory("--tier", &tier)?;
    let read_only = args.read_only || fuse.as_ref().is_some_and(|fuse| fuse.read_only);
    let nbd = nbd_options(work.nbd(), read_only, &settings)?;
    let nfs = nfs_options(work.nfs(), read_only, &settings)?;
    let connect = ConnectOptions {
        timeout_ms: settings.bucket_timeout_ms,
        hedge_percent: settings.hedge_percent,
        ..buckets::connect_options(&args.connect)
    };
    let engine = MountOptions {
        connector: buckets::volume_connector(&args.connect, connect)?,
        url,
        tier,
        journal,
        read_only,
        shared: args.shared,
        take_over: args.take_over,
        turn: None,
        accept_loss: match args.accept_loss {
            // Who serves in the place of another machine goes on without its disk.
            Loss::Nothing if work.stands_by() => AcceptLoss::Tier,
            Loss::Nothing => AcceptLoss::Nothing,
            Loss::Tier => AcceptLoss::Tier,
            Loss::All => AcceptLoss::All,
        },
        only_clean: false,
        ask_space: weir_engine::DiskSpace::kernel(),
        settings,
        clock: clock::real(),
        host: failpoints::host(),
        inherited: weir_engine::Inherited::default(),
    };
    failpoints::arm()?;
    let (admin_listen, daemon) = (args.admin_listen, args.daemon.is_some());
    Ok(Resolved { place, engine, fuse, nbd, nfs, admin_listen, token, daemon })
}

/// What the daemon writes must not be in what it mounts.
fn check_outside(mountpoint: &Path, tier: &Path, journal: Option<&Path>) -> Result<()> {
    for (what, directory) in [("--tier", Some(tier)), ("--journal", journal)] {
        if let Some(directory) = directory.filter(|d| d.starts_with(mountpoint)) {
            let text = format!(
                "{what} {} lies below the mount point {}: name a directory outside of it",
                directory.display(),
                mountpoint.display()
            );
            return Err(FsError::new(ErrorKind::Invalid, text));
        }
    }
    Ok(())
}

fn fuse_options(
    args: &MountArgs,
    mountpoint: &Path,
    url: &BucketUrl,
    settings: &Settings,
) -> FuseOptions {
    let mut fuse = FuseOptions::new(mountpoint, url.to_string(), clock::real().now);
    fuse.read_only = args.engine.read_only;
    fuse.relatime = settings.relatime;
    for word in args.options.iter().flat_map(|o| o.split(',')) {
        match word {
            "ro" => fuse.read_only = true,
            "allow_other" => fuse.allow_other = true,
            "acl" => fuse.acl = true,
            "relatime" => fuse.relatime = true,
            "noatime" | "norelatime" => fuse.relatime = false,
            "" | "rw" => {}
            _ => fuse.extra.push(word.to_owned()),
        }
    }
    fuse.allow_other |= args.allow_other;
    fuse.acl |= args.acl;
    fuse.threads = args.threads;
    fuse.passthrough = !args.no_passthrough;
    fuse.transport = match args.transport {
        cli::Transport::Auto => Transport::Auto,
        cli::Transport::Dev => Transport::Dev,
        cli::Transport::Uring => Transport::Uring,
    };
    match fuse.read_only {
        // Another mount may write meanwhile.
        true => fuse.shared(),
        false if args.nfs.nfs.is_some() => fuse.beside(),
        false => fuse,
    }
}

fn nbd_options(args: &NbdArgs, read_only: bool, settings: &Settings) -> Result<NbdOptions> {
    let tls = match (&args.nbd_tls_cert, &args.nbd_tls_key) {
        (Some(certificate), Some(key)) => Some(ServerFiles {
            certificate: absolute(certificate)?,
            key: absolute(key)?,
            client_authority: args.nbd_tls_client_ca.as_deref().map(absolute).transpose()?,
        }),
        _ => None,
    };
    let unix = args.nbd_unix.as_deref().map(absolute).transpose()?;
    // What clients read and write comes in bodies too.
    let memory_bytes = settings.memory().fetches;
    Ok(NbdOptions { listen: args.nbd, unix, tls, read_only, memory_bytes })
}

/// How the volume is served by NFS, if it is.
fn nfs_options(args: &NfsArgs, read_only: bool, settings: &Settings) -> Result<Option<NfsOptions>> {
    let Some(listen) = args.nfs else { return Ok(None) };
    let tls = match (&args.nfs_tls_cert, &args.nfs_tls_key) {
        (Some(certificate), Some(key)) => Some(weir_door_nfs::TlsOptions {
            files: ServerFiles {
                certificate: absolute(certificate)?,
                key: absolute(key)?,
                client_authority: args.nfs_tls_client_ca.as_deref().map(absolute).transpose()?,
            },
            required: args.nfs_tls_required,
        }),
        _ => None,
    };
    let defaults = NfsOptions::new(listen, clock::real().now);
    let lease_ms = args.nfs_lease.unwrap_or(defaults.lease_ms);
    if !(1_000..=3_600_000).contains(&lease_ms) {
        let text = "--nfs-lease: a second at least, and an hour at most";
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    Ok(Some(NfsOptions {
        tls,
        read_only,
        lease_ms,
        memory_bytes: settings.memory().fetches,
        manage_gids: args.manage_gids,
        ..defaults
    }))
}

fn absolute(path: &Path) -> Result<PathBuf> {
    std::path::absolute(path).map_err(|e| FsError::local_io(path.display(), e))
}

/// Defaults, over them the file, over that the flags; all problems are told at once.
fn settings(args: &EngineArgs) -> Result<Settings> {
    let mut settings = match &args.config {
        Some(path) => read_settings(path)?,
        None => Settings::default(),
    };
    if let Some(size) = args.tier_size {
        settings.tier_bytes = size;
    }
    if let Some(size) = args.size {
        settings.volume_bytes = size;
    }
    if let Some(size) = args.memory {
        settings.memory_bytes = size;
    }
    if let Some(age) = args.flush_age {
        settings.flush_age_ms = age;
    }
    if let Some(url) = &args.meta {
        settings.metadata_url = Some(url.clone());
    }
    if let Some(listen) = &args.peer_listen {
        settings.peer_listen = Some(listen.clone());
    }
    settings.encrypt_tier |= args.encrypt_tier;
    if let Some(address) = &args.peer_address {
        settings.peer_address = Some(address.clone());
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

    fn args(line: &str) -> Box<MountArgs> {
        let words = ["weir", "mount", "memory://b/v", "/nowhere", "--tier", "/t"];
        let cli = Cli::try_parse_from(words.into_iter().chain(line.split_whitespace()));
        match cli.expect("parses").command {
            Command::Mount(mount) => mount,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn flags_win_over_the_file_and_the_file_over_defaults() {
        let dir = tempfile::tempdir().expect("dir");
        let file = dir.path().join("settings.json");
        std::fs::write(&file, r#"{"tier_bytes": 1073741824, "flush_age_ms": 5000}"#)
            .expect("write");
        let line = format!("--config {} --flush-age 1s --size 1TiB", file.display());
        let found = settings(&args(&line).engine).expect("settings");
        assert_eq!((found.tier_bytes.0, found.flush_age_ms), (1 << 30, 1000));
        assert_eq!(found.volume_bytes.0, 1 << 40);
        assert_eq!(found.meta_flush_ms, Settings::default().meta_flush_ms);
        std::fs::write(&file, r#"{"tier_bites": 1}"#).expect("write");
        let error =
            settings(&args(&format!("--config {}", file.display())).engine).expect_err("typo");
        assert!(error.to_string().contains("tier_bites"), "{error}");
    }

    #[test]
    fn all_problems_of_the_settings_are_told() {
        let error = settings(&args("--tier-size 1MiB --flush-age 1ms").engine).expect_err("bad");
        let text = error.to_string();
        assert!(text.contains("tier_bytes") && text.contains("flush_age_ms"), "{text}");
    }

    #[test]
    fn times_of_reads_are_kept_where_that_is_asked_for() {
        let url: BucketUrl = "memory://b/v".parse().expect("a URL");
        let keeps = |line: &str, relatime| {
            let settings = Settings { relatime, ..Settings::default() };
            fuse_options(&args(line), Path::new("/mnt"), &url, &settings).relatime
        };
        assert!(!keeps("", false) && keeps("", true) && keeps("-o noexec,relatime", false));
        assert!(!keeps("-o noatime", true), "what is said for this mount goes before");
    }

    #[test]
    fn a_token_that_cannot_be_used_is_refused_at_once() {
        let asked = "--admin-listen 127.0.0.1:0 --admin-token-file /nowhere/token";
        let error =
            resolve(&Work::Mount(args(asked)), None).map(|_| ()).expect_err("there is none");
        let error = error.to_string();
        assert!(error.contains("--admin-token-file /nowhere/token"), "{error}");
        let alone =
            ["weir", "mount", "memory://b/v", "/d", "--tier", "/t", "--admin-token-file", "f"];
        let error = Cli::try_parse_from(alone).expect_err("for what?").to_string();
        assert!(error.contains("--admin-listen"), "{error}");
    }

    #[test]
    fn the_admin_port_stays_on_this_machine() {
        let error = resolve(&Work::Mount(args("--admin-listen 0.0.0.0:9100")), None)
            .map(|_| ())
            .expect_err("open");
        assert!(error.to_string().contains("127.0.0.1:9100"), "{error}");
    }
}
