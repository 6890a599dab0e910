//! Writing files below a directory and nowhere else: no symlink is followed, and no name leads out.

use std::fs::File;
use std::io::Result;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RenameFlags, Timespec, Timestamps};
use weir_types::UnixTime;

/// What a file is called until it is whole.
const PART: &str = ".weir-extract-part";
/// Longest name.
const NAME_BYTES: usize = 255;

/// A directory to write into.
#[derive(Debug)]
pub(crate) struct Outside {
    root: OwnedFd,
}

/// A file that has its name when it is finished.
#[derive(Debug)]
pub(crate) struct Writing {
    pub(crate) file: File,
    directory: OwnedFd,
    name: String,
}

fn directory_flags() -> OFlags {
    OFlags::DIRECTORY | OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC
}

/// A path of the volume as names that lead down only.
pub(crate) fn safe(path: &str) -> PathBuf {
    let names = path.split('/').filter(|name| !matches!(*name, "" | "." | ".."));
    let short = |name: &str| {
        let mut end = name.len().min(NAME_BYTES);
        while !name.is_char_boundary(end) {
            end -= 1;
        }
        name[..end].replace('\0', "_")
    };
    names.map(short).collect()
}

impl Outside {
    /// Opens the directory, which must be there.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let flags = directory_flags() - OFlags::NOFOLLOW;
        Ok(Self { root: rustix::fs::openat(CWD, path, flags, Mode::empty())? })
    }

    /// Begins a file, with the directories above it. `path` is one of [`safe`].
    pub(crate) fn create(&self, path: &Path) -> Result<Writing> {
        let mut names: Vec<_> =
            path.iter().map(|name| name.to_string_lossy().into_owned()).collect();
        let name = names.pop().unwrap_or_else(|| "file".to_owned());
        let directory = self.directory(&names)?;
        let _ = rustix::fs::unlinkat(&directory, PART, AtFlags::empty());
        let flags =
            OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(&directory, PART, flags, Mode::RUSR | Mode::WUSR)?;
        Ok(Writing { file: file.into(), directory, name })
    }

    /// Makes and opens directories one below the other.
    pub(crate) fn directory(&self, names: &[String]) -> Result<OwnedFd> {
        let mut at = self.root.try_clone()?;
        for name in names {
            match rustix::fs::mkdirat(&at, name.as_str(), Mode::RWXU) {
                Ok(()) => rustix::fs::fsync(&at)?,
                Err(rustix::io::Errno::EXIST) => {}
                Err(e) => return Err(e.into()),
            }
            at = rustix::fs::openat(&at, name.as_str(), directory_flags(), Mode::empty())?;
        }
        Ok(at)
    }
}

impl Writing {
    /// Gives the file its owner, its time and its name. What had that name is replaced, so that
    /// whoever begins anew can.
    pub(crate) fn finish(self, owner: Option<(u32, u32)>, mtime: Option<UnixTime>) -> Result<()> {
        if let Some((uid, gid)) = owner.filter(|_| rustix::process::geteuid().is_root()) {
            std::os::unix::fs::fchown(&self.file, Some(uid), Some(gid))?;
        }
        if let Some(mtime) = mtime {
            let (secs, nanos) = mtime.parts();
            let time = Timespec { tv_sec: secs, tv_nsec: nanos.into() };
            let times = Timestamps { last_access: time, last_modification: time };
            rustix::fs::futimens(&self.file, &times)?;
        }
        self.file.sync_all()?;
        let directory = self.directory.as_fd();
        let flags = RenameFlags::empty();
        rustix::fs::renameat_with(directory, PART, directory, self.name.as_str(), flags)?;
        Ok(rustix::fs::fsync(directory)?)
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;
    use std::os::unix::fs::{PermissionsExt, symlink};

    use super::*;

    #[test]
    fn names_lead_down_only() {
        assert_eq!(safe("/a/../..//b/./c"), Path::new("a/b/c"));
        assert_eq!(safe("../../etc/shadow"), Path::new("etc/shadow"));
        assert_eq!(safe(&"é".repeat(200)).as_os_str().len(), 254);
        assert_eq!(safe("a\0b"), Path::new("a_b"));
    }

    #[test]
    fn nothing_is_written_through_a_symlink() {
        let dir = tempfile::tempdir().expect("a directory");
        let (out, other) = (dir.path().join("out"), dir.path().join("other"));
        std::fs::create_dir(&out).expect("makes");
        std::fs::create_dir(&other).expect("makes");
        std::fs::write(other.join("file"), b"theirs").expect("writes");
        symlink(&other, out.join("down")).expect("links");
        symlink(other.join("file"), out.join("file")).expect("links");
        symlink(other.join("file"), out.join(PART)).expect("links");
        let outside = Outside::open(&out).expect("opens");
        assert!(outside.create(Path::new("down/file")).is_err(), "a symlink is no directory");
        let mut writing = outside.create(Path::new("file")).expect("begins");
        writing.file.write_all(b"ours").expect("writes");
        writing.finish(None, Some(UnixTime(5_000_000_000))).expect("finishes");
        assert_eq!(std::fs::read(other.join("file")).expect("reads"), b"theirs");
        let metadata = out.join("file").symlink_metadata().expect("is there");
        assert!(metadata.is_file() && metadata.permissions().mode() & 0o777 == 0o600);
        assert_eq!(std::fs::read(out.join("file")).expect("reads"), b"ours");
        assert!(!out.join(PART).exists());
    }
}
