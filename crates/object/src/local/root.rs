//! The directory itself: opened, seen to be the one that it was, and how things are made in it.

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;

use object_store::path::Path;
use object_store::{Attributes, Error, ObjectMeta, Result};
use parking_lot::Mutex;
use weir_types::FsError;

use super::beneath::{Directory, Place};

/// Whoever updates on a condition holds this file's lock, in whatever process.
pub(super) const LOCK_FILE: &str = ".update-lock#0";
/// Attributes are kept for so many of the newest objects.
const REMEMBERED: usize = 4096;

/// A directory as a store; see [`super`].
#[derive(Clone)]
pub(crate) struct LocalStore {
    pub(super) root: PathBuf,
    /// Device and inode of the root when it was opened.
    root_id: (u64, u64),
    /// Whether what is made here is for others, too.
    shared: bool,
    /// Directories below the root whose entry in their parent is known to be on disk.
    pub(super) durable: Arc<Mutex<HashSet<PathBuf>>>,
    pub(super) remembered: Arc<Mutex<Remembered>>,
}

/// The root, open, and how things are made in it.
pub(super) struct Root {
    pub(super) directory: Directory,
    pub(super) file_mode: u32,
    pub(super) directory_mode: u32,
}

impl Root {
    /// The place of the object `key`, whose directory is there.
    pub(super) fn place(&self, key: &str) -> io::Result<Place> {
        let (above, name) = key.rsplit_once('/').unwrap_or(("", key));
        let directory = self.directory.directory(above.as_bytes()).map_err(|e| match e.kind() {
            io::ErrorKind::NotADirectory => io::Error::new(io::ErrorKind::NotFound, e),
            _ => e,
        })?;
        Ok(Place::new(directory, OsStr::new(name)))
    }
}

impl LocalStore {
    /// Opens a directory, whose path may lead over symbolic links. What is made in it is for this
    /// user alone, or, if it is `shared`, as the umask has it.
    pub(crate) fn open(directory: &FilePath, shared: bool) -> Result<Self, FsError> {
        let at =
            |error| FsError::local_io(format!("opening file://{}", directory.display()), error);
        let root = fs::canonicalize(directory).map_err(at)?;
        let opened = Directory::at(&root).map_err(at)?;
        opened.directory(b"").map_err(|error| match error.kind() {
            io::ErrorKind::Unsupported => {
                let why = "the kernel has no openat2: Linux 5.6 or later has";
                at(io::Error::new(io::ErrorKind::Unsupported, why))
            }
            _ => at(error),
        })?;
        let root_id = opened.id().map_err(at)?;
        Ok(Self { root, root_id, shared, durable: Arc::default(), remembered: Arc::default() })
    }

    /// Opens the root, unless it is away.
    pub(super) fn root(&self) -> io::Result<Root> {
        // Of the kind that is tried again: the directory may come back.
        let away = |error| io::Error::other(format!("the directory is away: {error}"));
        let directory = Directory::at(&self.root).map_err(away)?;
        if directory.id()? != self.root_id {
            return Err(io::Error::other("another directory is in its place"));
        }
        let (file_mode, directory_mode) = if self.shared { (0o666, 0o777) } else { (0o600, 0o700) };
        Ok(Root { directory, file_mode, directory_mode })
    }

    /// The key of an object, if it can be one: not that of the root, nor a name that is hidden.
    pub(super) fn key(&self, location: &Path) -> Result<String> {
        match location.filename() {
            Some(name) if !is_leftover(name.as_bytes()) => Ok(location.to_string()),
            _ => Err(generic(format!("`{location}` is no object's name in a directory"))),
        }
    }

    /// Does `work` with the root and a key, where it may block.
    pub(super) async fn at<T: Send + 'static>(
        &self,
        location: &Path,
        work: impl FnOnce(&Root, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (this, key) = (self.clone(), self.key(location)?);
        blocking(self.root.join(&key), move || work(&this.root()?, &key)).await
    }

    /// The place of the object `key`, whose directories are made and durable: their parents are
    /// synced, once per process, whoever made them.
    pub(super) fn prepared(&self, root: &Root, key: &str) -> io::Result<Place> {
        let above = FilePath::new(key).parent().unwrap_or(FilePath::new(""));
        let known = |path: &FilePath| self.durable.lock().contains(path);
        if (above.as_os_str().is_empty() || known(above))
            && let Ok(place) = root.place(key)
        {
            return Ok(place);
        }
        let mut path = PathBuf::new();
        let mut directory = root.directory.directory(b"")?;
        for name in above.iter() {
            path.push(name);
            let made = match directory.make(name, root.directory_mode) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => false,
                other => other.map(|()| true)?,
            };
            if made || !known(&path) {
                directory.sync()?;
            }
            directory = directory.directory(name.as_encoded_bytes())?;
            self.durable.lock().insert(path.clone());
        }
        Ok(Place::new(directory, FilePath::new(key).file_name().unwrap_or_default()))
    }

    pub(super) fn remember(&self, location: &Path, etag: Option<&str>, attributes: Attributes) {
        if let Some(etag) = etag
            && !attributes.is_empty()
        {
            let mut remembered = self.remembered.lock();
            remembered.insert(location.clone(), etag.to_owned(), attributes);
        }
    }
}

/// Whether it is a name of ours that is no object: `#` and digits at its end.
pub(super) fn is_leftover(name: &[u8]) -> bool {
    let tail = name.iter().position(|byte| *byte == b'#').map(|at| &name[at + 1..]);
    tail.is_some_and(|tail| !tail.is_empty() && tail.iter().all(u8::is_ascii_digit))
}

pub(super) fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "local", source: source.into() }
}

/// Runs `work` on `path` where it may block.
pub(super) async fn blocking<T: Send + 'static>(
    path: PathBuf,
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await?;
    done.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => {
            Error::NotFound { path: path.display().to_string(), source: error.into() }
        }
        kind => generic(io::Error::new(kind, format!("{}: {error}", path.display()))),
    })
}

/// The attributes of the newest objects, each good for one version of it.
#[derive(Default)]
pub(super) struct Remembered {
    by_path: HashMap<Path, (String, Attributes)>,
    order: VecDeque<Path>,
}

impl Remembered {
    fn insert(&mut self, path: Path, etag: String, attributes: Attributes) {
        if self.by_path.insert(path.clone(), (etag, attributes)).is_none() {
            self.order.push_back(path);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.by_path.remove(&oldest);
        }
    }

    pub(super) fn find(&self, meta: &ObjectMeta) -> Attributes {
        match self.by_path.get(&meta.location) {
            Some((etag, attributes)) if meta.e_tag.as_ref() == Some(etag) => attributes.clone(),
            _ => Attributes::new(),
        }
    }
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalStore({})", self.root.display())
    }
}

/// The error of a write whose condition does not hold.
pub(super) fn refused(location: &Path, create: bool) -> Error {
    let (path, source) = (location.to_string(), "the object is not what it should be".into());
    match create {
        true => Error::AlreadyExists { path, source },
        false => Error::Precondition { path, source },
    }
}
