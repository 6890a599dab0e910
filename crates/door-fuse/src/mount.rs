//! Mounting a volume, and the mount while it lives.

use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::JoinHandle;

use tokio::runtime::Handle;
use weir_engine::{Engine, TreeChange};
use weir_fuse::{Answer, Notifier, Offer, Session, init};
use weir_types::{ErrorCode, ErrorKind, FsError, Result};

use crate::door::{Door, DoorState};
use crate::handover::FuseHandover;
use crate::mountpoint::{check_mountpoint, mounted_on, real_path};
use crate::options::{FuseOptions, Transport};
use crate::table;
use crate::view::FuseView;

/// Largest request in bytes: one record.
const REQUEST_BYTES: u32 = 1 << 20;

/// Read-aheads and asynchronous direct requests in flight before the kernel holds more back.
/// Its own 12 would be too few for a bucket that answers after 50 ms.
const BACKGROUND: u16 = 256;

/// A mounted volume. Dropping it does not unmount it.
#[derive(Debug)]
pub struct FuseMount {
    mountpoint: PathBuf,
    view: FuseView,
    session: JoinHandle<io::Result<()>>,
}

/// Mounts the volume of `engine` and serves it until somebody unmounts it. Requests that must wait
/// run on `runtime`, which must be there until then. Blocking: call it outside of async code.
///
/// A read-only engine follows a writer elsewhere, so its mount is read-only and never exclusive; nor is
/// one of a volume that other nodes write, too.
pub fn mount(engine: Arc<Engine>, runtime: Handle, mut options: FuseOptions) -> Result<FuseMount> {
    check_mountpoint(&options.mountpoint)?;
    options = as_the_engine(&engine, options);
    let mount_options = options.mount_options()?;
    let threads = options.threads.max(1);
    let asked = options.mountpoint.clone();
    let source = options.fs_name.clone();
    let read_ahead_kib = options.read_ahead_kib;
    // Who may do what was said in lists: to look at the bits only would give some too much. While
    // others write, the first list may come at any time.
    let must_obey = options.acl || runtime.block_on(engine.has_acls())?;
    let acl = must_obey || engine.read_only() || engine.is_shared();
    if acl {
        engine.obey_acls();
    }
    let door = Door::new(engine, runtime, options, acl);
    let shared = door.shared.clone();
    let device = weir_fuse::mount(&asked, &mount_options).map_err(|e| refused(&asked, e))?;
    let mut obeys = true;
    let chosen = |offer: Offer| {
        obeys = !must_obey || offer.flags & init::POSIX_ACL != 0;
        configure(offer, &shared)
    };
    let session = Session::begin(device, chosen).map_err(|error| {
        leave(&asked);
        refused(&asked, error)
    })?;
    if !obeys {
        leave(&asked);
        let text = "the volume has access control lists, and this kernel's FUSE does not obey any: it \
                    needs Linux 4.9";
        return Err(FsError::new(ErrorKind::Unsupported, text));
    }
    let thread = start(door, session, threads).inspect_err(|_| leave(&asked))?;
    let mountpoint = std::fs::canonicalize(&asked).or_else(|_| real_path(&asked))?;
    raise_read_ahead(&mountpoint, read_ahead_kib);
    note_mounted(&shared, &mountpoint);
    table::note(&source, &mountpoint);
    Ok(FuseMount { mountpoint, view: FuseView(shared), session: thread })
}

/// Goes on with a mount that another daemon of this process served, by the descriptor that the kernel
/// gave it: nothing is asked of the kernel, and what programs hold is as it was. `options` are those
/// of that mount. Blocking, as [`mount()`] is. On an error the kernel still has the mount.
pub fn resume(
    engine: Arc<Engine>,
    runtime: Handle,
    mut options: FuseOptions,
    (device, state): (OwnedFd, FuseHandover),
) -> Result<FuseMount> {
    options = as_the_engine(&engine, options);
    let acl = state.obeys_acls();
    if acl {
        engine.obey_acls();
    }
    let (threads, mountpoint) = (options.threads.max(1), options.mountpoint.clone());
    let door = Door::new(engine, runtime.clone(), options, acl);
    let shared = door.shared.clone();
    let session = Session::resume(device, state.agreed());
    let untold = state.untold().to_vec();
    if let Err(error) = runtime.block_on(shared.take_over(state, &session.registrar())) {
        // The channel first: the kernel is not to forget files that programs have open.
        drop(session);
        return Err(error);
    }
    note_mounted(&shared, &mountpoint);
    let session = start(door, session, threads)?;
    let telling = shared.clone();
    drop(runtime.spawn_blocking(move || tell_of_before(&telling, &untold)));
    drop(runtime.spawn(shared.clone().drop_pages_from_before()));
    Ok(FuseMount { mountpoint, view: FuseView(shared), session })
}

