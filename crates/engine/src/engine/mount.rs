//! Mounting: from a URL and a directory to a running engine, whatever the last mount left.

mod sealed;
mod shared;
mod tier;
mod watched;

use std::path::{Path, PathBuf};

use tier::{LOG_PLACE, OpenedTier, bring_in_step, open_tier, set_aside, set_doubtful_aside};
use watched::open_watched;
use weir_meta::{LastMount, Meta};
use weir_object::{Component, StripeSet};
use weir_tier::{Recovered, SetAside, private};
use weir_types::{ErrorKind, FsError, Result, VolumeFormat};

use super::{Bound, Engine, background};
use crate::data::journal::{Journal, Replay};
use crate::volume::age::{Aged, aged, rise};
use crate::volume::belongs::{Here, Note, Standing};
use crate::volume::boxed::{Boxed, boxed};
use crate::volume::claim::{Claim, Lease, claim, confirm, unclean, write_lease};
use crate::volume::format::{make_private, read_format_in, stripe_set};
use crate::volume::metadata::Metadata;
use crate::volume::names_log;
use crate::volume::options::{LeftBehind, MountOptions, MountReport};
use crate::volume::standby::Beats;

impl Engine {
    /// Mounts a volume: recovers what the last mount left in the tier, takes the volume over from
    /// a writer that is dead (or, if told so, alive), and starts the engine's tasks.
    pub fn mount(options: MountOptions) -> Boxed<'static, Result<Engine>> {
        boxed(mount(options))
    }
}

async fn mount(options: MountOptions) -> Result<Engine> {
    let problems = options.settings.problems();
    if !problems.is_empty() {
        return Err(FsError::new(ErrorKind::Invalid, problems.join("; ")));
    }
    let first = options.connector.connect(&options.url)?;
    let format = read_format_in(&first).await?;
    let buckets = stripe_set(&format, first, &options.connector).await?;
    let instead = options.settings.metadata_url.as_deref();
    let timeout_ms = options.settings.bucket_timeout_ms;
    let metadata = Metadata::of(&format, &buckets, instead, timeout_ms)?;
    let engine = if options.read_only {
        let opened = open_tier(&options, &format, buckets.keys())?;
        mount_reader(options, format, buckets, opened, metadata).await?
    } else if options.shared {
        shared::mount_shared(options, format, buckets, metadata).await?
    } else {
        // First: whoever is refused leaves the tier as it is, which opening it may not.
        let claim = claim(&options, &buckets).await?;
        make_private(&format, &options.url).await?;
        let opened = open_tier(&options, &format, buckets.keys())?;
        mount_writer(options, format, buckets, opened, (metadata, claim)).await?
    };
    // Where nodes share the volume each has some, as it joins.
    if !engine.is_shared() {
        engine.actions.load_actions().await?;
    }
    engine.limits.load_rules().await?;
    // Before anybody writes, and after what was acknowledged is back, whatever quotas say of it.
    engine.data.quotas.look().await?;
    if !engine.is_shared() && !engine.read_only() && engine.data.meta.kv().is_far() {
        engine.limits.take_from_nodes().await?;
    }
    *engine.tasks.lock().await = background::start(&engine);
    Ok(engine)
}

async fn mount_reader(
    options: MountOptions,
    format: VolumeFormat,
    buckets: StripeSet,
    opened: OpenedTier,
    metadata: Metadata,
) -> Result<Engine> {
    let left = !opened.tier.unflushed().is_empty() || !opened.tier.in_doubt().is_empty();
    if left || opened.directory.join(LOG_PLACE).exists() {
        let text = "the tier is that of a writing mount that has not ended cleanly: mount without \
                    --read-only first, or name another directory with --tier";
        return Err(FsError::new(ErrorKind::Conflict, text));
    }
    let kv = metadata.follow(Component::Meta).await?;
    let watched = open_watched(&options, &metadata, kv).await?;
    let open = options.inherited.open.clone();
    let report = MountReport {
        recovered: opened.recovered,
        replayed_commits: 0,
        replayed_files: 0,
        set_aside: None,
        taken_from: None,
        left_behind: None,
    };
    let bound = Bound {
        watched,
        guard: None,
        journal: None,
        report,
        lease: None,
        beats: None,
        together: None,
    };
    let engine = Engine::assemble(options, format, buckets, opened.tier, bound);
    engine.links.load_links().await?;
    engine.inherit(&open).await?;
    Ok(engine)
}

