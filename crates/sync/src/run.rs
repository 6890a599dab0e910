//! A whole run: listing, comparing, copying, and at the end what can only be done then.

use std::collections::{HashMap, HashSet};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use futures::{StreamExt, TryStreamExt};
use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::Serialize;
use weir_types::{ErrorKind, FsError, Result};

use crate::compare::{Comparison, Step, compare};
use crate::entry::{Entry, Kind};
use crate::place::Place;
use crate::scope::Scope;
use crate::walk::{blocking, local, root_entry, walk};
use crate::{bucket, directory};

/// Failed files that are named.
const NAMED_MAX: usize = 20;

/// How a tree is copied.
#[derive(Clone, Debug)]
pub struct Options {
    /// When two files are taken for the same.
    pub comparison: Comparison,
    /// Whether what only the destination has is deleted.
    pub delete: bool,
    /// Whether that is meant although the source is empty.
    pub empty: bool,
    /// Whether nothing is changed, only counted.
    pub dry_run: bool,
    /// Whether what was written is read again and held against what was read first.
    pub verify: bool,
    /// Files that are copied at once.
    pub jobs: usize,
    /// Whether the source is an earlier state of the destination, in the same file system, which may lie in it where no
    /// listing shows it. Bytes are shared then as far as the file system can, and all attributes compared of what changed.
    pub snapshot: bool,
    /// Which part of both trees this is about.
    pub scope: Scope,
}

/// How far a run is. It may be read while it goes on, and told to end.
#[derive(Debug, Default)]
pub struct Progress {
    /// Entries of the source that were listed.
    pub seen: AtomicU64,
    /// Bytes of files that differ, of those listed up to now.
    pub bytes_found: AtomicU64,
    /// Bytes that were copied.
    pub bytes_done: AtomicU64,
    /// Files that were copied.
    pub files_done: AtomicU64,
    /// Whether all is listed, so that `bytes_found` is final.
    pub listed: AtomicBool,
    /// Set to end the run: files under way are left as they were.
    pub cancelled: AtomicBool,
}

/// What a run did, or would have done.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Report {
    /// Files, links and directories that were copied, or whose attributes were set.
    pub copied: u64,
    /// Bytes of files that were copied.
    pub bytes: u64,
    /// Entries that were as they should be.
    pub same: u64,
    /// What only the destination had, and was deleted.
    pub deleted: u64,
    /// What only the destination has, and stays.
    pub extra: u64,
    /// Keys that cannot be names; to buckets also devices, sockets and pipes, and to directories devices that only root
    /// makes.
    pub skipped: u64,
    /// Entries that could not be copied or deleted, and directories that could not be listed.
    pub failed: u64,
    /// The first of them.
    pub failures: Vec<Unsynced>,
}

impl Report {
    /// Takes in what another run did.
    pub fn add(&mut self, other: Report) {
        self.copied += other.copied;
        self.bytes += other.bytes;
        self.same += other.same;
        self.deleted += other.deleted;
        self.extra += other.extra;
        self.skipped += other.skipped;
        self.failed += other.failed;
        self.failures.extend(other.failures);
        self.failures.truncate(NAMED_MAX);
    }
}

/// What could not be copied.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Unsynced {
    /// Its path below the source, or below the destination for what was to be deleted.
    pub path: String,
    /// Why.
    pub error: String,
}

