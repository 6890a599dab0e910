//! Mounting: from a URL and a directory to a running engine, whatever the last mount left.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_meta::kv::slate::{SlateKv, SlateOptions, SlateReader, SlateReaderOptions};
use weir_meta::{LastMount, Meta, SetAttr};
use weir_object::{BucketUrl, Component, StripeSet};
use weir_tier::{
    ASIDE, AskSpace, Cause, Mirror, Recovered, SetAside, Tier, TierOptions, Why, private,
};
use weir_types::{
    Bytes as ByteSize, CHUNK_BYTES, ErrorKind, FsError, Result, Settings, UnixTime, VolumeFormat,
};

use crate::aside::{self, Asides, Places};
use crate::background;
use crate::belongs::{AcceptLoss, Here, LeftBehind, Note, Standing};
use crate::boot::Host;
use crate::claim::{Claim, Lease, claim, write_lease};
use crate::engine::{Clock, Core, Engine, Mounted};
use crate::journal::{Journal, Replay};
use crate::links::Links;
use crate::room::amount_for;
use crate::volume::{Connector, META_PATH, make_private, read_format, stripe_set};

/// File in the tier directory that says where the redo log of a mount is that has not ended.
const LOG_PLACE: &str = "log-place.json";
/// Inodes looked at in one read when a tier is compared with the volume.
const INODES_AT_ONCE: usize = 1_000;

/// What a mount needs.
#[derive(Clone)]
pub struct MountOptions {
    /// The volume.
    pub url: BucketUrl,
    /// How to reach it.
    pub connector: Connector,
    /// Directory for mirror files; each volume has its own in it.
    pub tier: PathBuf,
    /// Directory on a persistent disk for the journal, if `fsync` is to end there.
    pub journal: Option<PathBuf>,
    /// Change nothing, beside whoever writes.
    pub read_only: bool,
    /// Take the volume from a writer that may still run; it is fenced.
    pub take_over: bool,
    /// What of a last writer that did not end cleanly may be missing.
    pub accept_loss: AcceptLoss,
    /// Go on only if the last writer ended cleanly. What a dead one had not flushed is in its tier,
    /// and is set aside for good once another tier had the volume.
    pub only_clean: bool,
    /// How to run.
    pub settings: Settings,
    /// Tells the space on the disks of the tier and the journal.
    pub ask_space: AskSpace,
    /// Time and chance.
    pub clock: Clock,
    /// This process.
    pub host: Host,
}

/// What was found at mount, and done about it.
#[derive(Clone, Debug, Serialize, Deserialize, JsonSchema)]
pub struct MountReport {
    /// How the last mount with this tier ended.
    pub recovered: Recovered,
    /// Metadata commits replayed from the redo log.
    pub replayed_commits: u64,
    /// Files whose fsynced data was replayed from the journal.
    pub replayed_files: u64,
    /// What was set aside, because another writer had the volume since.
    pub set_aside: Option<SetAside>,
    /// The writer that this mount took the volume from.
    pub taken_from: Option<String>,
    /// What the last writer wrote and is not here.
    pub left_behind: Option<LeftBehind>,
}

impl Engine {
    /// Mounts a volume: recovers what the last mount left in the tier, takes the volume over from
    /// a writer that is dead (or, if told so, alive), and starts the engine's tasks.
    pub async fn mount(options: MountOptions) -> Result<Engine> {
        let problems = options.settings.problems();
        if !problems.is_empty() {
            return Err(FsError::new(ErrorKind::Invalid, problems.join("; ")));
        }
        let format = read_format(&options.url, &options.connector).await?;
        let buckets = stripe_set(&format, &options.url, &options.connector)?;
        let core = if options.read_only {
            let opened = open_tier(&options, &format)?;
            mount_reader(options, format, buckets, opened).await?
        } else {
            // First: whoever is refused leaves the tier as it is, which opening it may not.
            let claim = claim(&options, &buckets).await?;
            make_private(&format, &options.url).await?;
            let opened = open_tier(&options, &format)?;
            mount_writer(options, format, buckets, opened, claim).await?
        };
        core.load_actions().await?;
        core.load_rules().await?;
        let tasks = background::start(&core);
        Ok(Engine { core, tasks: tokio::sync::Mutex::new(tasks) })
    }
}

struct OpenedTier {
    tier: Tier,
    recovered: Recovered,
    directory: PathBuf,
}

