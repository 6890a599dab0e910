//! A directory as an object store that survives a power cut.
//!
//! The library's own local store, asked to sync, syncs each object's bytes and the directory that
//! names it. Added here: a directory that somebody else has just made is synced before an object
//! in it is acknowledged; deletes are synced; whoever loses the race to create an object knows it
//! to be durable; conditional updates; listings in the order of keys; and attributes, which are
//! kept only by this process, for a writer to know its own object after a lost answer. And a root
//! that is not the directory it was (a disk that was unmounted, say) is a store that is away: no
//! object is put into what is left in its place, and none of those that were in it is said to be
//! gone.
//!
//! Temporary files and the lock end in `#` and digits, which the library leaves out of listings.

mod change;
mod parts;
mod walk;

use std::collections::{HashMap, HashSet, VecDeque};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path as FilePath, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, UNIX_EPOCH};

use async_trait::async_trait;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::local::LocalFileSystem;
use object_store::path::Path;
use object_store::{
    Attributes, CopyOptions, Error, GetOptions, GetResult, ListResult, MultipartUpload, ObjectMeta,
    ObjectStore, PutMode, PutMultipartOptions, PutOptions, PutPayload, PutResult, Result,
    UpdateVersion,
};
use weir_types::FsError;

use crate::extended::{ChangeAsk, UploadAsk};
pub(crate) use walk::{OpenWalk, Walk, opened};

/// Whoever updates on a condition holds this file's lock, in whatever process.
const LOCK_FILE: &str = ".update-lock#0";
/// Attributes are kept for so many of the newest objects.
const REMEMBERED: usize = 4096;

/// See the module.
#[derive(Clone)]
pub(crate) struct LocalStore {
    inner: LocalFileSystem,
    root: PathBuf,
    /// Device and inode of the root when it was opened.
    root_id: (u64, u64),
    /// Directories below the root whose entry in their parent is known to be on disk.
    durable: Arc<Mutex<HashSet<PathBuf>>>,
    remembered: Arc<Mutex<Remembered>>,
}

impl LocalStore {
    pub(crate) fn open(directory: &FilePath) -> Result<Self, FsError> {
        let context = || format!("opening file://{}", directory.display());
        let root = fs::canonicalize(directory).map_err(|e| FsError::local_io(context(), e))?;
        let meta = fs::metadata(&root).map_err(|e| FsError::local_io(context(), e))?;
        let inner = LocalFileSystem::new_with_prefix(&root)
            .map_err(|error| crate::failure::tell(&context(), error))?
            .with_fsync(true);
        Ok(Self {
            inner,
            root,
            root_id: (meta.dev(), meta.ino()),
            durable: Arc::default(),
            remembered: Arc::default(),
        })
    }

    /// The file of `location`, whose directory is made and durable.
    async fn prepared(&self, location: &Path) -> Result<PathBuf> {
        let path = self.inner.path_to_filesystem(location)?;
        let (this, file) = (self.clone(), path.clone());
        let work = move || this.check_root().and_then(|()| this.make_parents(&file)).map(|()| file);
        blocking(path, work).await
    }

    /// Fails unless the root is the directory that was opened.
    fn check_root(&self) -> io::Result<()> {
        match fs::metadata(&self.root) {
            Ok(meta) if (meta.dev(), meta.ino()) == self.root_id => Ok(()),
            Ok(_) => Err(io::Error::other("another directory is in its place")),
            // Of the kind that is tried again: the directory may come back.
            Err(error) => Err(io::Error::other(format!("the directory is away: {error}"))),
        }
    }

    async fn root_is_there(&self) -> Result<()> {
        let this = self.clone();
        blocking(self.root.clone(), move || this.check_root()).await
    }

