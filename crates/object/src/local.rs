//! A directory as an object store that survives a power cut.
//!
//! An object's bytes are synced and the directories that name it, also one that somebody else has
//! just made; deletes are synced; whoever loses the race to create an object knows it to be
//! durable. Updates on conditions take turns among processes. Listings are in the order of keys.
//! Attributes are kept only by this process, for a writer to know its own object after a lost
//! answer.
//!
//! A root that is not the directory it was (a disk that was unmounted, say) is a store that is
//! away: no object is put into what is left in its place, and none of those that were in it is
//! said to be gone. Nothing outside of the root is read or written, whatever is made in it
//! ([`beneath`]): each operation opens the root, sees that it is the one that it was, and goes from
//! there. (The library's own local store opens paths, and so follows links.)
//!
//! Temporary files and the lock end in `#` and digits, which listings leave out.

mod beneath;
mod change;
mod parts;
mod staged;
mod walk;

use std::collections::{HashMap, HashSet, VecDeque};
use std::ffi::OsStr;
use std::fmt;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::Arc;
use std::time::UNIX_EPOCH;

use async_trait::async_trait;
use futures::StreamExt;
use futures::stream::BoxStream;
use object_store::path::Path;
use object_store::{
    Attributes, CopyMode, CopyOptions, Error, GetOptions, GetResult, GetResultPayload, ListResult,
    MultipartUpload, ObjectMeta, ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload,
    PutResult, Result,
};
use parking_lot::Mutex;
use rustix::fs::OFlags;
use weir_types::FsError;

use crate::extended::{ChangeAsk, UploadAsk};
use beneath::{Directory, Place};
pub(crate) use walk::{OpenWalk, Walk, opened};

/// Whoever updates on a condition holds this file's lock, in whatever process.
const LOCK_FILE: &str = ".update-lock#0";
/// Attributes are kept for so many of the newest objects.
const REMEMBERED: usize = 4096;

/// See the module.
#[derive(Clone)]
pub(crate) struct LocalStore {
    root: PathBuf,
    /// Device and inode of the root when it was opened.
    root_id: (u64, u64),
    /// Whether what is made here is for others, too.
    shared: bool,
    /// Directories below the root whose entry in their parent is known to be on disk.
    durable: Arc<Mutex<HashSet<PathBuf>>>,
    remembered: Arc<Mutex<Remembered>>,
}

/// The root, open, and how things are made in it.
struct Root {
    directory: Directory,
    file_mode: u32,
    directory_mode: u32,
}

impl Root {
    /// The place of the object `key`, whose directory is there.
    fn place(&self, key: &str) -> io::Result<Place> {
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
    fn root(&self) -> io::Result<Root> {
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
    fn key(&self, location: &Path) -> Result<String> {
        match location.filename() {
            Some(name) if !is_leftover(name.as_bytes()) => Ok(location.to_string()),
            _ => Err(generic(format!("`{location}` is no object's name in a directory"))),
        }
    }

    /// Does `work` with the root and a key, where it may block.
    async fn at<T: Send + 'static>(
        &self,
        location: &Path,
        work: impl FnOnce(&Root, &str) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let (this, key) = (self.clone(), self.key(location)?);
        blocking(self.root.join(&key), move || work(&this.root()?, &key)).await
    }

    /// The place of the object `key`, whose directories are made and durable: their parents are
    /// synced, once per process, whoever made them.
    fn prepared(&self, root: &Root, key: &str) -> io::Result<Place> {
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

    fn remember(&self, location: &Path, etag: Option<&str>, attributes: Attributes) {
        if let Some(etag) = etag
            && !attributes.is_empty()
        {
            let mut remembered = self.remembered.lock();
            remembered.insert(location.clone(), etag.to_owned(), attributes);
        }
    }
}

/// The ETag of a file: inode, time in microseconds, size.
pub(crate) fn etag(meta: &Metadata) -> String {
    let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let micros = modified.unwrap_or_default().as_micros();
    format!("\"{:x}-{micros:x}-{:x}\"", meta.ino(), meta.len())
}

/// Whether it is a name of ours that is no object: `#` and digits at its end.
fn is_leftover(name: &[u8]) -> bool {
    let tail = name.iter().position(|byte| *byte == b'#').map(|at| &name[at + 1..]);
    tail.is_some_and(|tail| !tail.is_empty() && tail.iter().all(u8::is_ascii_digit))
}

fn generic(source: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Error {
    Error::Generic { store: "local", source: source.into() }
}

/// Runs `work` on `path` where it may block.
async fn blocking<T: Send + 'static>(
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
struct Remembered {
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

    fn find(&self, meta: &ObjectMeta) -> Attributes {
        match self.by_path.get(&meta.location) {
            Some((etag, attributes)) if meta.e_tag.as_ref() == Some(etag) => attributes.clone(),
            _ => Attributes::new(),
        }
    }
}

impl fmt::Display for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "file://{}", self.root.display())
    }
}

