//! The process behind a mount: from options to a served volume, and to its end.
//!
//! What must always hold:
//! - Nothing is mounted before every check has passed, and whoever waits is told why not.
//! - However the mount ends (a request, a signal, a plain `umount`), all is flushed before the
//!   process ends with 0. What cannot leave stays in the tier, and the end is then not 0.

mod admin;
mod metrics;
mod options;
mod ready;
mod signals;

use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use weir_door_fuse::{FuseMount, FuseView};
use weir_engine::Engine;
use weir_types::{ErrorKind, FsError, Result};

use crate::cli::{LogArgs, MountArgs};
use crate::render;

pub(crate) use ready::READY;

/// How long answers that are under way may take once all is flushed.
const LAST_ANSWERS: Duration = Duration::from_secs(2);

/// What the parts of a running daemon share.
pub(crate) struct Shared {
    pub(crate) engine: Arc<Engine>,
    pub(crate) door: FuseView,
    pub(crate) mountpoint: PathBuf,
    pub(crate) started: Instant,
    /// How it ended: `None` while it runs, then how the last flush went.
    pub(crate) ended: watch::Sender<Option<std::result::Result<(), String>>>,
}

/// Mounts and serves until it is unmounted. With `args.daemon` it detaches from its terminal and
/// tells its parent, by a pipe on standard output, whether it could.
pub(crate) fn serve(args: MountArgs, log: &LogArgs) -> Result<ExitCode> {
    if args.daemon {
        // Fails only if it leads a session already, which is as good.
        let _ = rustix::process::setsid();
    }
    let own_log = args.log_file.clone().filter(|_| !args.daemon);
    render::start_log(log, "info", own_log.as_deref())?;
    raise_open_files();
    let daemon = args.daemon;
    let run = || {
        let runtime = tokio::runtime::Builder::new_multi_thread()
            .enable_all()
            .thread_name("weir")
            .build()
            .map_err(|e| FsError::local_io("start the runtime's threads", e))?;
        let (shared, mount) = start(&runtime, args)?;
        Ok((runtime, shared, mount))
    };
    let (runtime, shared, mount) = match run() {
        Ok(started) => started,
        Err(error) if daemon => {
            ready::failed(&error);
            return Ok(ExitCode::FAILURE);
        }
        Err(error) => return Err(error),
    };
    if daemon && !ready::tell() {
        tracing::warn!("whoever asked for the mount does not wait for it any more: unmounting");
        let shared = shared.clone();
        runtime.spawn(async move { signals::stop(&shared).await });
    }
    finish(&runtime, &shared, mount)
}

/// Checks all, mounts the engine, then the door, then opens the admin socket.
fn start(runtime: &Runtime, args: MountArgs) -> Result<(Arc<Shared>, FuseMount)> {
    let options = options::resolve(args)?;
    if options.daemon {
        // Its working directory would keep another file system busy.
        std::env::set_current_dir("/").map_err(|e| FsError::local_io("chdir /", e))?;
    }
    let admin = runtime.block_on(admin::bind(&options.mountpoint, options.admin_listen))?;
    let _entered = runtime.enter();
    let engine = Arc::new(runtime.block_on(Engine::mount(options.engine))?);
    let mount = match weir_door_fuse::mount(engine.clone(), runtime.handle().clone(), options.fuse)
    {
        Ok(mount) => mount,
        Err(error) => {
            if let Err(ending) = runtime.block_on(engine.shutdown()) {
                tracing::error!("ending after a failed mount: {ending}");
            }
            return Err(error);
        }
    };
    let shared = Arc::new(Shared {
        engine,
        door: mount.view(),
        mountpoint: mount.mountpoint().to_owned(),
        started: Instant::now(),
        ended: watch::Sender::new(None),
    });
    let seen = Arc::downgrade(&shared);
    shared.engine.count_metadata_by(move || {
        seen.upgrade().map_or(0, |shared| metrics::metadata_ops(&shared.door.requests()))
    });
    let listening = signals::listen(&shared);
    runtime.spawn(listening.map_err(|e| FsError::local_io("listen for signals", e))?);
    admin.serve(&shared);
    tracing::info!(mountpoint = %shared.mountpoint.display(), "mounted");
    Ok((shared, mount))
}

/// Waits for the unmount, flushes, and says how that went to all who wait for it.
fn finish(runtime: &Runtime, shared: &Arc<Shared>, mount: FuseMount) -> Result<ExitCode> {
    let served = mount.wait();
    tracing::info!(mountpoint = %shared.mountpoint.display(), "unmounted, flushing");
    let flushed = runtime.block_on(shared.engine.shutdown()).map_err(|error| {
        error.within(
            "the last flush failed; the tier keeps what is not in the bucket, mount again with it",
        )
    });
    let told = match &flushed {
        Ok(()) => Ok(()),
        Err(error) => Err(error.to_string()),
    };
    shared.ended.send_replace(Some(told));
    runtime.block_on(async {
        // Every answer under way holds a receiver until it is written.
        let _ = tokio::time::timeout(LAST_ANSWERS, shared.ended.closed()).await;
    });
    match served.and(flushed) {
        Ok(()) => {
            tracing::info!("everything is in the bucket");
            Ok(ExitCode::SUCCESS)
        }
        Err(error) => {
            tracing::error!("{error}");
            Err(error)
        }
    }
}

/// Every resident file may have a descriptor open; the usual 1,024 are too few.
fn raise_open_files() {
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit { current: limit.maximum, ..limit };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!("the limit of open files stays at {:?}: {error}", limit.current);
    }
}

/// A join error of a blocking task, which is a panic in it.
pub(crate) fn panicked(error: tokio::task::JoinError) -> FsError {
    FsError::new(ErrorKind::Bug, format!("a task of the daemon failed: {error}"))
}
