//! The process behind a mount or a served volume: from options to its doors, and to its end.
//!
//! What must always hold:
//! - Nothing is mounted or served before every check has passed, and whoever waits is told why not.
//! - However it ends (a request, a signal, a plain `umount`), the doors are shut before the last
//!   flush, and all is flushed before the process ends with 0. What cannot leave stays in the tier,
//!   and the end is then not 0.

mod admin;
mod block;
mod ending;
mod handover;
mod held_signals;
mod metrics;
mod nfs;
mod options;
mod ready;
mod rejoin;
mod shared;
mod signals;
mod standby;
mod supervisor;
mod token;
mod upgrade;
mod work;

use std::ffi::OsString;
use std::panic::AssertUnwindSafe;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tokio::runtime::Runtime;
use tokio::sync::watch;
use tokio::task::JoinHandle;
use weir_door_block::NbdOptions;
use weir_door_fuse::{FuseMount, FuseOptions};
use weir_door_nfs::NfsOptions;
use weir_engine::Engine;
use weir_types::{ErrorKind, FsError, Result};

use crate::cli::LogArgs;
use crate::failpoints;
use crate::log::{self, Writer};
use block::BlockDoor;
use ending::Ending;
use handover::{Handed, Invocation};
use nfs::{BoundDoor, NfsDoor};
use shared::{DaemonState, Fuse};

pub(crate) use handover::{Answer, Question, VERSIONS as HANDOVER_VERSIONS};
pub(crate) use ready::READY;
pub(crate) use shared::panicked;
pub(crate) use work::Work;

/// How long answers that are under way may take once all is flushed.
const LAST_ANSWERS: Duration = Duration::from_secs(2);
/// Before one that is to serve again tries once more.
const AGAIN_AFTER: Duration = Duration::from_secs(3);

/// Mounts or serves until it is told to end. With `--daemon` it detaches from its terminal and
/// tells its parent, by a pipe on standard output, whether it could. Where another binary handed its
/// mount over it goes on with that, or has that one go on.
pub(crate) fn run(work: Work, log_args: &LogArgs, argv: &[OsString]) -> Result<ExitCode> {
    // Before the first thread is started.
    held_signals::hold();
    let args = work.engine();
    let handed = args.handed_over.map(Handed::receive).transpose()?;
    let daemon = args.daemon.is_some();
    if daemon {
        // Fails only if it leads a session already, which is as good.
        let _ = rustix::process::setsid();
    }
    let begun = begin(&work, log_args, handed.as_ref());
    let directory = begun.as_ref().map(|(_, directory)| directory.clone()).unwrap_or_default();
    let begun = begun.and_then(|(runtime, directory)| {
        let invocation = Invocation::new(argv, directory);
        let (shared, mount) = match &handed {
            None => start(&runtime, &work, invocation, None)?,
            Some(_) => start_unharmed(&runtime, &work, invocation, handed.as_ref())?,
        };
        Ok((runtime, shared, mount))
    });
    let goes_on = handed.is_some();
    let (runtime, shared, mount) = match (begun, handed) {
        (Ok(started), _) => started,
        (Err(error), None) if standby::has_waited() => {
            tracing::error!("taking the volume failed, and is tried again: {error}");
            return live_on(&work, argv, &directory);
        }
        (Err(error), Some(handed)) => return Err(handed.failed(error)),
        (Err(error), None) if daemon => {
            ready::failed(&error);
            return Ok(ExitCode::FAILURE);
        }
        (Err(error), None) => return Err(error),
    };
    if daemon && !goes_on && !ready::tell() {
        tracing::warn!("whoever asked for this daemon does not wait for it any more: ending");
        let shared = shared.clone();
        runtime.spawn(async move { signals::stop(&shared).await });
    }
    match live(runtime, shared, mount) {
        Life::Over(ended) => ended,
        Life::Again => live_on(&work, argv, &directory),
    }
}

/// Serves anew until that is over.
fn live_on(work: &Work, argv: &[OsString], directory: &Path) -> Result<ExitCode> {
    loop {
        // Where it is gone since, whole paths do all the same.
        let _ = std::env::set_current_dir(directory);
        let invocation = Invocation::new(argv, directory.to_owned());
        if let Life::Over(ended) = live_again(work, invocation) {
            return ended;
        }
    }
}

/// How serving ended.
enum Life {
    Over(Result<ExitCode>),
    /// Others have the volume, or shut this one out: it begins anew.
    Again,
}

/// Serves until the end.
fn live(runtime: Runtime, shared: Arc<DaemonState>, mount: Option<FuseMount>) -> Life {
    supervisor::ready(&shared);
    let ended = finish(&runtime, &shared, mount);
    let again = shared.again.load(Ordering::Acquire);
    let sealed = shared.engine.sealed_directories();
    drop(shared);
    // A thread may wait for the kernel, which waits for somebody to answer a device.
    runtime.shutdown_timeout(LAST_ANSWERS);
    // Nothing has a file open there any more.
    drop(sealed);
    if again { Life::Again } else { Life::Over(ended) }
}