/// Makes `to` like `from`. Running it again goes on where it was broken off, and changes nothing
/// where nothing changed.
///
/// On buckets: a LIST for each 1,000 keys; for each file that differs a PUT, or one for each part
/// of 16 MiB or more and two more; for each object that is read a HEAD and a GET for each 16 MiB.
///
/// # Errors
/// `Invalid` if one place is in the other, or if all would be deleted because the source is empty;
/// errors of a bucket's listing. What fails for one path only is in the report.
pub async fn sync(
    from: &Place,
    to: &Place,
    options: &Options,
    progress: &Arc<Progress>,
) -> Result<Report> {
    if from.overlaps(to) && !options.snapshot {
        let text = format!("{} and {} are in each other: choose others", from.shown(), to.shown());
        return Err(FsError::new(ErrorKind::Invalid, text));
    }
    let private = match (from, to) {
        (Place::Directory(_), Place::Directory(root)) => Some(Place::Directory(root.private())),
        _ => None,
    };
    let to = private.as_ref().unwrap_or(to);
    let run = Run { from, to, options, progress, state: Mutex::default() };
    if let (Place::Directory(from), Place::Directory(to), None) = (from, to, &options.scope.only) {
        let (ours, theirs) = (root_entry(from).map_err(local)?, root_entry(to).map_err(local)?);
        let mut state = run.state.lock();
        if ours != theirs {
            state.touched.insert(Vec::new());
        }
        state.directories.push(ours);
    }
    let (ours, theirs) = (walk(from, &options.scope), walk(to, &options.scope));
    let steps = compare((ours, from), (theirs, to), options.comparison);
    // What is under way when it is broken off cleans up after itself.
    let going = || !progress.cancelled.load(Ordering::Relaxed);
    let steps = steps.take_while(|_| std::future::ready(going()));
    let steps = steps.inspect_ok(|step| run.note_first_name(step));
    steps.try_for_each_concurrent(options.jobs.max(1), |step| run.step(step)).await?;
    if !going() {
        let text = "broken off: run it again to go on";
        return Err(FsError::new(ErrorKind::Retry, text));
    }
    progress.listed.store(true, Ordering::Relaxed);
    run.finish().await
}

pub(crate) struct Run<'a> {
    pub(crate) from: &'a Place,
    pub(crate) to: &'a Place,
    pub(crate) options: &'a Options,
    pub(crate) progress: &'a Arc<Progress>,
    pub(crate) state: Mutex<Gathered>,
}

/// What is kept until the end.
#[derive(Default)]
pub(crate) struct Gathered {
    pub(crate) report: Report,
    /// The source's directories, and those in which something was changed, by path: their times
    /// change with it.
    pub(crate) directories: Vec<Entry>,
    pub(crate) touched: HashSet<Vec<u8>>,
    /// Files with several names: the first one, and the others.
    names: HashMap<(u64, u64), First>,
    pub(crate) again: Vec<(Vec<u8>, Entry)>,
    pub(crate) extra: Vec<Entry>,
    /// What could not be copied before what is extra is deleted: it may be in the way.
    pub(crate) late: Vec<Entry>,
    /// What was deleted is.
    pub(crate) cleared: bool,
    /// Part of the source is not known.
    pub(crate) unlisted: bool,
}

impl Gathered {
    /// The directory of this path was changed.
    pub(crate) fn touch(&mut self, path: &[u8]) {
        let at = path.iter().rposition(|byte| *byte == b'/').unwrap_or(0);
        self.touched.insert(path[..at].to_vec());
    }
}

/// The first name of a file that has several.
struct First {
    path: Vec<u8>,
    /// Device and inode of what is the same at the destination, if that has other names, too.
    there: Option<(u64, u64)>,
}

