//! The entries of a place, in the order of keys.

use std::collections::HashMap;
use std::ffi::CStr;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use futures::stream::{self, BoxStream};
use futures::{StreamExt, TryStreamExt};
use rustix::fs::{AtFlags, Dir, FileType, Mode, Stat};
use tokio::task::JoinError;
use weir_object::{Bucket, Component, KeyPage, KeyRange, ListedObject, is_addressable};
use weir_types::{ErrorKind, FsError, Result};

use crate::entry::{Entry, Kind, Owner};
use crate::place::{Place, Root};
use crate::scope::Scope;
use crate::unfinished::is_unfinished;

/// Directories of one level that are read ahead.
const AHEAD: usize = 8;
/// Pages of a bucket that are listed at once.
const LISTS_AT_ONCE: usize = 4;
/// Files that one thread looks at: NFS answers each after a millisecond.
const LOOKED_AT_ONCE: usize = 128;

/// What a listing meets: an entry, or a part that cannot be listed.
pub(crate) enum Found {
    Entry(Entry),
    /// What is below this path is not known.
    Unlisted {
        path: Vec<u8>,
        error: FsError,
    },
}

/// Everything in a place, in the order of keys. The place itself is not among it.
///
/// # Errors
/// Of a bucket: those of its listing, which ends with it. Directories that cannot be read are
/// [`Found::Unlisted`].
pub(crate) fn walk(place: &Place, scope: &Scope) -> BoxStream<'static, Result<Found>> {
    match place {
        Place::Directory(root) => {
            let tree = Tree { root: root.clone(), scope: Arc::new(scope.clone()) };
            let listed = async move { Ok(tree.list(Vec::new()).await.walk(tree)) };
            stream::once(listed).try_flatten().boxed()
        }
        Place::Bucket(bucket) => objects(bucket),
    }
}

/// A directory, and what of it is looked at.
#[derive(Clone)]
struct Tree {
    root: Root,
    scope: Arc<Scope>,
}

/// Pages are listed ahead, and handed on in order.
fn objects(bucket: &Bucket) -> BoxStream<'static, Result<Found>> {
    let pages = bucket.scan_keys(Component::Data, KeyRange::default(), LISTS_AT_ONCE);
    let waiting: HashMap<Option<Vec<u8>>, KeyPage> = HashMap::new();
    let in_order =
        stream::try_unfold((pages, waiting, Some(None)), |(mut pages, mut waiting, next)| async {
            let Some(after) = next else { return Ok(None) };
            loop {
                if let Some(page) = waiting.remove(&after) {
                    let next = page.until.clone().map(Some);
                    return Ok(Some((page.objects, (pages, waiting, next))));
                }
                match pages.try_next().await? {
                    Some(page) => drop(waiting.insert(page.after.clone(), page)),
                    None => return Ok(None),
                }
            }
        });
    let found =
        |objects: Vec<ListedObject>| stream::iter(objects).map(|object| Ok(object_found(object)));
    in_order.map_ok(found).try_flatten().boxed()
}

fn object_found(object: ListedObject) -> Found {
    let odd = object.cannot_show.is_some() || !is_addressable(&object.key);
    let kind = match odd {
        true => Kind::Special,
        false => Kind::File { size: object.size },
    };
    let mtime_ns = i128::from(object.last_modified_unix_ms) * 1_000_000;
    Found::Entry(Entry { path: object.key, kind, mtime_ns, owner: None })
}

/// A directory that was read: its entries in order, or why not.
struct Listed {
    path: Vec<u8>,
    entries: io::Result<Vec<Entry>>,
}

impl Listed {
    /// Its entries, each directory followed by what is in it.
    fn walk(self, tree: Tree) -> BoxStream<'static, Result<Found>> {
        let entries = match self.entries {
            Ok(entries) => entries,
            Err(error) => {
                let error = FsError::local_io("read the directory", error);
                let unlisted = Found::Unlisted { path: self.path, error };
                return stream::once(async { Ok(unlisted) }).boxed();
            }
        };
        let again = tree.clone();
        stream::iter(entries)
            .map(move |entry| {
                let tree = again.clone();
                async move {
                    let below = match entry.kind {
                        Kind::Directory => Some(tree.list(entry.path.clone()).await),
                        _ => None,
                    };
                    (entry, below)
                }
            })
            .buffered(AHEAD)
            .flat_map(move |(entry, below)| {
                let first = stream::once(async { Ok(Found::Entry(entry)) });
                match below {
                    None => first.boxed(),
                    Some(below) => first.chain(below.walk(tree.clone())).boxed(),
                }
            })
            .boxed()
    }
}

