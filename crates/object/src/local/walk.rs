//! A directory tree in the order of its keys, page by page, with names as the bytes that they are.

use std::ffi::OsStr;
use std::fs::{self, Metadata};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::vec::IntoIter;

use object_store::path::Path;
use object_store::{GetResult, GetResultPayload, ObjectMeta, Result};

use super::{LocalStore, blocking, etag, generic};
use crate::keys::{ListedObject, Page};

/// Asks the store for a walk, by way of `get_opts`.
#[derive(Clone, Debug)]
pub(crate) struct OpenWalk {
    /// Empty, or ending with a slash.
    pub(crate) below: Vec<u8>,
    pub(crate) after: Option<Vec<u8>>,
    pub(crate) one_level: bool,
}

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
    /// Device and inode, to know a symbolic link that leads back up.
    id: (u64, u64),
    /// Key of the directory: empty, or ending with a slash.
    key: Vec<u8>,
    /// Names in the order of their keys, those of directories with a slash at their end.
    names: IntoIter<Vec<u8>>,
}

/// The walk in an answer of the store.
pub(crate) fn opened(answer: GetResult) -> Result<Walk> {
    let handle = answer.extensions.get::<Handle>();
    let walk = handle.and_then(|h| h.0.lock().unwrap_or_else(PoisonError::into_inner).take());
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

impl Walk {
    /// The next entries, `limit` at most, and the walk behind them.
    pub(crate) async fn page(mut self, limit: usize) -> Result<(Walk, Page)> {
        let root = self.store.root.clone();
        let work = move || {
            let page = self.read(limit)?;
            // An empty directory in the place of ours is not one whose objects are gone.
            self.store.check_root()?;
            Ok((self, page))
        };
        blocking(root, work).await
    }

    fn read(&mut self, limit: usize) -> io::Result<Page> {
        let mut page = Page::default();
        if self.levels.is_empty() {
            let below = self.open.below.clone();
            self.enter(below)?;
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
                    self.enter(key)?;
                }
            } else if over {
            } else if is_directory {
                page.directories.push(key);
            } else if let Some(meta) = gone_is_none(fs::metadata(self.path(&key)))?
                && meta.is_file()
            {
                page.objects.push(listed(key, &meta));
            }
        }
        page.truncated = true;
        Ok(page)
    }

    fn path(&self, key: &[u8]) -> PathBuf {
        self.store.root.join(OsStr::from_bytes(key))
    }

    /// Goes down into a directory, unless it is gone or a link back up.
    fn enter(&mut self, key: Vec<u8>) -> io::Result<()> {
        let path = self.path(&key);
        let Some(meta) = gone_is_none(fs::metadata(&path))? else { return Ok(()) };
        let id = (meta.dev(), meta.ino());
        if !meta.is_dir() || self.levels.iter().any(|level| level.id == id) {
            return Ok(());
        }
        let Some(entries) = gone_is_none(fs::read_dir(&path))? else { return Ok(()) };
        let mut names = Vec::new();
        for entry in entries {
            let entry = entry?;
            let kind = entry.file_type()?;
            let mut name = entry.file_name().into_vec();
            let is_directory = kind.is_dir()
                || (kind.is_symlink() && fs::metadata(entry.path()).is_ok_and(|m| m.is_dir()));
            if is_directory {
                name.push(b'/');
            } else if is_leftover(&name) {
                continue;
            }
            names.push(name);
        }
        names.sort_unstable();
        self.levels.push(Level { id, key, names: names.into_iter() });
        Ok(())
    }
}

/// Whether it is a name of ours that is no object: `#` and digits at its end.
fn is_leftover(name: &[u8]) -> bool {
    let tail = name.iter().position(|byte| *byte == b'#').map(|at| &name[at + 1..]);
    tail.is_some_and(|tail| !tail.is_empty() && tail.iter().all(u8::is_ascii_digit))
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
    }
}
