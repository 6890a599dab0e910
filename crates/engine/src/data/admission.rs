//! What I/O must wait for before it is done, and for whom it is counted: the limits of areas and
//! clients, and the budget. Who sets them is above.

pub(crate) mod areas;
pub(crate) mod budget;
pub(crate) mod limit;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use areas::{Area, Areas, DIRECTORIES, Tenant, Used};
use budget::{Budget, Slowed};
use weir_meta::Meta;
use weir_throughput::efs::Io;
use weir_types::{Ino, Result};

use crate::data::admission::limit::Subject;
use crate::volume::context::Context;

/// Directories above a file are looked at, at most.
const DEPTH: usize = 4_096;

/// The gate of all reads and writes that reach the daemon.
pub(crate) struct Admission {
    context: Arc<Context>,
    meta: Arc<Meta>,
    pub(crate) budget: Arc<Budget>,
    pub(crate) areas: Areas,
}

impl Admission {
    pub(crate) fn new(context: Arc<Context>, meta: Arc<Meta>, budget: Arc<Budget>) -> Self {
        Self { context, meta, budget, areas: Areas::default() }
    }

    /// Waits until the limits and the budget let an I/O through.
    pub(crate) async fn admit(&self, tenant: &Tenant, io: Io, bytes: u64) {
        let flow = (tenant.area.dir, tenant.client);
        for limit in tenant.limits() {
            let waited = limit.admit(&self.context.clock, flow, io, bytes).await;
            tenant.used.waited_ms.fetch_add(waited, Ordering::Relaxed);
        }
        if io == Io::Write {
            self.budget.wait(Slowed::Demand).await;
        }
    }

    /// Counts an I/O that was done.
    pub(crate) fn meter(&self, tenant: &Tenant, io: Io, bytes: u64) {
        let Used { reads, writes, bytes_read, bytes_written, .. } = &*tenant.used;
        let (count, sum) = match io {
            Io::Write => (writes, bytes_written),
            _ => (reads, bytes_read),
        };
        count.fetch_add(1, Ordering::Relaxed);
        sum.fetch_add(bytes, Ordering::Relaxed);
        tenant.limits().for_each(|limit| limit.count(io, bytes));
    }

    /// Whether no rule changed since somebody asked whose an I/O is.
    pub(crate) fn is_of_now(&self, tenant: &Tenant) -> bool {
        self.areas.is_of_now(tenant)
    }

    /// A directory has another place.
    pub(crate) fn directory_moved(&self) {
        self.areas.moved();
    }
}

impl Admission {
    /// Subject I/O by `client` on a file in `dir` is. One read of the metadata for each directory
    /// above that was not looked at before. What cannot be read counts for the root.
    pub(crate) async fn tenant(&self, dir: Ino, client: u32) -> Tenant {
        let generation = self.areas.generation.load(Ordering::Acquire);
        let area = match self.area_of(dir).await {
            Ok(area) => area,
            Err(error) => {
                tracing::debug!(%dir, %error, "a file is metered as one of the root");
                self.areas.area(Ino::ROOT, &[])
            }
        };
        let used = self.areas.used(area.dir, client);
        let own = self.areas.limit(Subject::Client(client));
        Tenant { area, own, client, used, generation }
    }

    async fn area_of(&self, dir: Ino) -> Result<Arc<Area>> {
        let areas = &self.areas;
        if let Some(area) = areas.known().by_directory.get(&dir) {
            return Ok(area.clone());
        }
        let generation = areas.generation.load(Ordering::Acquire);
        // From the file up to the root.
        let mut above = vec![dir];
        let mut at = dir;
        while at != Ino::ROOT && above.len() < DEPTH {
            at = self.meta.inode(at).await?.parent;
            above.push(at);
        }
        let ruled: Vec<Subject> = areas.known().limits.iter().map(|limit| limit.subject).collect();
        let below_root = above.len().checked_sub(2).map(|last| above[last]);
        let own = above
            .iter()
            .find(|dir| ruled.contains(&Subject::Directory(**dir)) && **dir != Ino::ROOT)
            .copied();
        let area = areas.area(own.or(below_root).unwrap_or(Ino::ROOT), &above);
        let mut known = areas.known();
        if areas.generation.load(Ordering::Acquire) == generation {
            if known.by_directory.len() >= DIRECTORIES {
                known.by_directory.clear();
            }
            known.by_directory.insert(dir, area.clone());
        }
        Ok(area)
    }
}