impl Tree {
    async fn list(&self, path: Vec<u8>) -> Listed {
        let entries = self.read(path.clone()).await;
        Listed { path, entries }
    }

    async fn read(&self, path: Vec<u8>) -> io::Result<Vec<Entry>> {
        let (Tree { root, scope }, prefix) = (self.clone(), path.clone());
        let opened = blocking(move || {
            let directory = Arc::new(root.open_directory(&prefix)?);
            let mut names = Vec::new();
            for entry in Dir::read_from(&*directory)? {
                let name = entry?.file_name().to_owned();
                let skipped =
                    matches!(name.to_bytes(), b"." | b"..") || is_unfinished(name.to_bytes());
                if !skipped && scope.has(&below(&prefix, &name)) {
                    names.push(name);
                }
            }
            Ok((directory, names))
        });
        let (directory, names) = opened.await?;
        let chunks: Vec<Vec<_>> = names.chunks(LOOKED_AT_ONCE).map(<[_]>::to_vec).collect();
        let looks = stream::iter(chunks).map(|names| {
            let (directory, path) = (directory.clone(), path.clone());
            blocking(move || {
                let looked =
                    names.iter().filter_map(|name| look(&directory, &path, name).transpose());
                looked.collect::<io::Result<Vec<Entry>>>()
            })
        });
        let mut entries = looks.buffer_unordered(AHEAD).try_concat().await?;
        entries.sort_by(Entry::order);
        Ok(entries)
    }
}

/// The place itself, as an entry.
pub(crate) fn root_entry(root: &Root) -> io::Result<Entry> {
    let found = rustix::fs::fstat(&*root.fd)?;
    let (path, kind) = (Vec::new(), Kind::Directory);
    Ok(Entry { path, kind, mtime_ns: mtime_ns(&found), owner: Some(owner(&found)) })
}

/// What a name is; none if it is gone.
fn look(directory: &OwnedFd, path: &[u8], name: &CStr) -> io::Result<Option<Entry>> {
    let found = match rustix::fs::statat(directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(rustix::io::Errno::NOENT) => return Ok(None),
        found => found?,
    };
    let whole = below(path, name);
    let kind = match FileType::from_raw_mode(found.st_mode) {
        FileType::RegularFile => Kind::File { size: u64::try_from(found.st_size).unwrap_or(0) },
        FileType::Directory => Kind::Directory,
        FileType::Symlink => match rustix::fs::readlinkat(directory, name, Vec::new()) {
            Err(rustix::io::Errno::NOENT) => return Ok(None),
            target => Kind::Symlink { target: target?.into_bytes() },
        },
        _ => Kind::Node { type_bits: found.st_mode & !0o7777, device: found.st_rdev },
    };
    Ok(Some(Entry { path: whole, kind, mtime_ns: mtime_ns(&found), owner: Some(owner(&found)) }))
}

fn below(path: &[u8], name: &CStr) -> Vec<u8> {
    match path {
        b"" => name.to_bytes().to_vec(),
        path => [path, name.to_bytes()].join(&b'/'),
    }
}

pub(crate) fn mtime_ns(found: &Stat) -> i128 {
    i128::from(found.st_mtime) * 1_000_000_000 + i128::from(found.st_mtime_nsec)
}

fn owner(found: &Stat) -> Owner {
    let several =
        found.st_nlink > 1 && FileType::from_raw_mode(found.st_mode) == FileType::RegularFile;
    Owner {
        mode: Mode::from_raw_mode(found.st_mode).bits() & 0o7777,
        user: found.st_uid,
        group: found.st_gid,
        ctime_ns: i128::from(found.st_ctime) * 1_000_000_000 + i128::from(found.st_ctime_nsec),
        shared: several.then_some((found.st_dev, found.st_ino)),
    }
}

/// Runs what waits for disks on a thread that may.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> io::Result<T> + Send + 'static,
) -> io::Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|error: JoinError| Err(io::Error::other(error)))
}

/// An error of a directory, as one of a place.
pub(crate) fn local(error: io::Error) -> FsError {
    let text = match error.raw_os_error() {
        Some(code) if code == rustix::io::Errno::LOOP.raw_os_error() => {
            let text = "a symbolic link is where a directory should be: remove it";
            return FsError::new(ErrorKind::Invalid, text);
        }
        _ => error.to_string(),
    };
    FsError::local_io(text, error)
}