    /// The listing that `list` makes, in order, unless the root is away: then it would be empty.
    fn sorted(
        &self,
        list: impl FnOnce(&LocalFileSystem) -> BoxStream<'static, Result<ObjectMeta>>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let (this, listing) = (self.clone(), list(&self.inner));
        stream::once(async move {
            let mut found: Vec<ObjectMeta> = listing.try_collect().await?;
            this.root_is_there().await?;
            found.sort_unstable_by(|a, b| a.location.cmp(&b.location));
            Ok::<_, Error>(stream::iter(found.into_iter().map(Ok)))
        })
        .try_flatten()
        .boxed()
    }

    /// Makes the directories above `file` and syncs their parents, once per process: the library
    /// syncs only those that it made itself, not those that a neighbour is about to sync.
    fn make_parents(&self, file: &FilePath) -> io::Result<()> {
        let mut missing = Vec::new();
        for directory in file.ancestors().skip(1).take_while(|dir| *dir != self.root) {
            let durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
            if durable.contains(directory) {
                break;
            }
            missing.push(directory);
        }
        for directory in missing.into_iter().rev() {
            match fs::create_dir(directory) {
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                _ => sync_parent(directory)?,
            }
            let mut durable = self.durable.lock().unwrap_or_else(PoisonError::into_inner);
            durable.insert(directory.to_owned());
        }
        Ok(())
    }

    fn remember(&self, location: &Path, etag: Option<&str>, attributes: Attributes) {
        if let Some(etag) = etag
            && !attributes.is_empty()
        {
            let mut remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
            remembered.insert(location.clone(), etag.to_owned(), attributes);
        }
    }

    async fn update(
        &self,
        file: PathBuf,
        location: &Path,
        payload: PutPayload,
        expected: UpdateVersion,
    ) -> Result<PutResult> {
        let expected = expected.e_tag.ok_or_else(|| generic("an update needs an ETag"))?;
        let (root, path) = (self.root.clone(), file.clone());
        let updated = blocking(file, move || replace_if(&root, &path, &payload, &expected)).await?;
        match updated {
            Some(e_tag) => {
                Ok(PutResult { e_tag: Some(e_tag), version: None, extensions: Default::default() })
            }
            None => Err(Error::Precondition {
                path: location.to_string(),
                source: "the object is gone or has another ETag".into(),
            }),
        }
    }
}

/// A file that is not yet in its place, whose name listings leave out.
struct Staged {
    file: File,
    path: PathBuf,
}

impl Staged {
    /// A new one beside `target`.
    fn beside(target: &FilePath) -> io::Result<Self> {
        let mut path = target.as_os_str().to_owned();
        path.push(format!("#{}", rand::random::<u64>()));
        let path = PathBuf::from(path);
        Ok(Self { file: OpenOptions::new().write(true).create_new(true).open(&path)?, path })
    }

    /// Puts it in the place of `target` if that is there and has the ETag `expected`; returns the
    /// new one.
    fn replace_if(
        &self,
        root: &FilePath,
        target: &FilePath,
        expected: &str,
    ) -> io::Result<Option<String>> {
        self.file.sync_all()?;
        let _lock = locked(root)?;
        let Some(before) = still(target, expected)? else { return Ok(None) };
        // Inode numbers come back and clocks are coarse: without this an old ETag might fit again.
        let later = before.modified()? + Duration::from_micros(1);
        if self.file.metadata()?.modified()? < later {
            self.file.set_modified(later)?;
            self.file.sync_all()?;
        }
        let after = etag(&self.file.metadata()?);
        fs::rename(&self.path, target)?;
        sync_parent(target)?;
        Ok(Some(after))
    }
}

/// The lock of all updates, held until it is dropped.
fn locked(root: &FilePath) -> io::Result<File> {
    let mut options = OpenOptions::new();
    let lock = options.create(true).truncate(false).write(true).open(root.join(LOCK_FILE))?;
    lock.lock()?;
    Ok(lock)
}

