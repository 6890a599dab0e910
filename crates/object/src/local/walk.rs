//! A directory tree in the order of its keys, page by page, with names as the bytes that they are.

use std::fs::Metadata;
use std::io;
use std::os::unix::fs::MetadataExt;
use std::sync::Arc;
use std::vec::IntoIter;

use chrono::DateTime;
use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use object_store::path::Path;
use object_store::{GetResult, GetResultPayload, ListResult, ObjectMeta, Result};
use parking_lot::Mutex;
use rustix::fs::FileType;

use super::root::{LocalStore, Root, blocking, generic, is_leftover};
use crate::asks::OpenWalk;
use crate::etags::etag;
use crate::listed::{ListedObject, PAGE_KEYS, Page, as_path};

/// A walk on its way out of the store.
#[derive(Clone)]
struct Handle(Arc<Mutex<Option<Walk>>>);

/// Where a walk stands.
pub(crate) struct Walk {
    store: LocalStore,
    open: OpenWalk,
    /// Directories from the root down, with what is left of them.
    levels: Vec<Level>,
}

struct Level {
    /// Key of the directory: empty, or ending with a slash.
    key: Vec<u8>,
    /// Names in the order of their keys, those of directories with a slash at their end.
    names: IntoIter<Vec<u8>>,
}

/// The walk in an answer of the store.
pub(crate) fn opened(answer: GetResult) -> Result<Walk> {
    let handle = answer.extensions.get::<Handle>();
    let walk = handle.and_then(|h| h.0.lock().take());
    walk.ok_or_else(|| generic("the store below is no directory"))
}

impl LocalStore {
    /// An answer with a walk in it.
    pub(super) fn walk(&self, open: &OpenWalk) -> GetResult {
        let walk = Walk { store: self.clone(), open: open.clone(), levels: Vec::new() };
        let mut answer = GetResult {
            payload: GetResultPayload::Stream(Box::pin(futures::stream::empty())),
            meta: ObjectMeta {
                location: Path::default(),
                last_modified: Default::default(),
                size: 0,
                e_tag: None,
                version: None,
            },
            range: 0..0,
            attributes: Default::default(),
            extensions: Default::default(),
        };
        answer.extensions.insert(Handle(Arc::new(Mutex::new(Some(walk)))));
        answer
    }
}

impl LocalStore {
    fn pages(&self, open: OpenWalk) -> BoxStream<'static, Result<Page>> {
        let walk = Walk { store: self.clone(), open, levels: Vec::new() };
        let pages = stream::try_unfold(Some(walk), |walk| async move {
            let Some(walk) = walk else { return Ok(None) };
            let (walk, page) = walk.page(PAGE_KEYS).await?;
            let next = page.truncated.then_some(walk);
            Ok(Some((page, next)))
        });
        pages.boxed()
    }

    /// All objects below `prefix` after `after`, in order.
    pub(super) fn objects(
        &self,
        prefix: Option<&Path>,
        after: Option<&Path>,
    ) -> BoxStream<'static, Result<ObjectMeta>> {
        let after = after.map(|after| after.as_ref().as_bytes().to_vec());
        let pages = self.pages(OpenWalk { below: below(prefix), after, one_level: false });
        let objects = |page: Page| page.objects.into_iter().filter_map(|o| as_meta(&o).map(Ok));
        pages.map_ok(move |page| stream::iter(objects(page))).try_flatten().boxed()
    }

    /// What is directly in the directory `prefix`.
    pub(super) async fn level(&self, prefix: Option<&Path>) -> Result<ListResult> {
        let mut pages = self.pages(OpenWalk { below: below(prefix), after: None, one_level: true });
        let (mut objects, mut common_prefixes) = (Vec::new(), Vec::new());
        while let Some(page) = pages.try_next().await? {
            objects.extend(page.objects.iter().filter_map(as_meta));
            let directories = page.directories.iter().map(|key| &key[..key.len() - 1]);
            common_prefixes.extend(directories.filter_map(as_path));
        }
        Ok(ListResult { common_prefixes, objects, extensions: Default::default() })
    }
}