/// Serves once more, as if it had just been called. What is in the way of that may pass.
fn live_again(work: &Work, invocation: Invocation) -> Life {
    let begun = make_runtime().and_then(|runtime| match start(&runtime, work, invocation, None) {
        Ok((shared, mount)) => Ok((runtime, shared, mount)),
        Err(error) => {
            tracing::error!("serving again failed, and is tried again: {error}");
            runtime.block_on(tokio::time::sleep(AGAIN_AFTER));
            runtime.shutdown_timeout(LAST_ANSWERS);
            Err(error)
        }
    });
    match begun {
        Ok((runtime, shared, mount)) => live(runtime, shared, mount),
        Err(_) => Life::Again,
    }
}

/// Has signals end the process that serves nobody yet.
fn end_by_signals(runtime: &Runtime) -> Result<JoinHandle<()>> {
    let _entered = runtime.enter();
    let signals = held_signals::Signals::new();
    let signals = signals.map_err(|e| FsError::local_io("listen for signals", e))?;
    Ok(runtime.spawn(held_signals::end_by(signals)))
}

/// A log and a runtime, and the directory in which relative paths begin.
fn begin(work: &Work, log_args: &LogArgs, handed: Option<&Handed>) -> Result<(Runtime, PathBuf)> {
    let args = work.engine();
    let directory = match handed {
        Some(handed) => {
            let directory = handed.directory();
            // Where it is gone since, whole paths do all the same.
            let _ = std::env::set_current_dir(&directory);
            directory
        }
        // Where it cannot be told, no relative path works either.
        None => std::env::current_dir().unwrap_or_else(|_| "/".into()),
    };
    let writer = match &args.daemon {
        Some(file) => Writer::Detached(file),
        None => Writer::Foreground(args.log_file.as_deref()),
    };
    log::start(log_args, &writer)?;
    raise_open_files();
    Ok((make_runtime()?, directory))
}

fn make_runtime() -> Result<Runtime> {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .thread_name("weir")
        .build()
        .map_err(|e| FsError::local_io("start the runtime's threads", e))?;
    supervisor::watch(&runtime);
    Ok(runtime)
}

/// Whether this binary could go on with a mount, as far as that can be told without a request.
pub(crate) fn could_go_on(work: Work, asked: &Question) -> Result<()> {
    let directory = Path::new(&asked.directory);
    std::env::set_current_dir(directory)
        .map_err(|e| FsError::local_io(format!("chdir {}", directory.display()), e))?;
    let mountpoint = Path::new(&asked.mountpoint);
    handover::check_not_on_mount(&work, mountpoint)?;
    options::resolve(&work, Some(mountpoint)).map(drop)
}

type Started = (Arc<DaemonState>, Option<FuseMount>);

/// The same as [`start`], of which a panic is an error: another binary can go on.
fn start_unharmed(
    runtime: &Runtime,
    work: &Work,
    invocation: Invocation,
    handed: Option<&Handed>,
) -> Result<Started> {
    let start = AssertUnwindSafe(|| start(runtime, work, invocation, handed));
    std::panic::catch_unwind(start)
        .unwrap_or_else(|_| Err(FsError::new(ErrorKind::Bug, "taking the mount over panicked")))
}