/// What `file` is, if it is there and has the ETag `expected`.
fn still(file: &FilePath, expected: &str) -> io::Result<Option<fs::Metadata>> {
    match fs::metadata(file) {
        Ok(meta) => Ok(Some(meta).filter(|meta| meta.is_file() && etag(meta) == expected)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Writes `payload` over `file` if it is there and has the ETag `expected`; returns the new one.
fn replace_if(
    root: &FilePath,
    file: &FilePath,
    payload: &PutPayload,
    expected: &str,
) -> io::Result<Option<String>> {
    let mut staged = Staged::beside(file)?;
    let written = payload.iter().try_for_each(|piece| staged.file.write_all(piece));
    let replaced = written.and_then(|()| staged.replace_if(root, file, expected));
    if !matches!(replaced, Ok(Some(_))) {
        // It may have been renamed already; all that could stay behind is hidden.
        let _ = fs::remove_file(&staged.path);
    }
    replaced
}

/// The library's ETag of a file: inode, time in microseconds, size.
pub(crate) fn etag(meta: &fs::Metadata) -> String {
    let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let micros = modified.unwrap_or_default().as_micros();
    format!("\"{:x}-{micros:x}-{:x}\"", meta.ino(), meta.len())
}

fn sync_parent(path: &FilePath) -> io::Result<()> {
    path.parent().map_or(Ok(()), |parent| File::open(parent)?.sync_all())
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
        let file = self.prepared(location).await?;
        let put = match options.mode {
            PutMode::Update(expected) => self.update(file, location, payload, expected).await,
            PutMode::Overwrite => {
                self.inner.put_opts(location, payload, PutMode::Overwrite.into()).await
            }
            PutMode::Create => {
                let put = self.inner.put_opts(location, payload, PutMode::Create.into()).await;
                if let Err(Error::AlreadyExists { .. }) = put {
                    // The winner may not have come to this yet.
                    blocking(file.clone(), move || sync_parent(&file)).await?;
                }
                put
            }
        }?;
        self.remember(location, put.e_tag.as_deref(), options.attributes);
        Ok(put)
    }

    async fn put_multipart_opts(
        &self,
        location: &Path,
        _: PutMultipartOptions,
    ) -> Result<Box<dyn MultipartUpload>> {
        self.prepared(location).await?;
        self.inner.put_multipart_opts(location, PutMultipartOptions::default()).await
    }

    async fn get_opts(&self, location: &Path, options: GetOptions) -> Result<GetResult> {
        if let Some(open) = options.extensions.get::<OpenWalk>() {
            return Ok(self.walk(open));
        }
        let mut found = match self.inner.get_opts(location, options).await {
            Err(error @ Error::NotFound { .. }) => {
                self.root_is_there().await?;
                return Err(error);
            }
            other => other?,
        };
        let remembered = self.remembered.lock().unwrap_or_else(PoisonError::into_inner);
        found.attributes = remembered.find(&found.meta);
        Ok(found)
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
                    let file = this.inner.path_to_filesystem(&location)?;
                    blocking(file.clone(), move || {
                        this.check_root()?;
                        fs::remove_file(&file)?;
                        sync_parent(&file)
                    })
                    .await?;
                    Ok(location)
                }
            })
            .buffered(10)
            .boxed()
    }

    fn list(&self, prefix: Option<&Path>) -> BoxStream<'static, Result<ObjectMeta>> {
        self.sorted(|inner| inner.list(prefix))
    }

    fn list_with_offset(
        &self,
        prefix: Option<&Path>,
        offset: &Path,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        self.sorted(|inner| inner.list_with_offset(prefix, offset))
    }

    async fn list_with_delimiter(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut listed = self.inner.list_with_delimiter(prefix).await?;
        self.root_is_there().await?;
        listed.objects.sort_unstable_by(|a, b| a.location.cmp(&b.location));
        Ok(listed)
    }

    async fn copy_opts(&self, from: &Path, to: &Path, options: CopyOptions) -> Result<()> {
        self.prepared(to).await?;
        self.inner.copy_opts(from, to, options).await
    }
}

#[cfg(test)]
mod tests;