/// What the engine's mount of the volume means for this one.
fn as_the_engine(engine: &Engine, mut options: FuseOptions) -> FuseOptions {
    options.read_only |= engine.read_only();
    match () {
        () if engine.is_shared() => options.among_nodes(),
        () if engine.read_only() && options.knows_all() => {
            FuseOptions { beside: false, ..options.shared() }
        }
        () => options,
    }
}

/// Notes which file system it is, to find where else it is mounted. The kernel's table says so, which
/// asks nothing of the mount.
fn note_mounted(door: &DoorState, mountpoint: &Path) {
    match mounted_on(mountpoint) {
        // Once for each mount.
        Ok(Some(mounted)) => drop(door.mounted.set(mounted)),
        Ok(None) => {}
        Err(error) => tracing::debug!(%error, "where else it is mounted will not be known"),
    }
}

/// Starts to serve what the kernel asks.
fn start(door: Door, session: Session, threads: usize) -> Result<JoinHandle<io::Result<()>>> {
    let shared = door.shared.clone();
    let notifier = session.notifier();
    tell_transport(&shared, session.transport());
    // Set here for the first time, and nowhere else.
    let _ = shared.notifier.set(notifier.clone());
    let _ = shared.control.set(session.control());
    let changed = Arc::downgrade(&shared);
    shared.engine.watch_tree(move |change| {
        if let Some(shared) = changed.upgrade() {
            tree_changed(&shared, &notifier, change);
        }
    });
    let thread = std::thread::Builder::new().name("weir-fuse".to_owned());
    let serve = move || session.serve(Arc::new(door), threads);
    thread
        .spawn(serve)
        .map_err(|error| FsError::local_io("start the threads that serve the mount", error))
}

fn tree_changed(door: &DoorState, notifier: &Notifier, change: &TreeChange) {
    if let TreeChange::Entries(dir) = change {
        door.listings.changed(*dir);
    }
    door.fresh.changed();
    let _open = door.gate.read();
    tell_kernel(door, notifier, change);
}

/// Tells the kernel of what the daemon before this one may not have come to. Of a name that changed in
/// the last moment nobody knows: all are asked for again, where the kernel can do that.
fn tell_of_before(door: &DoorState, untold: &[TreeChange]) {
    let Some(notifier) = door.notifier.get() else { return };
    if let Err(error) = notifier.inc_epoch() {
        tracing::debug!(%error, "the kernel keeps all names that it knows");
    }
    let here = door.engine.untold_changes();
    untold.iter().chain(&here).for_each(|change| tree_changed(door, notifier, change));
}

/// Notes how requests come, and says so where it is not as somebody wished.
fn tell_transport(door: &Arc<DoorState>, transport: weir_fuse::Transport) {
    let _ = door.transport.set(transport);
    let state = FuseView(door.clone()).transport();
    if let (Transport::Uring, Some(why)) = (door.options.transport, state.without_rings) {
        tracing::warn!("requests come from /dev/fuse, not over io_uring: {why}");
    }
}

/// Takes a mount away that nobody will serve.
fn leave(mountpoint: &Path) {
    if let Err(error) = crate::unmount(mountpoint, true) {
        tracing::warn!(%error, "unmounting after a failed start failed too");
    }
}

/// Has the kernel ask again for what it remembers of a part of the tree. It may wait for requests.
fn tell_kernel(door: &DoorState, notifier: &Notifier, change: &TreeChange) {
    let (ino, offset) = match change {
        TreeChange::Entries(ino) | TreeChange::Bytes(ino) => (*ino, 0),
        // A negative offset: the attributes only.
        TreeChange::File(ino, from) => {
            let from = from.and_then(|from| i64::try_from(from).ok());
            (*ino, from.unwrap_or(-1))
        }
        TreeChange::Name(dir, name) => {
            return was_told(change, notifier.expire_entry(dir.0, name));
        }
    };
    for known in door.passthrough.known(ino) {
        was_told(change, notifier.inval_inode(known.0, offset, 0));
    }
}