/// The key of a directory of the library's.
fn below(prefix: Option<&Path>) -> Vec<u8> {
    let prefix = prefix.map(Path::as_ref).unwrap_or_default();
    if prefix.is_empty() { Vec::new() } else { format!("{prefix}/").into_bytes() }
}

impl Walk {
    /// The next entries, `limit` at most, and the walk behind them.
    pub(crate) async fn page(mut self, limit: usize) -> Result<(Walk, Page)> {
        let path = self.store.root.clone();
        let work = move || {
            // An empty directory in the place of ours is not one whose objects are gone.
            let root = self.store.root()?;
            let page = self.read(&root, limit)?;
            Ok((self, page))
        };
        blocking(path, work).await
    }

    fn read(&mut self, root: &Root, limit: usize) -> io::Result<Page> {
        let mut page = Page::default();
        if self.levels.is_empty() {
            let below = self.open.below.clone();
            self.enter(root, below)?;
        }
        while page.objects.len() + page.directories.len() < limit {
            let Some(level) = self.levels.last_mut() else { return Ok(page) };
            let Some(name) = level.names.next() else {
                self.levels.pop();
                continue;
            };
            let key = [level.key.as_slice(), &name].concat();
            let after = self.open.after.as_deref();
            let is_directory = key.ends_with(b"/");
            let over = after.is_some_and(|after| key.as_slice() <= after);
            if is_directory && !self.open.one_level {
                if !over || after.is_some_and(|after| after.starts_with(&key)) {
                    self.enter(root, key)?;
                }
            } else if over {
            } else if is_directory {
                page.directories.push(key);
            } else if let Some(meta) = gone_is_none(root.directory.look(&key))?
                && !meta.is_dir()
            {
                page.objects.push(listed(key, &meta));
            }
        }
        page.truncated = true;
        Ok(page)
    }

    /// Goes down into a directory, unless it is gone.
    fn enter(&mut self, root: &Root, key: Vec<u8>) -> io::Result<()> {
        let opened = root.directory.directory(&key).and_then(|directory| directory.names());
        let Some(found) = gone_is_none(opened)? else { return Ok(()) };
        let mut names = Vec::with_capacity(found.len());
        for (mut name, kind) in found {
            let is_directory = match kind {
                FileType::Unknown => {
                    let path = [key.as_slice(), &name].concat();
                    gone_is_none(root.directory.look(&path))?.is_some_and(|meta| meta.is_dir())
                }
                kind => kind == FileType::Directory,
            };
            if is_directory {
                name.push(b'/');
            } else if is_leftover(&name) {
                continue;
            }
            names.push(name);
        }
        names.sort_unstable();
        self.levels.push(Level { key, names: names.into_iter() });
        Ok(())
    }
}

fn gone_is_none<T>(result: io::Result<T>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) => match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Ok(None),
            _ => Err(error),
        },
    }
}

fn listed(key: Vec<u8>, meta: &Metadata) -> ListedObject {
    let modified_ms = meta.mtime() * 1000 + meta.mtime_nsec() / 1_000_000;
    ListedObject {
        key,
        size: meta.len(),
        etag: Some(etag(meta)),
        last_modified_unix_ms: modified_ms,
        cannot_show: cannot_show(meta),
    }
}

/// Why what is there is no object, if it is none.
fn cannot_show(meta: &Metadata) -> Option<&'static str> {
    match FileType::from_raw_mode(meta.mode()) {
        FileType::RegularFile => None,
        FileType::Symlink => Some("it is a symbolic link in the bucket's directory"),
        FileType::Fifo => Some("it is a pipe"),
        FileType::Socket => Some("it is a socket"),
        _ => Some("it is a device"),
    }
}

/// An object as the library lists it, if it is one that the library can name.
fn as_meta(object: &ListedObject) -> Option<ObjectMeta> {
    let location = as_path(&object.key).filter(|_| object.cannot_show.is_none())?;
    Some(ObjectMeta {
        location,
        last_modified: DateTime::from_timestamp_millis(object.last_modified_unix_ms)?,
        size: object.size,
        e_tag: object.etag.clone(),
        version: None,
    })
}
