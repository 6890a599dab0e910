//! Unmounting, and who is in the way of it.

use std::fs;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use rustix::io::Errno;
use rustix::mount::UnmountFlags;
use weir_types::{ErrorCode, ErrorKind, FsError, Result};

use crate::mountpoint::{FS_TYPE, mounted, mounted_on, real_path};

/// How many of those in the way are named.
const NAMED_MAX: usize = 5;

/// Unmounts the volume on `mountpoint`. A busy one is an error of kind `Retry` that names who
/// holds it; with `lazy` it goes out of the tree at once and ends when the last holder does.
pub fn unmount(mountpoint: &Path, lazy: bool) -> Result<()> {
    let path = real_path(mountpoint)?;
    let shown = path.display();
    if mounted_on(&path)?.is_none_or(|mount| mount.fs_type != FS_TYPE) {
        let text = format!("{shown}: no Weir volume is mounted here: see `findmnt -t {FS_TYPE}`");
        return Err(FsError::new(ErrorKind::NotFound, text));
    }
    let how = if lazy { UnmountFlags::DETACH } else { UnmountFlags::empty() };
    match rustix::mount::unmount(&path, how | UnmountFlags::NOFOLLOW) {
        Ok(()) => Ok(()),
        Err(Errno::BUSY) => Err(busy(&path)),
        // Those who are not root unmount through the helper that mounted for them.
        Err(Errno::PERM) => unmount_with_helper(&path, lazy),
        Err(error) => Err(FsError::local_io(format!("unmount {shown}"), io::Error::from(error))),
    }
}

fn unmount_with_helper(path: &Path, lazy: bool) -> Result<()> {
    let how = if lazy { "-uz" } else { "-u" };
    let run =
        Command::new("fusermount3").arg(how).arg("--").arg(path).stdin(Stdio::null()).output();
    let output = run.map_err(|error| FsError::local_io("run fusermount3 to unmount", error))?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    if said.contains("busy") {
        return Err(busy(path));
    }
    let text = format!("unmount {}: fusermount3 says: {}", path.display(), said.trim());
    Err(FsError::new(ErrorKind::Permission, text))
}

fn busy(path: &Path) -> FsError {
    let mut holders = mounts_below(path);
    holders.extend(processes_in(path));
    let who = match holders.len() {
        0 => "by something that cannot be seen from here".to_owned(),
        1..=NAMED_MAX => format!("by {}", holders.join(", ")),
        more => {
            holders.truncate(NAMED_MAX);
            format!("by {} and {} more", holders.join(", "), more - NAMED_MAX)
        }
    };
    let text = format!(
        "unmount {}: it is in use {who}: end that and unmount again, or unmount lazily",
        path.display()
    );
    FsError::new(ErrorKind::Retry, text).coded(ErrorCode::MountBusy)
}

fn mounts_below(path: &Path) -> Vec<String> {
    let mounts = mounted().unwrap_or_default().into_iter();
    let below =
        mounts.filter(|mount| mount.mountpoint != path && mount.mountpoint.starts_with(path));
    below.map(|mount| format!("a mount on {}", mount.mountpoint.display())).collect()
}

/// Processes with a working directory, root, program or open file below `path`, as far as this
/// user may see. Reads links only, which asks the mount itself nothing.
fn processes_in(path: &Path) -> Vec<String> {
    let Ok(proc) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let names = proc.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    let pids = names.filter(|name| name.bytes().all(|byte| byte.is_ascii_digit()));
    let holding = pids.filter(|pid| holds(&Path::new("/proc").join(pid), path));
    let named = holding.map(|pid| {
        let name = fs::read_to_string(format!("/proc/{pid}/comm")).unwrap_or_default();
        format!("process {pid} ({})", name.trim())
    });
    named.collect()
}

fn holds(process: &Path, path: &Path) -> bool {
    let leads_below = |link: &Path| fs::read_link(link).is_ok_and(|to| to.starts_with(path));
    if ["cwd", "root", "exe"].iter().any(|link| leads_below(&process.join(link))) {
        return true;
    }
    let files = fs::read_dir(process.join("fd"));
    files.is_ok_and(|files| files.flatten().any(|file| leads_below(&file.path())))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_ours_is_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let error = unmount(dir.path(), false).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert_eq!(unmount(Path::new("/"), false).unwrap_err().kind(), ErrorKind::NotFound);
    }

    #[test]
    fn whoever_has_a_file_open_is_named() {
        let dir = tempfile::tempdir().unwrap();
        let here = format!("process {} ", std::process::id());
        let named = || processes_in(dir.path()).iter().any(|who| who.starts_with(&here));
        assert!(!named());
        let file = fs::File::create(dir.path().join("f")).unwrap();
        assert!(named());
        drop(file);
        assert!(!named());
    }
}
