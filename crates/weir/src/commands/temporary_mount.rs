//! A volume that is opened for the moment, because no daemon of this machine has it.

use std::fs::{File, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use tempfile::TempDir;
use tokio::signal::unix::{SignalKind, signal};
use weir_engine::{AcceptLoss, BucketUrl, ConnectOptions, Engine, MountOptions};
use weir_types::{ErrorKind, FsError, Result, Settings};

use crate::cli::ConnectArgs;
use crate::{buckets, clock, failpoints};

/// Somebody waits at the terminal, and the address may be wrong: no minute of attempts here.
const TIMEOUT_MS: u64 = 15_000;
/// How temporary tiers are called.
const PREFIX: &str = "weir-passing-";
/// Age from which on a temporary tier that nobody has locked is one that nobody is about to lock, either.
const LEFT: Duration = Duration::from_secs(3_600);

/// The open volume; its tier is a directory that goes with it.
pub(crate) struct TemporaryMount {
    engine: Engine,
    _tier: TemporaryTier,
}

struct TemporaryTier {
    directory: TempDir,
    /// For as long as it is in use: nobody takes it for one that was left.
    _lock: Arc<File>,
}

impl TemporaryMount {
    /// Opens a volume that nobody writes, or any to read it.
    pub(crate) async fn open(
        url: &BucketUrl,
        connect: &ConnectArgs,
        read_only: bool,
    ) -> Result<Self> {
        let reached =
            ConnectOptions { timeout_ms: TIMEOUT_MS, ..buckets::connect_options(connect) };
        let tier = temporary_tier()?;
        let options = MountOptions {
            url: url.clone(),
            connector: buckets::volume_connector(connect, reached)?,
            tier: tier.directory.path().to_owned(),
            journal: None,
            read_only,
            shared: false,
            take_over: false,
            turn: None,
            accept_loss: AcceptLoss::Nothing,
            only_clean: true,
            ask_space: weir_engine::DiskSpace::kernel(),
            settings: Settings { bucket_timeout_ms: TIMEOUT_MS, ..Settings::default() },
            clock: clock::real(),
            host: failpoints::host(),
            inherited: weir_engine::Inherited::default(),
        };
        failpoints::arm()?;
        Ok(Self { engine: Engine::mount(options).await?, _tier: tier })
    }

    /// Does some work and closes the volume, in good order also where Ctrl-C or SIGTERM ends the work.
    pub(crate) async fn run<T>(self, work: impl AsyncFnOnce(&Engine) -> Result<T>) -> Result<T> {
        let listen = |kind| signal(kind).map_err(|e| FsError::local_io("listen for signals", e));
        let (mut pressed, mut told) =
            (listen(SignalKind::interrupt())?, listen(SignalKind::terminate())?);
        let interrupted = "interrupted: it may be done, or not";
        let done = tokio::select! {
            done = work(&self.engine) => done,
            _ = pressed.recv() => Err(FsError::new(ErrorKind::Interrupted, interrupted)),
            _ = told.recv() => Err(FsError::new(ErrorKind::Interrupted, interrupted)),
        };
        let closed = self.engine.shutdown().await;
        let done = done?;
        closed.map(|()| done)
    }
}

/// A new directory on a disk: where temporary files are, if that is not in memory. What killed commands left
/// there goes.
fn temporary_tier() -> Result<TemporaryTier> {
    let mut last = None;
    for parent in [std::env::temp_dir(), PathBuf::from("/var/tmp")] {
        remove_left(&parent);
        let made = tempfile::Builder::new()
            .prefix(PREFIX)
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&parent);
        let fit = made.map_err(|e| FsError::local_io(parent.display(), e)).and_then(|directory| {
            weir_tier::check_directory("temporary directory", directory.path())?;
            let lock = weir_tier::lock_directory(directory.path(), &[])?;
            Ok(TemporaryTier { directory, _lock: lock })
        });
        match fit {
            Ok(made) => return Ok(made),
            Err(error) => last = Some(error),
        }
    }
    let text = "no temporary directory on a disk: set TMPDIR to one";
    let error = FsError::new(ErrorKind::Invalid, text);
    Err(match last {
        Some(cause) => error.with_source(cause),
        None => error,
    })
}

/// Removes our temporary tiers that nobody uses any more: nothing is in them that anybody needs, see
/// [`MountOptions::only_clean`].
fn remove_left(parent: &Path) {
    let Ok(listed) = std::fs::read_dir(parent) else { return };
    for entry in listed.flatten() {
        let path = entry.path();
        if entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes())
            && was_left(&entry)
            && let Ok(_lock) = weir_tier::lock_directory(&path, &[])
            && let Err(error) = std::fs::remove_dir_all(&path)
        {
            tracing::debug!(path = %path.display(), %error, "what a killed command left stays");
        }
    }
}

fn was_left(entry: &std::fs::DirEntry) -> bool {
    // Of a link, not of what it leads to.
    let Ok(found) = entry.metadata() else { return false };
    let age = found.modified().ok().and_then(|modified| modified.elapsed().ok());
    found.is_dir()
        && found.uid() == rustix::process::geteuid().as_raw()
        && age.is_some_and(|age| age >= LEFT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_nobody_uses_is_removed() {
        let parent = tempfile::tempdir().expect("a directory");
        let make = |name: &str, is_old: bool| {
            let path = parent.path().join(name);
            std::fs::create_dir_all(path.join("volume")).expect("makes");
            if is_old {
                let then = std::time::UNIX_EPOCH + LEFT;
                File::open(&path).expect("opens").set_modified(then).expect("ages");
            }
            path
        };
        let (left, new) = (make("weir-passing-left", true), make("weir-passing-new", false));
        let other = make("weir-other", true);
        let used = make("weir-passing-used", false);
        let _lock = weir_tier::lock_directory(&used, &[]).expect("locks");
        let used = make("weir-passing-used", true);
        let link = parent.path().join("weir-passing-link");
        std::os::unix::fs::symlink(&other, &link).expect("links");
        remove_left(parent.path());
        assert!(!left.exists(), "what was left");
        assert!(new.exists() && other.exists() && used.exists() && link.exists(), "all else");
        assert!(other.join("volume").exists(), "what a link leads to");
        remove_left(&parent.path().join("no directory"));
    }
}