fn open_tier(options: &MountOptions, format: &VolumeFormat) -> Result<OpenedTier> {
    weir_tier::check_directory("--tier", &options.tier)?;
    let directory = options.tier.join(&format.id.0);
    let settings = &options.settings;
    let (tier, recovered) = Tier::open(TierOptions {
        directory: directory.clone(),
        tier_bytes: settings.tier_bytes.0,
        high_water_percent: settings.high_water_percent,
        low_water_percent: settings.low_water_percent,
        free_floor_bytes: settings.free_floor_bytes.0,
        boot_id: options.host.boot_id.clone(),
        now_ms: options.clock.now_ms.clone(),
        memory_bytes: settings.memory().tier_files,
        ask_space: options.ask_space.clone(),
    })?;
    tell_of_small_disk(options, &tier)?;
    Ok(OpenedTier { tier, recovered, directory })
}

/// Warns where the tier can never be as large as it was told to be.
fn tell_of_small_disk(options: &MountOptions, tier: &Tier) -> Result<()> {
    let (wanted, space) = (options.settings.tier_bytes, (options.ask_space)(&options.tier)?);
    let floor = space.floor_bytes(options.settings.free_floor_bytes.0);
    if space.bytes.saturating_sub(floor) < wanted.0 {
        tracing::warn!(
            tier_size = %wanted,
            disk = %ByteSize(space.bytes),
            free = %ByteSize(space.free_bytes),
            now = %ByteSize(tier.limit()?.bytes),
            "the tier's disk is smaller than --tier-size: the tier takes what it can give"
        );
    }
    Ok(())
}

async fn mount_reader(
    options: MountOptions,
    format: VolumeFormat,
    buckets: StripeSet,
    opened: OpenedTier,
) -> Result<Arc<Core>> {
    let left = !opened.tier.news().is_empty() || !opened.tier.in_doubt().is_empty();
    if left || opened.directory.join(LOG_PLACE).exists() {
        let text = "the tier is that of a writing mount that has not ended cleanly: mount without \
                    --read-only first, or name another directory with --tier";
        return Err(FsError::new(ErrorKind::Conflict, text));
    }
    let meta = peek(&options, &buckets).await?;
    let report = MountReport {
        recovered: opened.recovered,
        replayed_commits: 0,
        replayed_files: 0,
        set_aside: None,
        taken_from: None,
        left_behind: None,
    };
    let core = core(options, format, buckets, opened.tier, meta, None, report, None);
    core.load_links().await?;
    Ok(core)
}

async fn mount_writer(
    options: MountOptions,
    format: VolumeFormat,
    buckets: StripeSet,
    opened: OpenedTier,
    claim: Claim,
) -> Result<Arc<Core>> {
    let log_directory = log_directory(&options, &format, &opened.directory)?;
    let journal = Journal::new(&log_directory, options.journal.is_some());
    let here = Here {
        tier: Note::read(&opened.directory)?,
        log: journal.note()?,
        last_log: read_log_place(&opened.directory),
        log_directory,
    };
    if claim.forced {
        // Before the other one is fenced: it may be alive.
        let peeked = peek(&options, &buckets).await?;
        let found = stand(&peeked, &options, &claim, &here).await;
        let _ = peeked.close().await;
        found?;
    }
    let kv = Arc::new(open_kv(&options, &buckets, journal.clone()).await?);
    let meta = Meta::open(kv.clone(), options.clock.now.clone()).await?;
    let (standing, left_behind) = match stand(&meta, &options, &claim, &here).await {
        Ok(found) => found,
        Err(error) => {
            let _ = meta.close().await;
            return Err(error);
        }
    };
    left_behind.iter().for_each(tell);
    let now = (options.clock.now)();
    let set_aside = set_aside(&opened, &journal, &standing, &here, now)?;
    let doubtful = match standing.tier_is_last() {
        true => set_doubtful_aside(&opened, &here.tier.0, now)?,
        false => None,
    };
    let set_aside = set_aside.or(doubtful);
    let replay = open_log(&journal, &opened, &standing)?;
    journal.measure((options.ask_space)(&here.log_directory)?, options.settings.journal_bytes.0);
    let mut report = MountReport {
        recovered: opened.recovered,
        replayed_commits: 0,
        replayed_files: replay.files.len() as u64,
        set_aside,
        taken_from: claim.from,
        left_behind,
    };
    for (version, entry) in &replay.commits {
        report.replayed_commits += u64::from(kv.replay(*version, entry).await?);
    }
    if standing.tier_is_last() {
        opened.tier.set_alone();
    } else {
        bring_in_step(&opened.tier, &meta).await?;
    }
    let mount = this_mount(&options);
    let lease = Lease { mount, log_place: opened.directory.join(LOG_PLACE) };
    note(&opened, &journal, &standing, &meta, &lease, &here.log_directory).await?;
    write_lease(&options, &buckets, &lease.mount.node).await?;
    fail::fail_point!("engine::mount-leased", |_| Err(stopped()));
    let core =
        core(options, format, buckets, opened.tier, meta, Some(journal), report, Some(lease));
    core.load_links().await?;
    core.recover(replay).await?;
    fail::fail_point!("engine::mount-recovered", |_| Err(stopped()));
    core.tier.confirm()?;
    Ok(core)
}

