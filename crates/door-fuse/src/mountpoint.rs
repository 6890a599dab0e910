//! The directory that a volume is mounted on, and what the kernel has mounted where.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use weir_types::{ErrorCode, ErrorKind, FsError, Result};

const DEV_FUSE: &str = "/dev/fuse";

/// The file system type of our mounts.
pub(crate) const FS_TYPE: &str = "fuse.weir";

/// One line of /proc/self/mountinfo.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mounted {
    /// `major:minor` of its device number.
    pub(crate) device: String,
    pub(crate) mountpoint: PathBuf,
    /// Those of the mount itself, by commas.
    options: String,
    pub(crate) fs_type: String,
}

impl Mounted {
    /// Whether it has this option.
    pub(crate) fn has(&self, option: &str) -> bool {
        self.options.split(',').any(|has| has == option)
    }
}

/// All that is mounted, in the order of mounting.
pub(crate) fn mounted() -> Result<Vec<Mounted>> {
    let path = Path::new("/proc/self/mountinfo");
    mounted_in(path).map_err(|e| FsError::local_io(format!("read {}", path.display()), e))
}

/// All that a file of this kind tells of.
pub(crate) fn mounted_in(mountinfo: &Path) -> io::Result<Vec<Mounted>> {
    let text = fs::read(mountinfo)?;
    Ok(text.split(|byte| *byte == b'\n').filter_map(parse_line).collect())
}

/// Where other file systems are mounted below a directory.
///
/// # Errors
/// Those of reading `/proc/self/mountinfo`.
pub fn mounts_below(path: &Path) -> Result<Vec<PathBuf>> {
    let places = mounted()?.into_iter().map(|mount| mount.mountpoint);
    Ok(places.filter(|place| place.starts_with(path) && place != path).collect())
}

/// What is mounted on `path` itself, on top of all else there.
pub(crate) fn mounted_on(path: &Path) -> Result<Option<Mounted>> {
    Ok(mounted()?.into_iter().rfind(|mount| mount.mountpoint == path))
}

fn parse_line(line: &[u8]) -> Option<Mounted> {
    let mut words = line.split(|byte| *byte == b' ');
    let device = String::from_utf8(words.nth(2)?.to_vec()).ok()?;
    let mountpoint = PathBuf::from(OsString::from_vec(unescape(words.nth(1)?)));
    let options = String::from_utf8(words.next()?.to_vec()).ok()?;
    // Optional words stand between the options and the dash.
    words.find(|word| *word == b"-")?;
    let fs_type = String::from_utf8(words.next()?.to_vec()).ok()?;
    Some(Mounted { device, mountpoint, options, fs_type })
}

/// Undoes the kernel's `\040` for a blank and the like.
fn unescape(word: &[u8]) -> Vec<u8> {
    let mut plain = Vec::with_capacity(word.len());
    let mut rest = word;
    while let [first, tail @ ..] = rest {
        let octal = |byte: &u8| byte.checked_sub(b'0').filter(|digit| *digit < 8).map(u32::from);
        match tail {
            [a, b, c, after @ ..] if *first == b'\\' => {
                if let (Some(a), Some(b), Some(c)) = (octal(a), octal(b), octal(c)) {
                    plain.push((a << 6 | b << 3 | c) as u8);
                    rest = after;
                    continue;
                }
                plain.push(*first);
            }
            _ => plain.push(*first),
        }
        rest = tail;
    }
    plain
}

/// The path as the kernel names it, without touching what is mounted there: the daemon behind a
/// mount may be gone or hang.
pub(crate) fn real_path(path: &Path) -> Result<PathBuf> {
    let failed = |error| FsError::local_io(format!("{}", path.display()), error);
    let absolute = std::path::absolute(path).map_err(failed)?;
    match (absolute.parent(), absolute.file_name()) {
        (Some(parent), Some(name)) => Ok(fs::canonicalize(parent).map_err(failed)?.join(name)),
        _ => fs::canonicalize(&absolute).map_err(failed),
    }
}

/// The mounts of ours on this machine, in the order of mounting.
pub fn our_mounts() -> Result<Vec<PathBuf>> {
    let ours = mounted()?.into_iter().filter(|mount| mount.fs_type == FS_TYPE);
    Ok(ours.map(|mount| mount.mountpoint).collect())
}

/// The error that tells of the mount in which `path` lies, if that is one of ours whose daemon is
/// dead. Where the daemon lives this waits for its answer.
pub fn dead_mount(path: &Path) -> Option<FsError> {
    let path = std::path::absolute(path).ok()?;
    let path = fs::canonicalize(&path).or_else(|_| real_path(&path)).unwrap_or(path);
    let mounts = our_mounts().ok()?;
    let mountpoint =
        mounts.into_iter().filter(|m| path.starts_with(m)).max_by_key(|m| m.as_os_str().len())?;
    is_dead(&mountpoint).then(|| dead(&mountpoint))
}

/// Whether the daemon of this mount is gone. Unlike `stat`, the kernel never answers this from
/// memory.
fn is_dead(mountpoint: &Path) -> bool {
    rustix::fs::statvfs(mountpoint).is_err_and(|error| error == rustix::io::Errno::NOTCONN)
}

fn dead(mountpoint: &Path) -> FsError {
    let shown = mountpoint.display();
    let text = format!(
        "the daemon of {shown} is dead (kill -9 or crash): `weir umount {shown}`, then mount again"
    );
    FsError::new(ErrorKind::Exists, text).coded(ErrorCode::MountDead)
}

