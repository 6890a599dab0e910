//! Names below a directory, none of which leads out of it.
//!
//! Others may write where a bucket is, and this process may be root: what they put there, symbolic
//! links above all, must not make it read or write elsewhere. So names are resolved by `openat2`,
//! which follows no link and leaves no directory, whoever changes names meanwhile; and only regular
//! files are opened: a pipe would make the opener wait, a device may act on being opened.

use std::ffi::{OsStr, OsString};
use std::fs::{File, FileType, Metadata};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path as FilePath;
use std::sync::Arc;

use rustix::fs::{self, AtFlags, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;

const WITHIN: ResolveFlags =
    ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS).union(ResolveFlags::NO_MAGICLINKS);

/// An open directory.
pub(super) struct Directory(File);

impl Directory {
    /// The directory at a path of which nothing is known.
    pub(super) fn at(path: &FilePath) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(File::from(fs::open(path, flags, Mode::empty())?)))
    }

    /// Device and inode.
    pub(super) fn id(&self) -> io::Result<(u64, u64)> {
        self.0.metadata().map(|meta| (meta.dev(), meta.ino()))
    }

    fn open(&self, key: &[u8], flags: OFlags, mode: u32) -> io::Result<File> {
        let key = if key.is_empty() { b"." } else { key };
        let mode = Mode::from_raw_mode(mode);
        match fs::openat2(&self.0, key, flags | OFlags::CLOEXEC, mode, WITHIN) {
            Ok(opened) => Ok(File::from(opened)),
            Err(Errno::LOOP | Errno::XDEV) => Err(io::Error::new(
                io::ErrorKind::NotADirectory,
                "a symbolic link is in the way, and links are not followed",
            )),
            Err(error) => Err(error.into()),
        }
    }

    /// The directory `key`, which may be empty: this one.
    pub(super) fn directory(&self, key: &[u8]) -> io::Result<Self> {
        self.open(key, OFlags::RDONLY | OFlags::DIRECTORY, 0).map(Self)
    }

    /// Makes the directory `name` in this one.
    pub(super) fn make(&self, name: &OsStr, mode: u32) -> io::Result<()> {
        Ok(fs::mkdirat(&self.0, name, Mode::from_raw_mode(mode))?)
    }

    /// Makes a file at `key`, where nothing is.
    pub(super) fn create(&self, key: &[u8], mode: u32) -> io::Result<File> {
        self.open(key, OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL, mode)
    }

    /// What is at `key`, whatever it is.
    pub(super) fn look(&self, key: &[u8]) -> io::Result<Metadata> {
        self.open(key, OFlags::PATH | OFlags::NOFOLLOW, 0)?.metadata()
    }

    /// Opens the regular file at `key`; anything else is not found.
    pub(super) fn file(&self, key: &[u8], flags: OFlags) -> io::Result<(File, Metadata)> {
        let none = || io::Error::new(io::ErrorKind::NotFound, "no regular file");
        let opened = || {
            if !self.look(key)?.is_file() {
                return Err(none());
            }
            // It may be another by now.
            let file = self.open(key, flags | OFlags::NONBLOCK | OFlags::NOCTTY, 0)?;
            let meta = file.metadata()?;
            if meta.is_file() { Ok((file, meta)) } else { Err(none()) }
        };
        opened().map_err(|error| match error.kind() {
            io::ErrorKind::NotADirectory => none(),
            _ => error,
        })
    }

    /// The names in it, and of what kind each is, where the file system tells.
    pub(super) fn names(&self) -> io::Result<Vec<(Vec<u8>, fs::FileType)>> {
        let mut names = Vec::new();
        for entry in Dir::read_from(&self.0)? {
            let entry = entry?;
            let name = entry.file_name().to_bytes();
            if !matches!(name, b"." | b"..") {
                names.push((name.to_vec(), entry.file_type()));
            }
        }
        Ok(names)
    }

    pub(super) fn sync(&self) -> io::Result<()> {
        self.0.sync_all()
    }
}

/// A name in a directory.
#[derive(Clone)]
pub(super) struct Place {
    directory: Arc<Directory>,
    name: OsString,
}

impl Place {
    pub(super) fn new(directory: Directory, name: &OsStr) -> Self {
        Self { directory: Arc::new(directory), name: name.to_owned() }
    }

    /// Another place in its directory.
    pub(super) fn beside(&self, name: &str) -> Self {
        Self { directory: Arc::clone(&self.directory), name: OsString::from(name) }
    }

    /// What the object there is. Not found unless it is a regular file.
    pub(super) fn look(&self) -> io::Result<Metadata> {
        let meta = self.directory.look(self.name.as_bytes())?;
        meta.is_file().then_some(meta).ok_or_else(|| io::ErrorKind::NotFound.into())
    }

    /// What is there, whatever it is.
    pub(super) fn kind(&self) -> io::Result<FileType> {
        self.directory.look(self.name.as_bytes()).map(|meta| meta.file_type())
    }

    /// Opens the regular file there for writing.
    pub(super) fn write(&self) -> io::Result<File> {
        self.directory.file(self.name.as_bytes(), OFlags::WRONLY).map(|(file, _)| file)
    }

    /// Makes a file there, where nothing is.
    pub(super) fn create(&self, mode: u32) -> io::Result<File> {
        self.directory.create(self.name.as_bytes(), mode)
    }

    /// Renames it to a place beside it, over what is there.
    pub(super) fn rename(&self, to: &Self) -> io::Result<()> {
        let directory = &self.directory.0;
        Ok(fs::renameat(directory, &self.name, directory, &to.name)?)
    }

    /// Gives it a second name beside it, where nothing is.
    pub(super) fn link(&self, to: &Self) -> io::Result<()> {
        let directory = &self.directory.0;
        Ok(fs::linkat(directory, &self.name, directory, &to.name, AtFlags::empty())?)
    }

    pub(super) fn remove(&self) -> io::Result<()> {
        Ok(fs::unlinkat(&self.directory.0, &self.name, AtFlags::empty())?)
    }

    /// Makes what was done to names there durable.
    pub(super) fn sync(&self) -> io::Result<()> {
        self.directory.sync()
    }
}
