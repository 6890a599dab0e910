//! Binds of directories, as often as they are asked for.

use std::fs::{self, File};
use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount_bind, mount_remount, unmount};

use crate::fault::{Fault, Result, Tried};
use crate::table::Table;

/// Opens a directory below another. No link is followed, for those who write the directories may be
/// others than those who asked.
pub(crate) fn open_below(root: &Path, directory: &str) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = openat2(CWD, root, flags, Mode::empty(), ResolveFlags::empty())?;
    let relative = directory.trim_matches('/');
    if relative.is_empty() {
        return Ok(root);
    }
    let inside = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    openat2(&root, relative, flags, Mode::empty(), inside)
}

/// A path to what is open.
pub(crate) fn path_of(fd: &impl AsRawFd) -> PathBuf {
    format!("/proc/self/fd/{}", fd.as_raw_fd()).into()
}

/// Shows an open directory at a path, which is made. Doing it twice is doing it once.
pub(crate) fn bind(from: &OwnedFd, at: &Path, flags: MountFlags) -> Result<()> {
    make_directory(at)?;
    let table = Table::read()?;
    let wanted = identity(from)?;
    match table.at(at) {
        None => {
            mount_bind(path_of(from), at).tried(|| format!("bind to {}", at.display()))?;
        }
        Some(_) if !alive(at) => {
            detach(at)?;
            mount_bind(path_of(from), at).tried(|| format!("bind to {}", at.display()))?;
        }
        Some(there) => {
            let open = File::open(at).tried(|| format!("open {}", at.display()))?;
            let same = identity(&open)? == wanted;
            if !same || (there.read_only && !flags.contains(MountFlags::RDONLY)) {
                let text = format!("{} has another mount: unpublish that first", at.display());
                return Err(Fault::exists(text));
            }
        }
    }
    if flags.is_empty() {
        return Ok(());
    }
    // What is bound is bound with the flags of what it is of; only a second call sets others.
    mount_remount(at, MountFlags::BIND | flags, "").map_err(|e| {
        let _ = detach(at);
        Fault::internal(format!("set the options of {}: {e}", at.display()))
    })
}

/// What a directory is, wherever it is mounted.
fn identity(fd: &impl std::os::fd::AsFd) -> Result<(u64, u64)> {
    let stat = rustix::fs::fstat(fd).tried(|| "look at what is to be bound".to_owned())?;
    Ok((stat.st_dev, stat.st_ino))
}

/// Makes a mount point, in what is there; one that is there already is as good, dead or not.
pub(crate) fn make_directory(at: &Path) -> Result<()> {
    match fs::create_dir(at) {
        Ok(()) => Ok(()),
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        Err(e) => Err(Fault::internal(format!("make {}: {e}", at.display()))),
    }
}

/// Whether somebody serves what is mounted here.
pub(crate) fn alive(at: &Path) -> bool {
    !matches!(rustix::fs::statvfs(at), Err(Errno::NOTCONN | Errno::CONNABORTED | Errno::IO))
}

/// Takes away all that is mounted at a path.
pub(crate) fn unbind(at: &Path) -> Result<()> {
    while Table::read()?.at(at).is_some() {
        let flags = if alive(at) { UnmountFlags::NOFOLLOW } else { UnmountFlags::DETACH };
        match unmount(at, flags) {
            Ok(()) => {}
            Err(Errno::BUSY) => {
                let text = format!("{} is in use: end what uses it first", at.display());
                return Err(Fault::refused(text));
            }
            Err(e) => return Err(Fault::internal(format!("unmount {}: {e}", at.display()))),
        }
    }
    Ok(())
}

/// Takes a dead mount out of the tree, whoever uses it.
pub(crate) fn detach(at: &Path) -> Result<()> {
    unmount(at, UnmountFlags::DETACH | UnmountFlags::NOFOLLOW)
        .tried(|| format!("take the dead mount {} away", at.display()))
}

/// Removes an empty directory, which may be gone.
pub(crate) fn remove_directory(at: &Path) -> Result<()> {
    match fs::remove_dir(at) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => {
            Err(Fault::internal(format!("remove {}: {e}", at.display())))
        }
        _ => Ok(()),
    }
}