/// Whether a volume can be mounted on `path`: it exists, is an empty directory, carries no mount
/// of ours, alive or dead, and the kernel's FUSE is there. The error says what to do.
pub fn check_mountpoint(path: &Path) -> Result<()> {
    let shown = path.display();
    let real = real_path(path)?;
    // The kernel follows a symlink; the mount is where it leads.
    let real = match fs::symlink_metadata(&real) {
        Ok(found) if found.is_symlink() => fs::canonicalize(&real).unwrap_or(real),
        _ => real,
    };
    if mounted_on(&real)?.is_some_and(|mount| mount.fs_type == FS_TYPE) {
        if is_dead(&real) {
            return Err(dead(&real));
        }
        let text = format!("{shown}: a Weir volume is mounted here already: unmount it first");
        return Err(FsError::new(ErrorKind::Exists, text).coded(ErrorCode::Mountpoint));
    }
    let metadata = fs::metadata(&real).map_err(|error| unusable(path, error))?;
    if !metadata.is_dir() {
        let text = format!("{shown}: not a directory: choose one, or make it with mkdir");
        return Err(FsError::new(ErrorKind::NotDirectory, text).coded(ErrorCode::Mountpoint));
    }
    let mut entries = fs::read_dir(&real).map_err(|error| unusable(path, error))?;
    if entries.next().is_some() {
        let text = format!(
            "{shown}: not empty: the mount would hide what is in it; choose an empty directory"
        );
        return Err(FsError::new(ErrorKind::NotEmpty, text).coded(ErrorCode::Mountpoint));
    }
    check_device(Path::new(DEV_FUSE))
}

fn unusable(path: &Path, error: io::Error) -> FsError {
    let shown = path.display();
    if error.raw_os_error() == Some(libc::ENOTCONN) {
        let text = format!(
            "{shown}: a mount of another program whose daemon is gone (\"transport endpoint is not \
             connected\"): clean up with `umount -l {shown}` or `fusermount3 -uz {shown}`"
        );
        return FsError::new(ErrorKind::Exists, text);
    }
    match error.kind() {
        io::ErrorKind::NotFound => {
            let text = format!("{shown}: no such directory: make it with `mkdir -p {shown}`");
            FsError::new(ErrorKind::NotFound, text).coded(ErrorCode::Mountpoint)
        }
        _ => FsError::local_io(shown, error),
    }
}

/// Whether the kernel's FUSE device can be opened.
fn check_device(device: &Path) -> Result<()> {
    let Err(error) = fs::OpenOptions::new().read(true).write(true).open(device) else {
        return Ok(());
    };
    let shown = device.display();
    let advice = match error.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            "load the module with `modprobe fuse`; in a container, start it with \
             `--device /dev/fuse --cap-add SYS_ADMIN`"
        }
        Some(libc::EACCES | libc::EPERM) => {
            "run as root or as a user who may open it; in a container, start it with \
             `--device /dev/fuse --cap-add SYS_ADMIN`"
        }
        _ => "see the kernel's log",
    };
    let kind = match error.kind() {
        io::ErrorKind::PermissionDenied => ErrorKind::Permission,
        _ => ErrorKind::Unsupported,
    };
    let text = format!("{shown}: FUSE is not usable here ({error}): {advice}");
    Err(FsError::new(kind, text).coded(ErrorCode::NoFuse).with_source(error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mountinfo_lines_are_understood() {
        let line = b"36 35 0:53 / /mnt/my\\040data\\134x rw,noatime shared:1 master:2 - fuse.weir \
                     s3://b/v rw,user_id=0";
        let wanted = Mounted {
            device: "0:53".to_owned(),
            mountpoint: PathBuf::from("/mnt/my data\\x"),
            options: "rw,noatime".to_owned(),
            fs_type: "fuse.weir".to_owned(),
        };
        assert!(wanted.has("noatime") && !wanted.has("atime") && !wanted.has("ro"));
        assert_eq!(parse_line(line), Some(wanted));
        let plain = b"1 0 8:1 / / rw - ext4 /dev/sda1 rw";
        assert_eq!(parse_line(plain).unwrap().fs_type, "ext4");
        assert_eq!(parse_line(b""), None);
        assert_eq!(parse_line(b"1 0 8:1 / /"), None);
        assert_eq!(unescape(b"a\\9b\\"), b"a\\9b\\");
    }

    #[test]
    fn this_machine_has_a_root() {
        assert!(mounted().unwrap().iter().any(|mount| mount.mountpoint == Path::new("/")));
    }

    #[test]
    fn what_is_no_empty_directory_is_refused_with_advice() {
        let dir = tempfile::tempdir().unwrap();
        let missing = check_mountpoint(&dir.path().join("missing")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        assert!(missing.to_string().contains("mkdir -p"), "{missing}");

        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        assert_eq!(check_mountpoint(&file).unwrap_err().kind(), ErrorKind::NotDirectory);

        let full = check_mountpoint(dir.path()).unwrap_err();
        assert_eq!(full.kind(), ErrorKind::NotEmpty);
    }

    #[test]
    fn a_dead_mount_is_told_how_to_go() {
        let error = unusable(Path::new("/mnt/w"), io::Error::from_raw_os_error(libc::ENOTCONN));
        assert!(error.to_string().contains("umount -l /mnt/w"), "{error}");
    }

    #[test]
    fn a_missing_device_is_told_how_to_come() {
        let dir = tempfile::tempdir().unwrap();
        let error = check_device(&dir.path().join("fuse")).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains("--device /dev/fuse"), "{error}");
    }
}