impl fmt::Debug for LocalStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "LocalStore({})", self.root.display())
    }
}

#[async_trait]
impl ObjectStore for LocalStore {
    async fn put_opts(
        &self,
        location: &Path,
        payload: PutPayload,
        options: PutOptions,
    ) -> Result<PutResult> {
        if let Some(ask) = options.extensions.get::<UploadAsk>().cloned() {
            return self.upload(location, payload, options, ask).await;
        }
        if let Some(ask) = options.extensions.get::<ChangeAsk>().cloned() {
            return self.change(location, options.mode, ask).await;
        }
        let mode = options.mode;
        if matches!(&mode, PutMode::Update(expected) if expected.e_tag.is_none()) {
            return Err(generic("an update needs an ETag"));
        }
        let (this, create) = (self.clone(), mode == PutMode::Create);
        let put = self.at(location, move |root, key| {
            staged::put(root, &this.prepared(root, key)?, &payload, &mode)
        });
        let e_tag = put.await?;
        if e_tag.is_none() {
            return Err(refused(location, create));
        }
        self.remember(location, e_tag.as_deref(), options.attributes);
        Ok(PutResult { e_tag, version: None, extensions: Default::default() })
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        let upload = self.begin(location).await?;
        Ok(Box::new(parts::Upload::new(self.clone(), location.clone(), upload)))
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(open) = options.extensions.get::<OpenWalk>() {
            return Ok(self.walk(open));
        }
        let opened =
            self.at(location, |root, key| root.directory.file(key.as_bytes(), OFlags::RDONLY));
        let (file, found) = opened.await?;
        let modified = found.modified().map_err(generic)?;
        let meta = ObjectMeta {
            location: location.clone(),
            last_modified: modified.into(),
            size: found.len(),
            e_tag: Some(etag(&found)),
            version: None,
        };
        options.check_preconditions(&meta)?;
        let range = match &options.range {
            Some(range) => range
                .as_range(meta.size)
                .map_err(|why| generic(format!("{location}: the range was invalid: {why}")))?,
            None => 0..meta.size,
        };
        let remembered = self.remembered.lock();
        Ok(GetResult {
            payload: GetResultPayload::File(file, self.root.join(location.as_ref())),
            attributes: remembered.find(&meta),
            range,
            meta,
            extensions: Default::default(),
        })
    }

    fn delete_stream(
        &self,
        locations: BoxStream<'static, Result<Path>>,
    ) -> BoxStream<'static, Result<Path>> {
        let this = self.clone();
        locations
            .map(move |location| {
                let this = this.clone();
                async move {
                    let location = location?;
                    this.at(&location, |root, key| change::remove(&root.place(key)?)).await?;
                    Ok(location)
                }
            })
            .buffered(10)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects(prefix, None)
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.objects(prefix, Some(offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        self.level(prefix).await
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        let create = options.mode == CopyMode::Create;
        let mode = if create { PutMode::Create } else { PutMode::Overwrite };
        let copied = self.copied(from, None, to, mode).await?;
        copied.map(drop).ok_or_else(|| refused(to, create))
    }
}

/// The error of a write whose condition does not hold.
fn refused(location: &Path, create: bool) -> Error {
    let (path, source) = (location.to_string(), "the object is not what it should be".into());
    match create {
        true => Error::AlreadyExists { path, source },
        false => Error::Precondition { path, source },
    }
}

#[cfg(test)]
mod hostile;
#[cfg(test)]
mod tests;
