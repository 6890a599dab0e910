//! Files that are this user's alone: a tier, a journal and the objects of a volume have
//! everybody's bytes, and owner and mode of a file in the volume guard them only there.

use std::fs::{self, DirBuilder, File, OpenOptions};
use std::io::{self, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::{CWD, Dir, FileType, Mode, OFlags, fchmod, fstat, openat};
use rustix::io::Errno;
use rustix::path::Arg;
use weir_types::{ErrorCode, ErrorKind, FsError, Result};

const DIRECTORY_MODE: u32 = 0o700;
const FILE_MODE: u32 = 0o600;
/// What group and others may.
const OTHERS: u32 = 0o077;

/// Makes a directory, and those above it that are missing, for this user alone. One that others may
/// enter is corrected with all below it, and that is logged; one of another user is refused.
///
/// # Errors
/// `Permission` for a directory of another user; else as making directories fails.
pub fn make_directory(directory: &Path) -> Result<()> {
    let at = |e| FsError::local_io(format!("make {}", directory.display()), e);
    make_directories(directory).map_err(at)?;
    let mine = rustix::process::geteuid().as_raw();
    // A link of somebody else's could lead to any directory of ours.
    for found in [fs::symlink_metadata(directory), fs::metadata(directory)] {
        let owner = found.map_err(at)?.uid();
        if owner != mine {
            let text = format!(
                "{} belongs to user {owner}, not to {mine}, and what will be in it is private: \
                 give it to user {mine} (chown -R), or name another directory",
                directory.display()
            );
            return Err(FsError::new(ErrorKind::Permission, text).coded(ErrorCode::TierOwner));
        }
    }
    tighten(directory).map_err(at)
}

/// Makes a directory, and those above it that are missing, for this user alone; one that is there
/// stays as it is.
pub fn make_directories(directory: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(DIRECTORY_MODE).create(directory)
}

/// How a file is opened that is made for this user alone if it is not there.
pub fn options() -> OpenOptions {
    let mut options = OpenOptions::new();
    options.create(true).mode(FILE_MODE);
    options
}

/// Writes a file for this user alone, in the place of what is there, and syncs it.
pub fn write(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file: File = options().write(true).truncate(true).open(path)?;
    file.write_all(bytes)?;
    file.sync_all()
}

/// Takes what group and others may from a file or a directory and all below it, if they may
/// anything, and says so in the log. Follows no symbolic link, whoever puts one there meanwhile, and
/// leaves what is not there.
pub fn tighten(path: &Path) -> io::Result<()> {
    let Some(found) = open_there(CWD, path)? else { return Ok(()) };
    if !tighten_one(&found)? {
        return Ok(());
    }
    tracing::warn!(
        path = %path.display(),
        "other users of this machine could read this: corrected, it is this user's alone now"
    );
    tighten_below(&found)
}

/// A file or directory; `None` for a link, a socket, or what is gone.
fn open_there(directory: impl AsFd, name: impl Arg) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    match openat(directory, name, flags, Mode::empty()) {
        Ok(found) => Ok(Some(found)),
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => Ok(None),
        Err(error) => Err(error.into()),
    }
}

/// Whether there was something to take.
fn tighten_one(found: &OwnedFd) -> io::Result<bool> {
    let mode = fstat(found)?.st_mode & 0o7777;
    if mode & OTHERS == 0 {
        return Ok(false);
    }
    fchmod(found, Mode::from_bits_truncate(mode & !OTHERS))?;
    Ok(true)
}

fn tighten_below(found: &OwnedFd) -> io::Result<()> {
    if !FileType::from_raw_mode(fstat(found)?.st_mode).is_dir() {
        return Ok(());
    }
    for entry in Dir::read_from(found)? {
        let entry = entry?;
        let name = entry.file_name();
        if matches!(name.to_bytes(), b"." | b"..") {
            continue;
        }
        if let Some(below) = open_there(found, name)? {
            tighten_one(&below)?;
            tighten_below(&below)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::fs::Permissions;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn mode(path: &Path) -> u32 {
        fs::symlink_metadata(path).expect("look").mode() & 0o777
    }

    #[test]
    fn what_is_made_is_private_and_what_is_there_becomes_so() {
        let dir = tempfile::tempdir().expect("tempdir");
        let (new, old) = (dir.path().join("new"), dir.path().join("old"));
        make_directory(&new.join("below")).expect("make");
        write(&new.join("file"), b"x").expect("write");
        options().append(true).open(new.join("log")).expect("open");
        let made = [mode(&new), mode(&new.join("below"))];
        assert_eq!(made, [0o700; 2]);
        assert_eq!([mode(&new.join("file")), mode(&new.join("log"))], [0o600; 2]);

        fs::create_dir_all(old.join("below")).expect("mkdir");
        let outside = dir.path().join("outside");
        for file in [&old.join("below/file"), &outside] {
            fs::write(file, "x").expect("write");
            fs::set_permissions(file, Permissions::from_mode(0o644)).expect("chmod");
        }
        for directory in [&old.join("below"), &old] {
            fs::set_permissions(directory, Permissions::from_mode(0o755)).expect("chmod");
        }
        std::os::unix::fs::symlink(&outside, old.join("link")).expect("symlink");
        make_directory(&old).expect("make");
        assert_eq!([mode(&old), mode(&old.join("below"))], [0o700; 2]);
        assert_eq!(mode(&old.join("below/file")), 0o600);
        assert_eq!(mode(&outside), 0o644, "a link is not followed");
        tighten(&dir.path().join("absent")).expect("nothing to do");
    }

    #[test]
    fn a_directory_of_another_user_is_refused() {
        if !rustix::process::geteuid().is_root() {
            return; // Only root can make one.
        }
        let dir = tempfile::tempdir().expect("tempdir");
        let theirs = dir.path().join("theirs");
        fs::create_dir(&theirs).expect("mkdir");
        std::os::unix::fs::chown(&theirs, Some(65_534), Some(65_534)).expect("chown");
        let error = make_directory(&theirs).expect_err("of another user");
        assert_eq!(error.kind(), ErrorKind::Permission, "{error}");
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(dir.path(), &link).expect("symlink");
        std::os::unix::fs::lchown(&link, Some(65_534), Some(65_534)).expect("lchown");
        make_directory(&link).expect_err("a link of another user");
    }
}
