//! Where trees are.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use rustix::fs::{Mode, OFlags};
use weir_object::Bucket;
use weir_types::{ErrorKind, FsError, Result};

/// Where a tree is.
#[derive(Clone, Debug)]
pub enum Place {
    /// A directory.
    Directory(Root),
    /// The objects of a bucket below a prefix.
    Bucket(Bucket),
}

/// A directory that is open, so that it stays the same one.
#[derive(Clone, Debug)]
pub struct Root {
    pub(crate) path: Arc<Path>,
    pub(crate) fd: Arc<OwnedFd>,
    /// Mode of directories that are made in it.
    made: Mode,
}

impl Place {
    /// A directory, made if it is missing and `make` says so.
    ///
    /// # Errors
    /// `NotFound`, `NotDirectory`, `Permission` and such, naming the directory.
    pub fn directory(path: &Path, make: bool) -> Result<Place> {
        let failed = |error| FsError::local_io(path.display(), error);
        if make {
            std::fs::create_dir_all(path).map_err(failed)?;
        }
        let file = File::open(path).map_err(failed)?;
        if !file.metadata().map_err(failed)?.is_dir() {
            let text = format!("{}: not a directory", path.display());
            return Err(FsError::new(ErrorKind::NotDirectory, text));
        }
        let real = std::fs::canonicalize(path).map_err(failed)?;
        Ok(Place::Directory(Root {
            path: real.into(),
            fd: Arc::new(file.into()),
            made: Mode::from_raw_mode(0o777),
        }))
    }

    /// Whether one of two places is in the other, or both are one.
    pub(crate) fn overlaps(&self, other: &Place) -> bool {
        match (self, other) {
            (Place::Directory(a), Place::Directory(b)) => {
                a.path.starts_with(&b.path) || b.path.starts_with(&a.path)
            }
            (Place::Bucket(a), Place::Bucket(b)) => {
                let (a, b) = (a.url(), b.url());
                let below =
                    |a: &str, b: &str| b.is_empty() || a == b || a.starts_with(&format!("{b}/"));
                a.scheme() == b.scheme()
                    && a.bucket() == b.bucket()
                    && a.directory() == b.directory()
                    && (below(a.prefix(), b.prefix()) || below(b.prefix(), a.prefix()))
            }
            (Place::Directory(root), Place::Bucket(bucket))
            | (Place::Bucket(bucket), Place::Directory(root)) => {
                let directory: Option<PathBuf> =
                    bucket.url().directory().and_then(|path| path.canonicalize().ok());
                directory.is_some_and(|path| {
                    path.starts_with(&root.path) || root.path.starts_with(&path)
                })
            }
        }
    }

    pub(crate) fn shown(&self) -> String {
        match self {
            Place::Directory(root) => root.path.display().to_string(),
            Place::Bucket(bucket) => bucket.url().to_string(),
        }
    }
}

impl Root {
    /// The same, in which new directories are for their owner alone until they get their modes: what
    /// is in them may have been hidden by that of a directory above.
    pub(crate) fn private(&self) -> Root {
        Root { made: Mode::from_raw_mode(0o700), ..self.clone() }
    }

    /// Opens a directory below, following no symbolic link: what lies behind one is another tree.
    pub(crate) fn open_directory(&self, path: &[u8]) -> io::Result<OwnedFd> {
        let path = if path.is_empty() { b"." } else { path };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        self.open(path, flags, Mode::empty())
    }

    pub(crate) fn open(&self, path: &[u8], flags: OFlags, mode: Mode) -> io::Result<OwnedFd> {
        use rustix::fs::ResolveFlags;
        let how = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS;
        Ok(rustix::fs::openat2(&*self.fd, path, flags | OFlags::CLOEXEC, mode, how)?)
    }

    /// Opens the directory in which `path` lies, making what is missing, and answers the name in it.
    pub(crate) fn open_parent<'a>(&self, path: &'a [u8]) -> io::Result<(OwnedFd, &'a [u8])> {
        let (parent, name) = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => (&path[..at], &path[at + 1..]),
            None => (&b""[..], path),
        };
        match self.open_directory(parent) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                self.make_directory(parent)?;
                Ok((self.open_directory(parent)?, name))
            }
            opened => Ok((opened?, name)),
        }
    }

    /// Makes a directory and those above it. One that is there is fine.
    pub(crate) fn make_directory(&self, path: &[u8]) -> io::Result<()> {
        if path.is_empty() {
            return Ok(());
        }
        let (parent, name) = self.open_parent(path)?;
        match rustix::fs::mkdirat(&parent, name, self.made) {
            Err(rustix::io::Errno::EXIST) => self.open_directory(path).map(drop),
            made => Ok(made?),
        }
    }
}