impl Run<'_> {
    async fn step(&self, step: Step) -> Result<()> {
        if matches!(step, Step::Copy(_) | Step::Same { .. }) {
            self.progress.seen.fetch_add(1, Ordering::Relaxed);
        }
        match step {
            Step::Same { entry, shared, .. } if self.is_apart(&entry, shared) => {
                self.copy(entry).await?;
            }
            Step::Same { entry, changed: true, .. } if self.is_other(&entry).await => {
                self.copy(entry).await?;
            }
            Step::Same { entry, .. } => {
                let mut state = self.state.lock();
                state.report.same += 1;
                if entry.kind == Kind::Directory {
                    state.directories.push(entry);
                }
            }
            Step::Extra(entry) => {
                let mut state = self.state.lock();
                match self.options.delete {
                    true => state.extra.push(entry),
                    false => state.report.extra += 1,
                }
            }
            Step::Unlisted { source, path, error } => {
                let mut state = self.state.lock();
                state.unlisted |= source;
                drop(state);
                self.fail(&String::from_utf8_lossy(&path), &error);
            }
            Step::Copy(entry) => self.copy(entry).await?,
        }
        Ok(())
    }

    /// Notes which name of a file with several comes first: in the order of the listing, whatever is done first.
    fn note_first_name(&self, step: &Step) {
        let (entry, there) = match step {
            Step::Same { entry, shared, .. } => (entry, *shared),
            Step::Copy(entry) => (entry, None),
            _ => return,
        };
        if let Some(shared) = entry.owner.and_then(|owner| owner.shared) {
            let first = || First { path: entry.path.clone(), there };
            self.state.lock().names.entry(shared).or_insert_with(first);
        }
    }

    /// Whether a file that is the same is not the one file there of which it is a further name here.
    fn is_apart(&self, entry: &Entry, there: Option<(u64, u64)>) -> bool {
        let Some(shared) = entry.owner.and_then(|owner| owner.shared) else { return false };
        let state = self.state.lock();
        let first = state.names.get(&shared);
        let further = first.filter(|first| first.path != entry.path);
        matches!(self.to, Place::Directory(_))
            && further.is_some_and(|first| there.is_none() || first.there != there)
    }

    /// Whether attributes differ that are not in a listing. If that cannot be told the file is copied.
    async fn is_other(&self, entry: &Entry) -> bool {
        let (Place::Directory(from), Place::Directory(to)) = (self.from, self.to) else {
            return false;
        };
        if !self.options.snapshot || !matches!(entry.kind, Kind::File { .. } | Kind::Directory) {
            return false;
        }
        let (from, to, path) = (from.clone(), to.clone(), entry.path.clone());
        let same = blocking(move || directory::has_same_attributes(&from, &to, &path));
        !same.await.unwrap_or(false)
    }

    pub(crate) async fn copy(&self, entry: Entry) -> Result<()> {
        if self.is_skipped(&entry.kind) {
            self.state.lock().report.skipped += 1;
            return Ok(());
        }
        self.progress.bytes_found.fetch_add(entry.size(), Ordering::Relaxed);
        if matches!((&entry.kind, self.to), (Kind::Directory, Place::Bucket(_))) {
            return Ok(());
        }
        if self.is_another_name(&entry) {
            return Ok(());
        }
        let done = match self.options.dry_run {
            true => Ok(()),
            false => self.copy_now(&entry).await,
        };
        match done {
            Ok(()) => {
                let mut state = self.state.lock();
                state.report.copied += 1;
                state.report.bytes += entry.size();
                state.touch(&entry.path);
                if entry.kind == Kind::Directory {
                    state.touched.insert(entry.path.clone());
                    state.directories.push(entry);
                } else {
                    self.progress.files_done.fetch_add(1, Ordering::Relaxed);
                }
                Ok(())
            }
            Err(_) if self.progress.cancelled.load(Ordering::Relaxed) => Ok(()),
            // All others would fail, too.
            Err(error) if matches!(error.kind(), ErrorKind::NoSpace | ErrorKind::ReadOnly) => {
                Err(error.within(entry.shown()))
            }
            Err(error) => {
                let mut state = self.state.lock();
                match self.options.delete && !state.cleared {
                    true => {
                        self.progress.bytes_found.fetch_sub(entry.size(), Ordering::Relaxed);
                        state.late.push(entry);
                    }
                    false => {
                        drop(state);
                        self.fail(&entry.shown(), &error);
                    }
                }
                Ok(())
            }
        }
    }

    /// Objects are files; and only root makes devices.
    fn is_skipped(&self, kind: &Kind) -> bool {
        match kind {
            Kind::Special => true,
            Kind::Node { device, .. } => {
                let may = *device == 0 || rustix::process::geteuid().is_root();
                matches!(self.to, Place::Bucket(_)) || !may
            }
            _ => false,
        }
    }

    /// Notes a file that is copied under another name already: it becomes a name of that.
    fn is_another_name(&self, entry: &Entry) -> bool {
        let (Some(shared), Place::Directory(_)) =
            (entry.owner.and_then(|owner| owner.shared), self.to)
        else {
            return false;
        };
        let mut state = self.state.lock();
        match state.names.get(&shared).map(|first| first.path.clone()) {
            Some(first) if first != entry.path => {
                state.again.push((first, entry.clone()));
                true
            }
            _ => false,
        }
    }

    async fn copy_now(&self, entry: &Entry) -> Result<()> {
        let moved = |bytes: u64| {
            self.progress.bytes_done.fetch_add(bytes, Ordering::Relaxed);
            match self.progress.cancelled.load(Ordering::Relaxed) {
                true => Err(FsError::new(ErrorKind::Retry, "cancelled")),
                false => Ok(()),
            }
        };
        let hash = match (self.from, self.to) {
            (_, Place::Directory(root)) if !matches!(entry.kind, Kind::File { .. }) => {
                let (root, entry) = (root.clone(), entry.clone());
                let made = blocking(move || match &entry.kind {
                    Kind::Symlink { target } => directory::link(&root, &entry, target),
                    Kind::Node { type_bits, device } => {
                        directory::node(&root, &entry, *type_bits, *device)
                    }
                    _ => root.make_directory(&entry.path),
                });
                return made.await.map_err(local);
            }
            (Place::Directory(from), Place::Directory(to)) => {
                let (from, to, entry) = (from.clone(), to.clone(), entry.clone());
                let share = self.options.snapshot;
                self.watched(move |step| directory::copy(&from, &to, &entry, share, step)).await?
            }
            (Place::Bucket(from), Place::Directory(to)) => {
                bucket::get(from, to, entry, &moved).await?
            }
            (Place::Directory(from), Place::Bucket(to)) => {
                bucket::put(from, to, entry, &moved).await?;
                None
            }
            (Place::Bucket(from), Place::Bucket(to)) => {
                bucket::copy(from, to, entry, &moved).await?;
                None
            }
        };
        match self.options.verify && matches!(entry.kind, Kind::File { .. }) {
            true => self.verify(entry, hash).await,
            false => Ok(()),
        }
    }

    /// Reads the copy again, and the source where what was read of it is not known.
    async fn verify(&self, entry: &Entry, hash: Option<u64>) -> Result<()> {
        let wanted = match hash {
            Some(hash) => hash,
            None => self.hash(self.from, entry).await?,
        };
        match self.hash(self.to, entry).await? == wanted {
            true => Ok(()),
            false => {
                let text = "the copy has other bytes than what was read: run it again, and look \
                            after the disks and the memory of this machine";
                Err(FsError::new(ErrorKind::Corrupt, text))
            }
        }
    }

    async fn hash(&self, place: &Place, entry: &Entry) -> Result<u64> {
        match place {
            Place::Bucket(bucket) => bucket::hash(bucket, entry).await,
            Place::Directory(root) => {
                let (root, path) = (root.clone(), entry.path.clone());
                self.watched(move |step| directory::hash(&root, &path, step)).await
            }
        }
    }

    /// Runs what moves bytes on a thread that may wait, until the run is cancelled.
    async fn watched<T: Send + 'static>(
        &self,
        work: impl FnOnce(&dyn Fn(u64) -> io::Result<()>) -> io::Result<T> + Send + 'static,
    ) -> Result<T> {
        let progress = self.progress.clone();
        let done = blocking(move || {
            work(&|bytes| {
                progress.bytes_done.fetch_add(bytes, Ordering::Relaxed);
                match progress.cancelled.load(Ordering::Relaxed) {
                    true => Err(io::Error::other("cancelled")),
                    false => Ok(()),
                }
            })
        });
        done.await.map_err(local)
    }

    pub(crate) fn fail(&self, path: &str, error: &FsError) {
        let mut state = self.state.lock();
        state.report.failed += 1;
        if state.report.failures.len() < NAMED_MAX {
            let unsynced = Unsynced { path: path.to_owned(), error: error.to_string() };
            state.report.failures.push(unsynced);
        }
    }
}