fn was_told(change: &TreeChange, told: io::Result<()>) {
    match told {
        // It remembers nothing of it.
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => tracing::debug!(?change, %error, "the kernel did not take a change"),
        Ok(()) => {}
    }
}

fn refused(mountpoint: &Path, error: io::Error) -> FsError {
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => ErrorKind::Permission,
        io::ErrorKind::InvalidInput => ErrorKind::Invalid,
        _ => ErrorKind::Unsupported,
    };
    let text = format!(
        "mount on {}: the kernel or fusermount3 refused: {error}. Mounting needs root, a container \
         with `--device /dev/fuse --cap-add SYS_ADMIN`, or fusermount3 (package fuse3)",
        mountpoint.display()
    );
    FsError::new(kind, text).coded(ErrorCode::NoFuse).with_source(error)
}

impl FuseMount {
    /// Where it is mounted.
    pub fn mountpoint(&self) -> &Path {
        &self.mountpoint
    }

    /// What the mount counts.
    pub fn view(&self) -> FuseView {
        self.view.clone()
    }

    /// Waits until the volume is unmounted, by whomever. Blocking. The engine may be shut down
    /// after it.
    pub fn wait(self) -> Result<()> {
        let text = || format!("serving the mount on {}", self.mountpoint.display());
        let served = self.session.join();
        table::forget(&self.mountpoint);
        match served {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(FsError::local_io(text(), error)),
            Err(_) => Err(FsError::new(ErrorKind::Bug, text() + ": a thread panicked")),
        }
    }

    /// Unmounts; see [`crate::unmount`].
    pub fn unmount(&self, lazy: bool) -> Result<()> {
        crate::unmount(&self.mountpoint, lazy)
    }
}

/// What the door asks of the kernel. What an older kernel lacks is left out.
///
/// The umask is the kernel's to apply, but for ACLs: what inherits one has no umask. Writes are not
/// held back in the kernel (no `FUSE_WRITEBACK_CACHE`).
fn configure(offer: Offer, door: &DoorState) -> Answer {
    let mut flags = init::ASYNC_READ
        | init::ATOMIC_O_TRUNC
        | init::EXPORT_SUPPORT
        // Always: what lists a directory mostly looks at each entry next, or removes it, and the
        // kernel's guess (`FUSE_READDIRPLUS_AUTO`) comes after the whole listing.
        | init::DO_READDIRPLUS
        | init::ASYNC_DIO
        | init::PARALLEL_DIROPS
        // A symlink's target never changes, and its number is never used again.
        | init::CACHE_SYMLINKS
        | init::HANDLE_KILLPRIV_V2
        | init::DIRECT_IO_ALLOW_MMAP;
    flags |= match door.options.knows_all() {
        // Our own writes change mtime; without this the kernel would drop its pages for it.
        true => init::EXPLICIT_INVAL_DATA,
        false => init::AUTO_INVAL_DATA,
    };
    if !door.options.exclusive {
        flags |= init::POSIX_LOCKS | init::FLOCK_LOCKS;
    }
    if door.acl {
        flags |= init::POSIX_ACL | init::DONT_MASK;
    }
    if door.options.transport == Transport::Uring && door.options.exclusive {
        flags |= init::OVER_IO_URING;
    }
    let mut answer = Answer {
        flags,
        readahead_bytes: REQUEST_BYTES,
        write_bytes: REQUEST_BYTES,
        background: BACKGROUND,
        stack_depth: 0,
    };
    door.passthrough.configure(offer, &mut answer);
    answer
}

/// Raises how far the kernel reads ahead, which it lets only root do, and only once mounted.
fn raise_read_ahead(mountpoint: &Path, kib: u32) {
    let raised = mounted_on(mountpoint).and_then(|mount| {
        let Some(mount) = mount else { return Ok(()) };
        let path = format!("/sys/class/bdi/{}/read_ahead_kb", mount.device);
        std::fs::write(&path, kib.to_string()).map_err(|error| FsError::local_io(path, error))
    });
    if let Err(error) = raised {
        tracing::info!(
            "read-ahead stays at the kernel's default, sequential reads suffer: {error}"
        );
    }
}