/// What a test gets that stops a mount at one of its steps.
#[cfg(feature = "failpoints")]
fn stopped() -> FsError {
    FsError::new(ErrorKind::Interrupted, "stopped here by a test")
}

fn this_mount(options: &MountOptions) -> LastMount {
    let shown = |path: &PathBuf| path.display().to_string();
    LastMount {
        node: uuid::Uuid::new_v4().to_string(),
        host: options.host.shown(),
        tier: shown(&options.tier),
        journal: options.journal.as_ref().map(shown),
        clean: false,
    }
}

/// The metadata as it is in the bucket, without a word to whoever writes it.
async fn peek(options: &MountOptions, buckets: &StripeSet) -> Result<Meta> {
    let settings = SlateReaderOptions {
        timeout_ms: options.settings.bucket_timeout_ms,
        ..SlateReaderOptions::default()
    };
    let store = buckets.first().store(Component::Meta);
    let kv = SlateReader::open(store, META_PATH, settings).await?;
    Meta::open(Arc::new(kv), options.clock.now.clone()).await
}

/// Compares what is here with what the last writer used; an error if something is missing that
/// nobody said may be.
async fn stand(
    meta: &Meta,
    options: &MountOptions,
    claim: &Claim,
    here: &Here,
) -> Result<(Standing, Option<LeftBehind>)> {
    let standing = Standing::of(meta.last_writer().await?, claim.from.is_some(), here);
    let left = standing.accept(options, claim.elsewhere, claim.from.as_deref(), here)?;
    Ok((standing, left))
}

fn tell(LeftBehind { host, tier, journal }: &LeftBehind) {
    tracing::warn!(
        %host, tier, journal,
        "the last writer did not end cleanly, and this is mounted without what it had there: what \
         had not reached the bucket is not part of the volume"
    );
}

/// Lets go of all that changed since this tier was last used. Until the mount is complete, what is
/// here is not all that must be recovered.
async fn bring_in_step(tier: &Tier, meta: &Meta) -> Result<()> {
    tier.doubt()?;
    let mut inos = tier.inos();
    inos.sort_unstable();
    for inos in inos.chunks(INODES_AT_ONCE) {
        for (ino, inode) in inos.iter().zip(meta.inodes(inos).await?) {
            match inode {
                Some(inode) => tier.mirror(&inode)?.idle(),
                None => tier.remove(*ino)?,
            }
        }
    }
    Ok(())
}

/// Makes this mount the last one that wrote, on all disks and then in the bucket; see
/// [`crate::belongs`].
async fn note(
    opened: &OpenedTier,
    journal: &Journal,
    standing: &Standing,
    meta: &Meta,
    lease: &Lease,
    log_directory: &Path,
) -> Result<()> {
    // What was replayed may hold the name of a mount that died before it was durable.
    let replayed = meta.writer().await?;
    let before: Vec<_> = standing.writer.iter().chain(&replayed).map(|w| w.node.as_str()).collect();
    let with = |belongs| {
        let mut mounts = if belongs || standing.clean { before.clone() } else { Vec::new() };
        mounts.push(&lease.mount.node);
        mounts.dedup();
        mounts
    };
    Note::write(&opened.directory, &with(standing.tier_is_last()))?;
    fail::fail_point!("engine::mount-tier-noted", |_| Err(stopped()));
    journal.set_note(&with(standing.log))?;
    fail::fail_point!("engine::mount-log-noted", |_| Err(stopped()));
    write_log_place(&lease.log_place, log_directory)?;
    fail::fail_point!("engine::mount-log-placed", |_| Err(stopped()));
    meta.take_writer(replayed.as_ref().map(|w| w.epoch), &lease.mount).await?;
    fail::fail_point!("engine::mount-taken", |_| Err(stopped()));
    meta.sync().await?;
    fail::fail_point!("engine::mount-durable", |_| Err(stopped()));
    Ok(())
}

