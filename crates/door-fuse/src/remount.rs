//! Other options for a mount that lives on: `mount -o remount,ro`.

use std::io;
use std::path::Path;

use rustix::mount::MountFlags;
use weir_types::{ErrorKind, FsError, Result};

use crate::mountpoint::{FS_TYPE, mounted_on, real_path};

/// Flags that a mount has and may lose.
const KNOWN: MountFlags = MountFlags::RDONLY
    .union(MountFlags::NODEV)
    .union(MountFlags::NOSUID)
    .union(MountFlags::NOEXEC)
    .union(MountFlags::NOATIME)
    .union(MountFlags::SYNCHRONOUS);

/// The flags after the words of `-o`. Those that are Weir's or FUSE's own stay.
fn flags<'a>(before: MountFlags, words: impl Iterator<Item = &'a str>) -> MountFlags {
    words.fold(before, |flags, word| {
        let (flag, on) = match word {
            "ro" | "read-only" => (MountFlags::RDONLY, true),
            "rw" => (MountFlags::RDONLY, false),
            "nodev" => (MountFlags::NODEV, true),
            "dev" => (MountFlags::NODEV, false),
            "nosuid" => (MountFlags::NOSUID, true),
            "suid" => (MountFlags::NOSUID, false),
            "noexec" => (MountFlags::NOEXEC, true),
            "exec" => (MountFlags::NOEXEC, false),
            "noatime" => (MountFlags::NOATIME, true),
            "atime" | "relatime" => (MountFlags::NOATIME, false),
            "sync" => (MountFlags::SYNCHRONOUS, true),
            "async" => (MountFlags::SYNCHRONOUS, false),
            "dirsync" => (MountFlags::DIRSYNC, true),
            _ => return flags,
        };
        if on { flags | flag } else { flags - flag }
    })
}

/// Changes the kernel's options of a mount: `ro`, `rw`, `nodev`, `nosuid`, `noexec`, `noatime` (where it
/// was mounted with `relatime`), `sync`, `dirsync` and their opposites; those that are not named stay, but for `dirsync`. Later words
/// go before earlier ones. Read-only is refused (`Retry`) while files are open for writing.
pub fn remount(mountpoint: &Path, options: &[String]) -> Result<()> {
    let path = real_path(mountpoint)?;
    let shown = path.display();
    if mounted_on(&path)?.is_none_or(|mount| mount.fs_type != FS_TYPE) {
        let text = format!("{shown}: no Weir volume is mounted here: see `findmnt -t {FS_TYPE}`");
        return Err(FsError::new(ErrorKind::NotFound, text));
    }
    let at = |error| FsError::local_io(format!("look at {shown}"), io::Error::from(error));
    let has = rustix::fs::statvfs(&path).map_err(at)?.f_flag.bits();
    // The numbers of statvfs's flags are those of mount's.
    let before = MountFlags::from_bits_truncate(has as u32) & KNOWN;
    let flags = flags(before, options.iter().flat_map(|list| list.split(',')));
    rustix::mount::mount_remount(&path, flags, "").map_err(|error| match error {
        rustix::io::Errno::BUSY => {
            let text = format!("{shown}: files are open for writing: see `fuser -vm {shown}`");
            FsError::new(ErrorKind::Retry, text)
        }
        _ => FsError::local_io(format!("remount {shown}"), io::Error::from(error)),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_word_counts() {
        let of = |list: &str| flags(MountFlags::NODEV, list.split(',')) - MountFlags::NODEV;
        assert_eq!(
            flags(MountFlags::NOSUID, ["ro"].into_iter()),
            MountFlags::NOSUID | MountFlags::RDONLY
        );
        assert_eq!(of("rw,nosuid,user_id=0,remount,ro"), MountFlags::NOSUID | MountFlags::RDONLY);
        assert_eq!(of("ro,noexec,rw,exec"), MountFlags::empty());
    }
}
