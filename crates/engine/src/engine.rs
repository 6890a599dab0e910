//! A mounted volume: its parts, put together from the lowest up, and how it ends.

mod api;
mod background;
mod damaged;
mod inherit;
mod mount;
mod recover;
pub(crate) mod statfs;
pub(crate) mod status;
#[cfg(feature = "testing")]
pub mod testing;

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::Mutex;
use tokio::task::JoinSet;
use weir_meta::locks::LockTable;
use weir_meta::{Guard, Meta};
use weir_object::{Meter, StripeSet};
use weir_tier::{SealedDirectory, Tier};
use weir_types::{ErrorKind, FsError, Result, VolumeFormat};

use crate::data::journal::Journal;
use crate::data::{DataPlane, Ground};
use crate::names::atimes::Atimes;
use crate::names::files::OpenFiles;
use crate::names::locks::Locks;
use crate::names::orphans::Orphans;
use crate::names::promises::Promises;
use crate::names::tree::Names;
use crate::names::waits::Waits;
use crate::services::actions::{Actions, Schedule};
use crate::services::disks::{DiskParts, Disks};
use crate::services::lifecycle::Lifecycle;
use crate::services::limits::Limits;
use crate::services::links::{Detacher, Exporter, Importer, Links, Registry, Resolver};
use crate::services::quarantine::{Places, Quarantine};
use crate::services::quotas::QuotaKeeper;
use crate::services::scrub::{ScrubParts, Scrubber};
use crate::services::snapshots::Snapshots;
use crate::services::snapshots::dumping::Dumping;
use crate::services::survey::Surveyor;
use crate::volume::boxed::{Boxed, boxed};
use crate::volume::claim::Lease;
use crate::volume::context::{Context, Counts};
use crate::volume::fence::Fence;
use crate::volume::health::Health;
use crate::volume::locks::{self, Place};
use crate::volume::options::{MountOptions, MountReport};
use crate::volume::standby::Beats;
use crate::volume::together::Together;

/// A mounted volume. Doors hold it in an [`Arc`]; all methods take `&self`.
///
/// It is only the list of its parts: none of them knows it, and each was given what it needs.
pub struct Engine {
    data: DataPlane,
    files: Arc<OpenFiles>,
    names: Arc<Names>,
    locks: Arc<Locks>,
    promises: Arc<Promises>,
    links: Arc<Links>,
    actions: Arc<Actions>,
    disks: Arc<Disks>,
    limits: Arc<Limits>,
    quarantine: Arc<Quarantine>,
    quotas: Arc<QuotaKeeper>,
    snapshots: Arc<Snapshots>,
    scrubber: Arc<Scrubber>,
    lifecycle: Arc<Lifecycle>,
    surveyor: Surveyor,
    report: MountReport,
    lease: Option<Lease>,
    beats: Option<Arc<Beats>>,
    guard: Option<Guard>,
    metadata_place: String,
    metadata_health: Option<Arc<Health>>,
    tasks: locks::Mutex<JoinSet<()>>,
    /// What the end waits for.
    step: Mutex<Option<&'static str>>,
}

/// The metadata, and what watches it.
struct Watched {
    meta: Meta,
    fence: Arc<Fence>,
    place: String,
    health: Option<Arc<Health>>,
}

/// What ties a mount to its volume.
struct Bound {
    watched: Watched,
    guard: Option<Guard>,
    journal: Option<Arc<Journal>>,
    report: MountReport,
    lease: Option<Lease>,
    beats: Option<Arc<Beats>>,
    together: Option<Arc<Together>>,
}

