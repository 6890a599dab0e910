//! A disk that fails as a test wants it.
//!
//! A [`Plan`] counts the operations on files below a directory and lets one of them go wrong. Plans
//! of different directories do not know of each other, so tests may run side by side.

use std::collections::HashSet;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard, RwLock};

use super::op::{Op, Turn};

/// How the one operation goes wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It fails with this number (of errno.h), and nothing is done.
    Fail(i32),
    /// A write is done in half and fails with ENOSPC; others just fail.
    Short,
    /// A write is done; what it wrote is lost on its way to the disk, and the kernel says so when it
    /// is asked next, once. Others fail with EIO.
    Lost,
    /// The process dies there: it and all that follow fail.
    Crash,
}

/// What goes wrong below a directory, and when.
#[derive(Debug)]
pub struct Plan {
    root: PathBuf,
    /// The operation that goes wrong, counted from 1; 0 for none.
    at: u64,
    fault: Fault,
    /// Only operations of this kind count, if it is given.
    only: Option<Op>,
    count: AtomicU64,
    hit: Mutex<Option<(Op, PathBuf)>>,
    crashed: AtomicBool,
    untold: Mutex<Untold>,
    /// Nothing goes wrong any more; what was lost still is.
    calm: AtomicBool,
}

/// What was lost and nobody was told of, as the kernel keeps it: for each file, and for the file
/// system.
#[derive(Debug, Default)]
struct Untold {
    inodes: HashSet<u64>,
    file_system: bool,
}

impl Untold {
    /// Whether somebody is told now.
    fn tell(&mut self, op: Op, inode: Option<u64>) -> bool {
        match op {
            Op::Ask | Op::Sync => inode.is_some_and(|inode| self.inodes.remove(&inode)),
            Op::SyncAll => std::mem::take(&mut self.file_system),
            _ => false,
        }
    }
}

static PLANS: RwLock<Vec<Arc<Plan>>> = RwLock::new(Vec::new());

static INSTANCES: Mutex<Vec<(PathBuf, String)>> = Mutex::new(Vec::new());

/// From here on the file system of `directory` is said to be this one; another name than before
/// says that it was mounted anew.
pub fn pretend_instance(directory: &Path, name: &str) {
    let mut all = INSTANCES.lock();
    all.retain(|(of, _)| of != directory);
    all.push((directory.to_owned(), name.to_owned()));
}

pub(crate) fn pretended_instance(directory: &Path) -> Option<String> {
    let all = INSTANCES.lock();
    all.iter().find(|(of, _)| directory.starts_with(of)).map(|(_, name)| name.clone())
}

/// A plan in force; dropping it ends that.
#[derive(Debug)]
pub struct Laid(Arc<Plan>);

impl Plan {
    /// Operation `at` (from 1; 0 for none) below `root` goes wrong; with `only`, of that kind.
    pub fn lay(root: &Path, at: u64, fault: Fault, only: Option<Op>) -> Laid {
        let plan = Arc::new(Self {
            root: root.to_owned(),
            at,
            fault,
            only,
            count: AtomicU64::new(0),
            hit: Mutex::default(),
            crashed: AtomicBool::new(false),
            untold: Mutex::default(),
            calm: AtomicBool::new(false),
        });
        PLANS.write().push(plan.clone());
        Laid(plan)
    }

    fn turn(&self, op: Op, path: &Path, inode: Option<u64>) -> io::Result<Turn> {
        if self.crashed.load(Ordering::Acquire) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if self.untold().tell(op, inode) {
            return Err(io::Error::from_raw_os_error(libc::EIO));
        }
        if self.calm.load(Ordering::Acquire) {
            return Ok(Turn::Whole);
        }
        // Asking is not something that goes wrong by itself.
        if op == Op::Ask || self.only.is_some_and(|only| only != op) {
            return Ok(Turn::Whole);
        }
        if self.count.fetch_add(1, Ordering::AcqRel) + 1 != self.at {
            return Ok(Turn::Whole);
        }
        *self.hit.lock() = Some((op, path.to_owned()));
        match self.fault {
            Fault::Fail(errno) => Err(io::Error::from_raw_os_error(errno)),
            Fault::Short if op == Op::Write => Ok(Turn::Short),
            Fault::Short => Err(full()),
            Fault::Lost if op == Op::Write => Ok(Turn::Lost),
            Fault::Lost => Err(io::Error::from_raw_os_error(libc::EIO)),
            Fault::Crash => {
                self.crashed.store(true, Ordering::Release);
                Err(io::Error::from_raw_os_error(libc::EIO))
            }
        }
    }

    fn untold(&self) -> MutexGuard<'_, Untold> {
        self.untold.lock()
    }
}

impl Laid {
    /// Operations counted so far.
    pub fn count(&self) -> u64 {
        self.0.count.load(Ordering::Acquire)
    }

    /// The operation that went wrong, if it did.
    pub fn hit(&self) -> Option<(Op, PathBuf)> {
        self.0.hit.lock().clone()
    }

    /// From here on nothing goes wrong; who was not told yet of what was lost still is.
    pub fn calm(&self) {
        self.0.crashed.store(false, Ordering::Release);
        self.0.calm.store(true, Ordering::Release);
    }

    /// From here on all operations fail.
    pub fn crash(&self) {
        self.0.crashed.store(true, Ordering::Release);
    }
}

impl Drop for Laid {
    fn drop(&mut self) {
        let mut plans = PLANS.write();
        plans.retain(|plan| !Arc::ptr_eq(plan, &self.0));
    }
}

fn plan_for(path: &Path) -> Option<Arc<Plan>> {
    let plans = PLANS.read();
    plans.iter().find(|plan| path.starts_with(&plan.root)).cloned()
}

pub(super) fn turn_of(op: Op, path: &Path) -> io::Result<Turn> {
    plan_for(path).map_or(Ok(Turn::Whole), |plan| plan.turn(op, path, None))
}

pub(super) fn turn_of_file(op: Op, file: &File) -> io::Result<Turn> {
    if PLANS.read().is_empty() {
        return Ok(Turn::Whole);
    }
    let path = path_of(file)?;
    let Some(plan) = plan_for(&path) else { return Ok(Turn::Whole) };
    plan.turn(op, &path, Some(file.metadata()?.ino()))
}

fn path_of(file: &File) -> io::Result<PathBuf> {
    std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
}

pub(super) fn full() -> io::Error {
    io::Error::from_raw_os_error(libc::ENOSPC)
}

/// Loses what was written, as a failed write to the disk does once the page is needed for others.
pub(super) fn lose(file: &File, offset: u64, bytes: u64) -> io::Result<()> {
    use rustix::fs::{FallocateFlags, fallocate};
    if bytes > 0 {
        let flags = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
        fallocate(file, flags, offset, bytes)?;
    }
    let path = path_of(file)?;
    if let Some(plan) = plan_for(&path) {
        let inode = file.metadata()?.ino();
        let mut untold = plan.untold();
        untold.inodes.insert(inode);
        untold.file_system = true;
    }
    Ok(())
}