#[expect(clippy::too_many_arguments, reason = "it only gathers what was made one by one")]
fn core(
    options: MountOptions,
    format: VolumeFormat,
    buckets: StripeSet,
    tier: Tier,
    meta: Meta,
    journal: Option<Arc<Journal>>,
    report: MountReport,
    lease: Option<Lease>,
) -> Arc<Core> {
    let directory = options.tier.join(&format.id.0);
    let journal_of_volume = options.journal.as_ref().map(|journal| journal.join(&format.id.0));
    let logs = std::iter::once(directory.join("redo")).chain(journal_of_volume).collect();
    let aside = Asides::new(Places { tier: directory, logs });
    aside.warn();
    Core::new(Mounted {
        format,
        url: options.url.to_string(),
        settings: options.settings,
        read_only: options.read_only,
        clock: options.clock,
        meter: options.connector.meter.clone(),
        meta,
        tier,
        buckets,
        journal,
        report,
        lease,
        links: Links::new(options.connector),
        aside,
        ask_space: options.ask_space,
    })
}

async fn open_kv(
    options: &MountOptions,
    buckets: &StripeSet,
    journal: Arc<Journal>,
) -> Result<SlateKv> {
    let memory = options.settings.memory();
    let settings = SlateOptions {
        cache_bytes: memory.metadata_cache,
        unflushed_bytes: memory.metadata_unflushed,
        meta_flush_ms: options.settings.meta_flush_ms,
        timeout_ms: options.settings.bucket_timeout_ms,
        ..SlateOptions::default()
    };
    let store = buckets.first().store(Component::Meta);
    SlateKv::open(store, META_PATH, settings, Some(journal)).await
}

/// Where the redo log is.
fn log_directory(options: &MountOptions, format: &VolumeFormat, tier: &Path) -> Result<PathBuf> {
    let Some(journal) = &options.journal else {
        return Ok(tier.join("redo"));
    };
    weir_tier::check_directory("--journal", journal)?;
    Ok(journal.join(&format.id.0))
}

/// Where the log of a mount with this tier is that did not end cleanly.
fn read_log_place(tier: &Path) -> Option<PathBuf> {
    serde_json::from_slice(&std::fs::read(tier.join(LOG_PLACE)).ok()?).ok()
}

fn write_log_place(path: &Path, log_directory: &Path) -> Result<()> {
    let at = |e| FsError::local_io(format!("write {}", path.display()), e);
    let text = serde_json::to_vec(log_directory).map_err(|e| at(e.into()))?;
    private::write(path, &text).map_err(at)
}

/// Moves away what an older mount of this tier, or with this log, had not flushed when another
/// writer came, or what is of no use without what is missing.
fn set_aside(
    opened: &OpenedTier,
    journal: &Journal,
    standing: &Standing,
    here: &Here,
    now: UnixTime,
) -> Result<Option<SetAside>> {
    let (tier, log) = (!standing.tier_is_last(), !standing.log);
    let mounts = if tier && !here.tier.0.is_empty() { &here.tier.0 } else { &here.log.0 };
    let log_bytes = if log { journal.stored_bytes() } else { 0 };
    let label = aside::label_for(&opened.directory.join(ASIDE), mounts, now)?;
    let log = (log_bytes > 0).then(|| journal.aside(&label));
    let cause = Cause {
        why: if standing.tier && tier { Why::LossAccepted } else { Why::AnotherWriter },
        mounts: mounts.clone(),
        unix_ms: (now.0 / 1_000_000).max(0).cast_unsigned(),
        log: log.clone(),
        ..Cause::default()
    };
    let mut aside = SetAside::default();
    if tier {
        aside = opened.tier.set_aside(&label, &cause)?;
    }
    if let Some(log) = log {
        journal.set_aside(&label, &cause)?;
        (aside.log_bytes, aside.log, aside.label) = (log_bytes, log, label);
    }
    if tier && opened.directory.join(LOG_PLACE).exists() {
        // What that mount committed last may be lost with its log, and its numbers of inodes and
        // generations are given out anew: no page of it can be told from a right one.
        opened.tier.remove_all()?;
    }
    if aside.files == 0 && aside.log_bytes == 0 {
        return Ok(None);
    }
    tracing::error!(
        label = %aside.label,
        files = aside.files,
        dirty_bytes = aside.dirty_bytes,
        log_bytes = aside.log_bytes,
        directory = %aside.directory.display(),
        log = %aside.log.display(),
        "another writer had the volume since this tier was last used: what had not been flushed \
         was set aside and is not part of the volume; `weir recover` tells what it is and brings \
         it back"
    );
    Ok(Some(aside))
}