impl Engine {
    /// Puts the parts together, each from those below it. Nothing runs yet.
    fn assemble(
        options: MountOptions,
        format: VolumeFormat,
        buckets: StripeSet,
        tier: Tier,
        bound: Bound,
    ) -> Self {
        let Bound { watched, guard, journal, report, lease, beats, together } = bound;
        let Watched { meta, fence, place, health } = watched;
        let places = places(&options, &format);
        let context = Context {
            format,
            url: options.url.to_string(),
            settings: options.settings,
            read_only: options.read_only,
            clock: options.clock,
            meter: options.connector.meter.clone(),
            counts: Counts::default(),
            stopping: AtomicBool::new(false),
            obeys_acls: AtomicBool::new(false),
            fence,
            together,
        };
        let registry = Arc::new(Registry::new(options.connector));
        let schedule = Arc::new(Schedule::default());
        let whose = (options.host.name.clone(), options.tier.display().to_string());
        let data = DataPlane::new(Ground {
            context: Arc::new(context),
            meta: Arc::new(meta),
            tier: Arc::new(tier),
            buckets,
            journal,
            ask_space: options.ask_space,
            natives: registry.clone(),
            waited_for: schedule.clone(),
        });
        let promises = Arc::new(Promises::default());
        let links = Arc::new(links(&data, registry, &promises));
        let orphans = Arc::new(orphans(&data));
        let files = Arc::new(open_files(&data, &links, &orphans, &promises));
        let waits = Arc::new(Waits::default());
        let names = Arc::new(names(&data, &links, &orphans, &waits, &promises));
        let file_locks = Arc::new(file_locks(&data, waits));
        let host = whose.0.clone();
        let actions = Arc::new(actions(&data, &links, schedule, whose));
        let disks = Arc::new(disks(&data, &files, host));
        let quarantine = quarantine(&data, &files, &links, places);
        quarantine.warn();
        let snapshots = Arc::new(snapshots(&data));
        let (context, meta) = (data.context.clone(), data.meta.clone());
        let quotas = QuotaKeeper::new(context.clone(), meta.clone(), data.quotas.clone());
        let limits = Limits::new(context, meta, data.admission.clone());
        Self {
            scrubber: Arc::new(scrubber(&data)),
            lifecycle: Arc::new(lifecycle(&data, &links)),
            surveyor: surveyor(&data),
            data,
            files,
            names,
            locks: file_locks,
            promises,
            links,
            actions,
            disks,
            limits: Arc::new(limits),
            quarantine: Arc::new(quarantine),
            quotas: Arc::new(quotas),
            snapshots,
            report,
            lease,
            beats,
            guard,
            metadata_place: place,
            metadata_health: health,
            tasks: locks::Mutex::new(Place::Tasks, 0, JoinSet::new()),
            step: Mutex::default(),
        }
    }

    /// Whether the volume is mounted read-only.
    pub fn read_only(&self) -> bool {
        self.data.context.read_only
    }

    /// Whether others may change the volume while it is mounted here, as this mount does.
    pub fn is_shared(&self) -> bool {
        self.data.context.is_shared()
    }

    /// Whether clients may be answered: not where another one may have changed the volume by now.
    pub fn may_answer(&self) -> bool {
        !self.data.context.is_fenced() && self.beats.as_ref().is_none_or(|beats| beats.may_answer())
    }

    /// Where requests, bytes and latencies are counted.
    pub fn meter(&self) -> &Meter {
        &self.data.context.meter
    }

    /// The encrypted directories on local disks that it uses. The kernel forgets their keys when the last one who has
    /// them lets them go: who keeps them until the engine is gone has no file of it in the way.
    pub fn sealed_directories(&self) -> Vec<Arc<SealedDirectory>> {
        self.data.tier.sealed().to_vec()
    }

    /// Flushes everything, makes it durable, and ends. Doors must have stopped. On an error (the
    /// bucket is away) the tier keeps what could not leave, and the next mount goes on with it.
    pub fn shutdown(&self) -> Boxed<'_, Result<()>> {
        boxed(self.end())
    }

    /// What the end of the volume waits for, in words, once it was begun.
    pub fn ending_step(&self) -> Option<&'static str> {
        *self.step.lock()
    }

    /// Bytes that are in the tier only.
    pub fn dirty_bytes(&self) -> u64 {
        self.data.tier.dirty_bytes()
    }

    fn step(&self, what: &'static str) {
        *self.step.lock() = Some(what);
    }

    async fn end(&self) -> Result<()> {
        let DataPlane { context, meta, tier, journal, admission, flusher, .. } = &self.data;
        context.stopping.store(true, Ordering::Release);
        self.step("what goes on in the background");
        self.tasks.lock().await.shutdown().await;
        if let Some(peers) = &self.data.peers {
            peers.end();
        }
        // The last flush waits for no budget.
        admission.budget.end();
        let may_write = !context.read_only && !context.is_fenced();
        let flushed = if may_write { self.finish().await } else { context.fence.check() };
        flusher.give_waiting_up();
        self.step("the metadata's last table");
        let closed = meta.close().await;
        self.step("the tier's and the journal's disks");
        // A clean end says that nothing has to come back from the journal but what is in it: so
        // all of it must be on its disk. Dirty pages may stay in the tier, which is synced too.
        let synced = match journal.as_ref().filter(|j| j.durable) {
            Some(journal) => journal.sync().await,
            None => Ok(()),
        };
        tier.close(synced.is_ok())?;
        flushed.and(closed).and(synced)
    }

    /// The writer's last words: all data, all metadata, an empty log, and the lease given back.
    async fn finish(&self) -> Result<()> {
        let DataPlane { meta, tier, journal, durability, buckets, .. } = &self.data;
        self.step("writes to disks");
        self.disks.settle().await;
        self.step("the metadata of removed files");
        if !self.is_shared() {
            self.names.purge_all_closed().await;
        }
        if let Err(error) = self.names.atimes.flush().await {
            tracing::warn!(%error, "when files were read last was not stored");
        }
        if let Err(error) = self.lifecycle.note_reads().await {
            tracing::warn!(%error, "what was read from the bucket was not noted");
        }
        if let Err(error) = self.limits.store_credits().await {
            tracing::warn!(%error, "the burst credits were not stored");
        }
        self.step("the last flush");
        self.data.flusher.bring_all().await?;
        durability.flush_all().await?;
        self.step("the bucket to note a clean end");
        if let Some(left) = tier.unflushed().first() {
            let text = format!("inode {} was written while the volume was unmounted", left.ino());
            return Err(FsError::new(ErrorKind::Retry, text));
        }
        if let Some(lease) = &self.lease {
            lease.end_cleanly(meta).await?;
        }
        if let Some(together) = &self.data.context.together {
            if let Some(leases) = meta.leases() {
                leases.end_deferring().await?;
            }
            self.names.orphans.let_all_go().await?;
            self.limits.leave_together(together).await?;
            weir_meta::sessions::end(&**meta.kv(), together.id()).await?;
        }
        if let Some(journal) = journal {
            journal.clear()?;
        }
        if let Some(lease) = &self.lease {
            lease.give_back(buckets).await?;
        }
        Ok(())
    }
}

