//! Whose I/O it is: areas of the tree, and the clients that work in them.
//!
//! An area is a directory below the root with all that is in it, or one that has a rule of its own,
//! or the rest of the volume. Where a file belongs is told by the directory it was made in or moved
//! to last.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::{Mutex, MutexGuard};
use weir_throughput::efs::{Limiter, Mode};
use weir_types::Ino;

use super::limit::{Limit, Subject};
use crate::volume::context::Clock;

/// Rows that are kept at most; what comes then is counted in the row of all others.
const TENANTS: usize = 10_000;
/// The row of those for whom there is no other.
const OTHERS: (Ino, u32) = (Ino::ROOT, u32::MAX);
/// Directories whose area is remembered at most.
pub(super) const DIRECTORIES: usize = 100_000;

/// A part of the tree that is metered by itself.
pub(crate) struct Area {
    pub(crate) dir: Ino,
    /// The limits on it, the volume's own among them.
    pub(crate) limits: Vec<Arc<Limit>>,
}

/// What one client did in one area since the mount.
#[derive(Default)]
pub(crate) struct Used {
    pub(crate) opens: AtomicU64,
    pub(crate) opens_unmetered: AtomicU64,
    pub(crate) reads: AtomicU64,
    pub(crate) writes: AtomicU64,
    pub(crate) bytes_read: AtomicU64,
    pub(crate) bytes_written: AtomicU64,
    pub(crate) bytes_fetched: AtomicU64,
    pub(crate) waited_ms: AtomicU64,
}

/// Who does I/O on an open file, as of a generation of the rules.
#[derive(Clone)]
pub(crate) struct Tenant {
    pub(crate) area: Arc<Area>,
    /// The client's own limit.
    pub(super) own: Option<Arc<Limit>>,
    pub(crate) client: u32,
    pub(crate) used: Arc<Used>,
    pub(super) generation: u64,
}

impl Tenant {
    /// All limits that hold for it.
    pub(crate) fn limits(&self) -> impl Iterator<Item = &Arc<Limit>> {
        self.area.limits.iter().chain(&self.own)
    }

    /// Whether the daemon must see every byte.
    pub(crate) fn sees_all(&self) -> bool {
        self.limits().any(|limit| limit.sees_all())
    }
}

impl std::fmt::Debug for Tenant {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tenant({}, {})", self.area.dir, self.client)
    }
}

/// The rules in force and what they make of the tree.
#[derive(Default)]
pub(crate) struct Areas {
    /// Grows whenever a rule or the tree above a directory changes.
    pub(super) generation: AtomicU64,
    known: Mutex<Known>,
}

#[derive(Default)]
pub(super) struct Known {
    pub(super) limits: Vec<Arc<Limit>>,
    areas: HashMap<Ino, Arc<Area>>,
    /// The area of what lies in each directory.
    pub(super) by_directory: HashMap<Ino, Arc<Area>>,
    tenants: HashMap<(Ino, u32), Arc<Used>>,
}

impl Areas {
    /// Changes the limits; all areas are looked up again.
    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<Limit>>) -> T) -> T {
        let mut known = self.known();
        let changed = change(&mut known.limits);
        known.areas.clear();
        known.by_directory.clear();
        self.generation.fetch_add(1, Ordering::Release);
        changed
    }

    /// A directory has another place: what lies below may be of another area.
    pub(crate) fn moved(&self) {
        self.change(|_| ());
    }

    /// Forgets a limit, and lets those go on who wait for it.
    pub(crate) fn remove(&self, subject: Subject, clock: &Clock) {
        let removed = self.limit(subject);
        self.change(|limits| limits.retain(|limit| limit.subject != subject));
        if let Some(limit) = removed {
            limit.with(clock, |limiter, now_ns| {
                let none = Limiter::new(limiter.rules().clone(), Mode::Elastic, 0, now_ns);
                *limiter = none;
            });
        }
    }

    pub(crate) fn limits(&self) -> Vec<Arc<Limit>> {
        self.known().limits.clone()
    }

    pub(crate) fn limit(&self, subject: Subject) -> Option<Arc<Limit>> {
        self.known().limits.iter().find(|limit| limit.subject == subject).cloned()
    }

    pub(crate) fn tenants(&self) -> Vec<((Ino, u32), Arc<Used>)> {
        let mut all: Vec<_> =
            self.known().tenants.iter().map(|(tenant, used)| (*tenant, used.clone())).collect();
        all.sort_by_key(|(tenant, _)| *tenant);
        all
    }

    pub(super) fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock()
    }

    pub(crate) fn is_of_now(&self, tenant: &Tenant) -> bool {
        tenant.generation == self.generation.load(Ordering::Acquire)
    }
}

impl Areas {
    /// The area of a directory that has these above it, itself among them.
    pub(super) fn area(&self, dir: Ino, above: &[Ino]) -> Arc<Area> {
        let mut known = self.known();
        if let Some(area) = known.areas.get(&dir) {
            return area.clone();
        }
        let holds = |limit: &&Arc<Limit>| match limit.subject {
            Subject::Directory(dir) => dir == Ino::ROOT || above.contains(&dir),
            Subject::Client(_) => false,
        };
        let limits = known.limits.iter().filter(holds).cloned().collect();
        if known.areas.len() >= DIRECTORIES {
            known.areas.clear();
        }
        let area = Arc::new(Area { dir, limits });
        known.areas.insert(dir, area.clone());
        area
    }

    pub(super) fn used(&self, dir: Ino, client: u32) -> Arc<Used> {
        let mut known = self.known();
        let full = known.tenants.len() >= TENANTS && !known.tenants.contains_key(&(dir, client));
        let tenant = if full { OTHERS } else { (dir, client) };
        known.tenants.entry(tenant).or_default().clone()
    }
}