/// Moves away what the tier's disk may have lost bytes of.
fn set_doubtful_aside(
    opened: &OpenedTier,
    mounts: &[String],
    now: UnixTime,
) -> Result<Option<SetAside>> {
    if opened.tier.in_doubt().is_empty() {
        return Ok(None);
    }
    let label = aside::label_for(&opened.directory.join(ASIDE), &[], now)?;
    let remounted = matches!(opened.recovered, Recovered::Remounted { .. });
    let cause = Cause {
        why: if remounted { Why::DiskRemounted } else { Why::DiskFailed },
        mounts: mounts.to_vec(),
        unix_ms: (now.0 / 1_000_000).max(0).cast_unsigned(),
        commits_hold: !remounted,
        ..Cause::default()
    };
    let aside = opened.tier.set_doubtful_aside(&label, &cause)?;
    tracing::error!(
        label = %aside.label,
        files = aside.files,
        dirty_bytes = aside.dirty_bytes,
        directory = %aside.directory.display(),
        "the tier's disk failed, or was mounted anew, after these files were written and before \
         they were flushed: what is left of them may not be what was written, and was set aside; \
         `weir recover` tells what it is"
    );
    Ok(Some(aside))
}

/// Opens the log and reads what is in it, with the fsynced data of what is not in the tier.
fn open_log(journal: &Journal, opened: &OpenedTier, standing: &Standing) -> Result<Replay> {
    let tier_is_whole = matches!(opened.recovered, Recovered::Clean | Recovered::Killed);
    let tier_has_all = standing.clean || (standing.tier_is_last() && tier_is_whole);
    let all = !tier_has_all;
    let lost = opened.tier.lost();
    let mut replay = journal.open(all || !lost.is_empty())?;
    // What else the journal has is in the tier as well, and newer there.
    replay.files.retain(|ino, _| all || lost.contains(ino));
    Ok(replay)
}

impl Core {
    /// Writes bytes of the journal back. Nothing flushes in the background yet: where the tier has
    /// no room, what was written back before goes to the bucket first; where that makes none,
    /// because others filled the disk, these bytes go past it.
    async fn write_back(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        let wanted = amount_for(mirror, data.len() as u64);
        if !self.make_room(wanted).await? {
            self.flush_data().await?;
        }
        if self.make_room(wanted).await? {
            return self.write_mirror(mirror, offset, data).await;
        }
        let mut at = 0;
        while at < data.len() {
            let start = offset + at as u64;
            let most = CHUNK_BYTES - start % CHUNK_BYTES;
            let part = &data[at..data.len().min(at + most as usize)];
            self.write_past_tier(mirror, start, bytes::Bytes::copy_from_slice(part)).await?;
            at += part.len();
        }
        Ok(())
    }

    /// Goes on where the last mount ended: fsynced data of the journal comes back, removed files
    /// that were open are purged, and what was dirty is flushed in the background.
    async fn recover(self: &Arc<Self>, replay: Replay) -> Result<()> {
        let mut times = Vec::new();
        for (ino, file) in replay.files {
            let inode = match self.stored(ino).await {
                Ok(inode) if inode.nlink > 0 => inode,
                Ok(_) => continue,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let mirror = self.tier.mirror(&inode)?;
            for (offset, bytes) in file.writes {
                self.write_back(&mirror, offset, &bytes).await?;
            }
            if let Some((size, mtime, ctime)) = file.attributes {
                mirror.grow(size, self.now())?;
                let (mtime, ctime) = (mtime.unwrap_or(inode.mtime), ctime.unwrap_or(inode.ctime));
                times.push((ino, mtime, ctime));
            }
            mirror.idle();
        }
        self.flush_files(&times.iter().map(|t| t.0).collect::<Vec<_>>()).await?;
        for (ino, mtime, ctime) in times {
            let (mtime, ctime) = (Some(mtime), Some(ctime));
            let set = SetAttr { mtime, ctime, ..SetAttr::default() };
            self.seen(self.meta.setattr(ino, set).await)?;
        }
        for mirror in self.tier.news() {
            let ino = mirror.ino();
            match self.stored(ino).await {
                Ok(inode) => self.tier.mirror(&inode)?.idle(),
                Err(error) if error.kind() == ErrorKind::NotFound => self.tier.remove(ino)?,
                Err(error) => return Err(error),
            }
        }
        self.purge_all_closed().await;
        self.flush_wanted.notify_one();
        Ok(())
    }
}