/// Where things may lie that were set aside.
fn places(options: &MountOptions, format: &VolumeFormat) -> Places {
    let tier: PathBuf = options.tier.join(&format.id.0);
    let journal = options.journal.as_ref().map(|journal| journal.join(&format.id.0));
    let logs = std::iter::once(tier.join("redo")).chain(journal).collect();
    Places { tier, logs }
}

fn links(data: &DataPlane, registry: Arc<Registry>, promises: &Arc<Promises>) -> Links {
    let resolver = Arc::new(Resolver { meta: data.meta.clone(), registry: registry.clone() });
    let detacher = Arc::new(detacher(data, registry.clone(), promises.clone()));
    let importer = Arc::new(Importer {
        context: data.context.clone(),
        meta: data.meta.clone(),
        nodes: data.nodes.clone(),
        mirrors: data.mirrors.clone(),
        space: data.space.clone(),
        registry: registry.clone(),
        resolver: resolver.clone(),
        detacher: detacher.clone(),
    });
    let exporter = Arc::new(Exporter {
        context: data.context.clone(),
        meta: data.meta.clone(),
        nodes: data.nodes.clone(),
        journal: data.journal.clone(),
        mirrors: data.mirrors.clone(),
        space: data.space.clone(),
        reader: data.reader.clone(),
        flusher: data.flusher.clone(),
        registry: registry.clone(),
        resolver: resolver.clone(),
        detacher: detacher.clone(),
        importer: importer.clone(),
    });
    let (context, meta) = (data.context.clone(), data.meta.clone());
    let (buckets, nodes) = (data.buckets.clone(), data.nodes.clone());
    Links { context, meta, buckets, nodes, registry, resolver, detacher, importer, exporter }
}

fn detacher(data: &DataPlane, registry: Arc<Registry>, promises: Arc<Promises>) -> Detacher {
    Detacher {
        context: data.context.clone(),
        meta: data.meta.clone(),
        tier: data.tier.clone(),
        nodes: data.nodes.clone(),
        mirrors: data.mirrors.clone(),
        space: data.space.clone(),
        fetcher: data.fetcher.clone(),
        flusher: data.flusher.clone(),
        registry,
        promises,
    }
}

fn orphans(data: &DataPlane) -> Orphans {
    let session = data.context.together.as_ref().map(|together| together.id());
    Orphans::new(data.meta.clone(), data.nodes.clone(), session)
}

fn open_files(
    data: &DataPlane,
    links: &Arc<Links>,
    orphans: &Arc<Orphans>,
    promises: &Arc<Promises>,
) -> OpenFiles {
    OpenFiles {
        context: data.context.clone(),
        meta: data.meta.clone(),
        nodes: data.nodes.clone(),
        mirrors: data.mirrors.clone(),
        space: data.space.clone(),
        admission: data.admission.clone(),
        fetcher: data.fetcher.clone(),
        reader: data.reader.clone(),
        writer: data.writer.clone(),
        flusher: data.flusher.clone(),
        records: data.records.clone(),
        linked: Arc::new(links.importer.clone()),
        orphans: orphans.clone(),
        promises: promises.clone(),
    }
}