async fn mount_writer(
    options: MountOptions,
    format: VolumeFormat,
    buckets: StripeSet,
    opened: OpenedTier,
    (metadata, claim): (Metadata, Claim),
) -> Result<Engine> {
    let log_directory = log_directory(&options, &format, &opened.directory)?;
    let held = options.inherited.tier.locks.clone();
    let journal = Journal::new(&log_directory, options.journal.is_some(), held);
    let here = Here {
        tier: Note::read(&opened.directory)?,
        log: journal.note()?,
        last_log: read_log_place(&opened.directory),
        log_directory,
    };
    if claim.forced || (options.only_clean && claim.from.is_some()) {
        // Before the other one is fenced: it may be alive, or have left something.
        stand_unseen(&options, &metadata, &claim, &here).await?;
    }
    let mount = this_mount(&options);
    let kv = metadata
        .open((&mount.node, options.take_over), &options.settings, Some(journal.clone()))
        .await?;
    let watched = open_watched(&options, &metadata, kv.kv.clone()).await?;
    let meta = &watched.meta;
    names_log::take_up_alone(&opened.directory, &**meta.kv()).await?;
    let stood = stand_opened(meta, &options, &buckets, (&format, &metadata), (&claim, &here));
    let (aged, standing, left_behind) = match stood.await {
        Ok(found) => found,
        Err(error) => {
            let _ = meta.close().await;
            return Err(error);
        }
    };
    left_behind.iter().for_each(tell);
    let at_once = metadata.is_durable_at_once();
    let set_aside = clear_tier(&options, &opened, &journal, (&standing, &aged, at_once), &here)?;
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
        bring_in_step(&opened.tier, meta).await?;
    }
    let lease = Lease { mount, log_place: opened.directory.join(LOG_PLACE) };
    note(&opened, &journal, &standing, meta, &lease, &here.log_directory).await?;
    if let Some(in_bucket) = aged.in_bucket {
        rise(meta, &buckets, &format.id, in_bucket).await?;
    }
    write_lease(&options.host, &buckets, &lease.mount.node).await?;
    let beats = Beats::begin_if(options.turn.as_ref(), &buckets, &lease.mount.node).await?;
    fail::fail_point!("engine::mount-leased", |_| Err(stopped()));
    let guard = kv.guard;
    let (journal, lease) = (Some(journal), Some(lease));
    let bound = Bound { watched, guard, journal, report, lease, beats, together: None };
    let open = options.inherited.open.clone();
    let engine = Engine::assemble(options, format, buckets, opened.tier, bound);
    engine.links.load_links().await?;
    engine.inherit(&open).await?;
    engine.recover(replay).await?;
    fail::fail_point!("engine::mount-recovered", |_| Err(stopped()));
    engine.data.tier.confirm()?;
    Ok(engine)
}

/// Moves away what in the tier and the log is not part of the volume, and lets go of what cannot be told
/// from that.
fn clear_tier(
    options: &MountOptions,
    opened: &OpenedTier,
    journal: &Journal,
    (standing, aged, at_once): (&Standing, &Aged, bool),
    here: &Here,
) -> Result<Option<SetAside>> {
    let now = (options.clock.now)();
    let aside = set_aside(opened, journal, standing, here, (now, at_once))?;
    if aged.older {
        // Numbers of inodes and generations are given out anew: no page can be told from a right one.
        opened.tier.remove_all()?;
    }
    let doubtful = match standing.tier_is_last() {
        true => set_doubtful_aside(opened, &here.tier.0, now)?,
        false => None,
    };
    Ok(aside.or(doubtful))
}

/// What the metadata that was opened says of what is here; an error if it is not to be mounted so.
async fn stand_opened(
    meta: &Meta,
    options: &MountOptions,
    buckets: &StripeSet,
    (format, metadata): (&VolumeFormat, &Metadata),
    (claim, here): (&Claim, &Here),
) -> Result<(Aged, Standing, Option<LeftBehind>)> {
    confirm(options, buckets, claim, format).await?;
    let aged = aged(meta, options, buckets, (format, metadata)).await?;
    let (standing, left) = stand(meta, options, (claim, aged.older), here).await?;
    Ok((aged, standing, left))
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
        // Of what was told by a passing mount nothing is in its tier alone: it tells when it has ended.
        clean: options.only_clean,
    }
}

/// As [`stand`], without a word to whoever writes the metadata.
async fn stand_unseen(
    options: &MountOptions,
    metadata: &Metadata,
    claim: &Claim,
    here: &Here,
) -> Result<()> {
    let kv = metadata.follow(Component::Meta).await?;
    let meta = Meta::open(kv, options.clock.now.clone()).await?;
    let found = stand(&meta, options, (claim, false), here).await;
    let _ = meta.close().await;
    found.map(drop)
}

/// Compares what is here with what the last writer used; an error if something is missing that
/// nobody said may be.
async fn stand(
    meta: &Meta,
    options: &MountOptions,
    (claim, of_before): (&Claim, bool),
    here: &Here,
) -> Result<(Standing, Option<LeftBehind>)> {
    let standing = Standing::of(meta.last_writer().await?, claim.from.is_some(), here);
    let standing = if of_before { standing.of_before() } else { standing };
    if options.only_clean && !standing.clean {
        return Err(unclean(&options.url, claim.from.as_deref().unwrap_or("somebody")));
    }
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

/// Makes this mount the last one that wrote, on all disks and then in the bucket; see
/// [`crate::volume::belongs`].
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
