//! A block device of the kernel, whoever drives it.

use std::fs::{self, DirEntry, File, Metadata, OpenOptions};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;
use rustix::io::Errno;
use weir_types::{ErrorKind, FsError, Result};

/// Where the kernel shows its block devices.
pub(super) const SYS_BLOCK: &str = "/sys/block";
/// What clients write at least. Less would make the disk read a page for each write.
pub(super) const BLOCK_BYTES: u64 = 4096;
/// The largest request: a whole record.
pub(super) const REQUEST_BYTES: u64 = 1 << 20;
/// What is read ahead of whoever reads on and on: some records at once, as each takes a while.
const READ_AHEAD_BYTES: u64 = 4 << 20;

/// The path of a device by its name.
pub(super) fn path(prefix: &str, index: u32) -> PathBuf {
    PathBuf::from(format!("/dev/{prefix}{index}"))
}

/// N of `/dev/PREFIXN`; `None` for everything else, partitions too.
pub(super) fn index(device: &Path, prefix: &str) -> Option<u32> {
    device.strip_prefix("/dev").ok()?.to_str()?.strip_prefix(prefix)?.parse().ok()
}

/// Lets requests be as large as a record, and reads run ahead.
pub(super) fn tune(device: &Path) -> Result<()> {
    let queue = Path::new(SYS_BLOCK).join(device.file_name().unwrap_or_default()).join("queue");
    for (name, bytes) in [("max_sectors_kb", REQUEST_BYTES), ("read_ahead_kb", READ_AHEAD_BYTES)] {
        let path = queue.join(name);
        fs::write(&path, format!("{}\n", bytes >> 10))
            .map_err(|error| FsError::local_io(format!("write {}", path.display()), error))?;
    }
    Ok(())
}

/// Whether the kernel lets nobody write a device.
pub(super) fn read_only(device: &Path) -> bool {
    let ro = Path::new(SYS_BLOCK).join(device.file_name().unwrap_or_default()).join("ro");
    fs::read_to_string(ro).is_ok_and(|said| said.trim() == "1")
}

/// Opens a device alone, so that nobody mounts it meanwhile. `WouldBlock` while it is mounted or
/// somebody has it open.
pub(super) fn open_alone(device: &Path) -> Result<File> {
    let shown = device.display();
    let alone = OFlags::EXCL.bits().cast_signed();
    let opened = OpenOptions::new().read(true).custom_flags(alone).open(device);
    let file = opened.map_err(|error| match Errno::from_io_error(&error) {
        Some(Errno::BUSY) => {
            let text = format!(
                "{shown} is in use: unmount what is on it or below it (`lsblk {shown}` shows that; \
                 a pool of ZFS is exported), then detach it"
            );
            FsError::new(ErrorKind::WouldBlock, text)
        }
        _ => FsError::local_io(format!("open {shown}"), error),
    })?;
    let numbers = numbers(device);
    let such =
        |found: &Metadata| found.file_type().is_block_device() && numbers.contains(&found.rdev());
    if let Some(user) = user_of(Path::new("/proc"), such) {
        let text = format!("{shown} is open in {user}: end that or have it close it, then detach");
        return Err(FsError::new(ErrorKind::WouldBlock, text));
    }
    Ok(file)
}

/// Has the kernel write all that it keeps of a device.
pub(super) fn write_out(device: &Path, opened: &File) -> Result<()> {
    opened.sync_all().map_err(|error| {
        let text =
            format!("write what the kernel keeps of {}; it stays attached", device.display());
        FsError::local_io(text, error)
    })
}

/// The numbers of a device and of its partitions.
fn numbers(device: &Path) -> Vec<u64> {
    let of = |path: &Path| fs::metadata(path).ok().map(|found| found.rdev());
    let sys = Path::new(SYS_BLOCK).join(device.file_name().unwrap_or_default());
    let parts = fs::read_dir(&sys).into_iter().flatten().flatten();
    let parts = parts.filter(|entry| entry.path().join("partition").exists());
    let parts = parts.map(|entry| Path::new("/dev").join(entry.file_name()));
    [device.to_owned()].into_iter().chain(parts).filter_map(|path| of(&path)).collect()
}

/// A process, other than this one, that has such a file open, as far as we may look.
fn user_of(proc: &Path, such: impl Fn(&Metadata) -> bool) -> Option<String> {
    let processes = fs::read_dir(proc).ok()?.flatten();
    let other = |entry: &DirEntry| {
        let number = entry.file_name().to_str()?.parse::<u32>().ok()?;
        (number != std::process::id()).then_some(number)
    };
    for entry in processes {
        let Some(number) = other(&entry) else { continue };
        let files = fs::read_dir(entry.path().join("fd")).into_iter().flatten().flatten();
        // Follows to what is open.
        if files.into_iter().any(|file| fs::metadata(file.path()).is_ok_and(|found| such(&found))) {
            let name = fs::read_to_string(entry.path().join("comm")).unwrap_or_default();
            return Some(format!("process {number} ({})", name.trim_end()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_known_by_their_names() {
        assert_eq!(index(Path::new("/dev/nbd12"), "nbd"), Some(12));
        assert_eq!(path("nbd", 12), Path::new("/dev/nbd12"));
        for other in ["/dev/nbd", "/dev/nbd1p1", "/dev/sda", "nbd1", "/dev/ublkb0", "/tmp/nbd1"] {
            assert_eq!(index(Path::new(other), "nbd"), None, "{other}");
        }
    }

    #[test]
    fn who_has_a_file_open_is_found() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let inode = file.as_file().metadata().unwrap().ino();
        let find = || user_of(Path::new("/proc"), |found| found.is_file() && found.ino() == inode);
        assert_eq!(find(), None, "only this process has it");
        // Reads its input, a pipe, until that is closed.
        let mut cat = std::process::Command::new("cat")
            .stdin(std::process::Stdio::piped())
            .stdout(file.reopen().unwrap())
            .spawn()
            .unwrap();
        let found = find();
        drop(cat.stdin.take());
        cat.wait().unwrap();
        let found = found.unwrap();
        assert!(found.starts_with(&format!("process {} (", cat.id())), "{found}");
        assert_eq!(find(), None);
    }

    #[test]
    fn what_is_no_device_is_no_device() {
        let error = open_alone(Path::new("/dev/nbd-none")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotFound);
        assert!(!read_only(Path::new("/dev/nbd-none")));
        assert!(tune(Path::new("/dev/nbd-none")).is_err());
    }
}