/// Checks all, starts the engine, then the doors, then opens the admin socket.
fn start(
    runtime: &Runtime,
    work: &Work,
    invocation: Invocation,
    handed: Option<&Handed>,
) -> Result<Started> {
    let ends = if handed.is_none() { Some(end_by_signals(runtime)?) } else { None };
    let mounted = handed.map(Handed::mountpoint);
    let mut options = options::resolve(work, mounted.as_deref())?;
    if work.stands_by() {
        runtime.block_on(standby::stand_by(&mut options.engine, options.daemon))?;
    }
    if let Some(handed) = handed {
        fail::fail_point!("daemon::upgrade-executed");
        options.engine.inherited = handed.inherited()?;
    }
    if options.daemon {
        // Its working directory would keep another file system busy.
        std::env::set_current_dir("/").map_err(|e| FsError::local_io("chdir /", e))?;
    }
    let sockets = handed.map(Handed::sockets).transpose()?.unwrap_or_default();
    let _entered = runtime.enter();
    let bound = admin::bind(&options.place, options.admin_listen, sockets);
    let admin = runtime.block_on(bound)?;
    let sockets = admin.sockets()?;
    let engine = Arc::new(runtime.block_on(Engine::mount(options.engine))?);
    if handed.is_some() && failpoints::plays("weir-that-fails") {
        return Err(FsError::new(ErrorKind::Unsupported, "this binary plays one that fails"));
    }
    let wanted = (options.nbd, options.nfs, options.fuse);
    let (block, nfs, mount) = match open_doors(runtime, &engine, wanted, handed, ends) {
        Ok(doors) => doors,
        // As if it were killed: what goes on next needs what programs have open.
        Err(error) if handed.is_some() => return Err(error),
        Err(error) => {
            // Nobody is served, and the last flush may wait for the bucket: again any signal ends it.
            let _ends = end_by_signals(runtime);
            if let Err(ending) = runtime.block_on(engine.shutdown()) {
                tracing::error!("ending after a failed start: {ending}");
            }
            return Err(error);
        }
    };
    let fuse = mount
        .as_ref()
        .map(|mount| Fuse { view: mount.view(), mountpoint: mount.mountpoint().to_owned() });
    let shared = Arc::new(DaemonState {
        engine,
        fuse,
        block,
        nfs,
        token: options.token.map(Arc::new),
        started: Instant::now(),
        invocation,
        sockets,
        upgrading: tokio::sync::Mutex::default(),
        upgraded: handed.map(upgrade::outcome),
        ending: watch::Sender::new(Ending::No),
        shut: watch::Sender::new(mount.is_none()),
        ends: AtomicUsize::new(0),
        hearing: parking_lot::Mutex::default(),
        ended: watch::Sender::new(None),
        again: AtomicBool::new(false),
    });
    let seen = Arc::downgrade(&shared);
    shared.engine.count_metadata_by(move || {
        seen.upgrade().map_or(0, |shared| {
            let by_nfs = shared.nfs.metadata_requests();
            metrics::metadata_ops(&shared.fuse_requests()) + by_nfs
        })
    });
    let listening = signals::listen(&shared);
    runtime.spawn(listening.map_err(|e| FsError::local_io("listen for signals", e))?);
    admin.serve(&shared);
    come_back_when_lost(runtime, work, &shared);
    tracing::info!(place = %options.place.display(), "ready");
    Ok((shared, mount))
}

/// Has the daemon come back where others shut it out, or take the volume.
fn come_back_when_lost(runtime: &Runtime, work: &Work, shared: &Arc<DaemonState>) {
    let (is_shared, daemon) = (shared.engine.is_shared(), Arc::downgrade(shared));
    match shared.fuse.is_some() {
        true if is_shared => drop(runtime.spawn(rejoin::rejoin_loop(daemon))),
        false if is_shared || work.stands_by() => drop(runtime.spawn(standby::again_loop(daemon))),
        _ => {}
    }
}

/// Opens the doors; that of the kernel as it was, where it was handed over. From the first that others may use no
/// signal ends the process any more: [`signals::listen`] takes those that come.
fn open_doors(
    runtime: &Runtime,
    engine: &Arc<Engine>,
    (nbd, nfs, fuse): (NbdOptions, Option<NfsOptions>, Option<FuseOptions>),
    handed: Option<&Handed>,
    ends: Option<JoinHandle<()>>,
) -> Result<(BlockDoor, NfsDoor, Option<FuseMount>)> {
    let block = runtime.block_on(BlockDoor::open(engine, nbd))?;
    let nfs = match runtime.block_on(BoundDoor::new(engine, nfs)) {
        Ok(nfs) => nfs,
        Err(error) => {
            runtime.block_on(block.close());
            return Err(error);
        }
    };
    if let Some(ends) = ends {
        ends.abort();
        // It may be at work just now. How it ended is no matter.
        let _ = runtime.block_on(ends);
    }
    let mount = fuse.map(|fuse| {
        let (engine, runtime) = (engine.clone(), runtime.handle().clone());
        match handed {
            Some(handed) => weir_door_fuse::resume(engine, runtime, fuse, handed.fuse()?),
            None => weir_door_fuse::mount(engine, runtime, fuse),
        }
    });
    match mount.transpose() {
        Ok(mount) => {
            // Only now: what its clients change is told to the mount.
            let nfs = nfs.serve(mount.as_ref().map(FuseMount::view));
            fail::fail_point!("daemon::doors-open");
            Ok((block, nfs, mount))
        }
        Err(error) => {
            runtime.block_on(block.close());
            Err(error)
        }
    }
}

/// Waits for the end, shuts the doors, flushes, and says how that went to all who wait for it.
fn finish(
    runtime: &Runtime,
    shared: &Arc<DaemonState>,
    mount: Option<FuseMount>,
) -> Result<ExitCode> {
    let served = match mount {
        Some(mount) => mount.wait(),
        None => {
            let asked =
                async { shared.ending.subscribe().wait_for(|now| *now > Ending::No).await.is_ok() };
            runtime.block_on(asked);
            Ok(())
        }
    };
    shared.shut.send_replace(true);
    shared.set_ending(Ending::Asked);
    runtime.block_on(shared.nfs.close());
    runtime.block_on(shared.block.let_go(shared.ending.subscribe()));
    tracing::info!("all doors are shut, flushing");
    let telling = supervisor::ending(runtime, shared.clone());
    let flushed = runtime.block_on(shared.engine.shutdown()).map_err(|error| {
        error.within(
            "the last flush failed; the tier keeps what is not in the bucket, start again with it",
        )
    });
    telling.abort();
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