fn names(
    data: &DataPlane,
    links: &Arc<Links>,
    orphans: &Arc<Orphans>,
    waits: &Arc<Waits>,
    promises: &Arc<Promises>,
) -> Names {
    Names {
        context: data.context.clone(),
        meta: data.meta.clone(),
        tier: data.tier.clone(),
        nodes: data.nodes.clone(),
        journal: data.journal.clone(),
        mirrors: data.mirrors.clone(),
        space: data.space.clone(),
        admission: data.admission.clone(),
        flusher: data.flusher.clone(),
        quotas: data.quotas.clone(),
        writer: data.writer.clone(),
        linked: Arc::new(links.importer.clone()),
        atimes: Arc::new(Atimes::new(data.context.clone(), data.meta.clone())),
        orphans: orphans.clone(),
        waits: waits.clone(),
        promises: promises.clone(),
    }
}

fn file_locks(data: &DataPlane, waits: Arc<Waits>) -> Locks {
    Locks {
        context: data.context.clone(),
        meta: data.meta.clone(),
        tier: data.tier.clone(),
        nodes: data.nodes.clone(),
        mirrors: data.mirrors.clone(),
        flusher: data.flusher.clone(),
        table: LockTable::new(),
        waits,
    }
}

fn actions(
    data: &DataPlane,
    links: &Arc<Links>,
    schedule: Arc<Schedule>,
    (host, tier_directory): (String, String),
) -> Actions {
    Actions {
        context: data.context.clone(),
        meta: data.meta.clone(),
        tier: data.tier.clone(),
        nodes: data.nodes.clone(),
        mirrors: data.mirrors.clone(),
        space: data.space.clone(),
        fetcher: data.fetcher.clone(),
        flusher: data.flusher.clone(),
        durability: data.durability.clone(),
        links: links.clone(),
        schedule,
        host,
        tier_directory,
    }
}

fn disks(data: &DataPlane, files: &Arc<OpenFiles>, host: String) -> Disks {
    let (closed, of_closed) = tokio::sync::mpsc::unbounded_channel();
    let parts = DiskParts {
        context: data.context.clone(),
        meta: data.meta.clone(),
        nodes: data.nodes.clone(),
        mirrors: data.mirrors.clone(),
        admission: data.admission.clone(),
        reader: data.reader.clone(),
        writer: data.writer.clone(),
        flusher: data.flusher.clone(),
        durability: data.durability.clone(),
        records: data.records.clone(),
        files: files.clone(),
        host,
        closed,
    };
    Disks::new(parts, of_closed)
}

fn scrubber(data: &DataPlane) -> Scrubber {
    Scrubber::new(ScrubParts {
        context: data.context.clone(),
        meta: data.meta.clone(),
        tier: data.tier.clone(),
        buckets: data.buckets.clone(),
        nodes: data.nodes.clone(),
        mirrors: data.mirrors.clone(),
        flusher: data.flusher.clone(),
        fetcher: data.fetcher.clone(),
    })
}

fn surveyor(data: &DataPlane) -> Surveyor {
    Surveyor::new(data.context.clone(), data.meta.clone(), data.tier.clone())
}

fn lifecycle(data: &DataPlane, links: &Arc<Links>) -> Lifecycle {
    let (context, meta) = (data.context.clone(), data.meta.clone());
    let (collector, budget) = (data.collector.clone(), data.admission.budget.clone());
    Lifecycle::new((context, meta), data.buckets.clone(), (collector, budget), links.clone())
}

fn snapshots(data: &DataPlane) -> Snapshots {
    Snapshots {
        context: data.context.clone(),
        meta: data.meta.clone(),
        durability: data.durability.clone(),
        holders: data.holders.clone(),
        buckets: data.buckets.clone(),
        trouble: Mutex::default(),
        dumping: Dumping::default(),
    }
}

fn quarantine(
    data: &DataPlane,
    files: &Arc<OpenFiles>,
    links: &Arc<Links>,
    places: Places,
) -> Quarantine {
    Quarantine {
        context: data.context.clone(),
        meta: data.meta.clone(),
        tier: data.tier.clone(),
        nodes: data.nodes.clone(),
        mirrors: data.mirrors.clone(),
        segments: data.segments.clone(),
        files: files.clone(),
        links: links.clone(),
        places,
        changing: locks::Mutex::new(Place::Quarantine, 0, ()),
        progress: Mutex::default(),
    }
}
