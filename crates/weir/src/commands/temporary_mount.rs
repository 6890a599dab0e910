//! A volume that is opened for the moment, because no daemon of this machine has it.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

use tempfile::TempDir;
use weir_engine::{AcceptLoss, BucketUrl, ConnectOptions, Engine, MountOptions};
use weir_types::{ErrorKind, FsError, Result, Settings};

use crate::cli::ConnectArgs;
use crate::{buckets, clock, failpoints};

/// Somebody waits at the terminal, and the address may be wrong: no minute of attempts here.
const TIMEOUT_MS: u64 = 15_000;

/// The open volume; its tier is a directory that goes with it.
pub(crate) struct TemporaryMount {
    engine: Engine,
    _tier: TempDir,
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
            tier: tier.path().to_owned(),
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

    /// Does some work and closes the volume, in good order also where Ctrl-C ends the work: a volume
    /// that is left open must be mounted before it can be opened so again.
    pub(crate) async fn run<T>(self, work: impl AsyncFnOnce(&Engine) -> Result<T>) -> Result<T> {
        let done = tokio::select! {
            done = work(&self.engine) => done,
            _ = tokio::signal::ctrl_c() => {
                Err(FsError::new(ErrorKind::Interrupted, "interrupted: it may be done, or not"))
            }
        };
        let closed = self.engine.shutdown().await;
        let done = done?;
        closed.map(|()| done)
    }
}

/// A new directory on a disk: where temporary files are, if that is not in memory.
fn temporary_tier() -> Result<TempDir> {
    let mut last = None;
    for parent in [std::env::temp_dir(), PathBuf::from("/var/tmp")] {
        let made = tempfile::Builder::new()
            .prefix("weir-opened-")
            .permissions(Permissions::from_mode(0o700))
            .tempdir_in(&parent);
        let fit = made.map_err(|e| FsError::local_io(parent.display(), e)).and_then(|made| {
            weir_tier::check_directory("temporary directory", made.path()).map(|()| made)
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
