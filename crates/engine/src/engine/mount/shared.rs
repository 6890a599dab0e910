//! Mounting a volume together with others that change it.

use std::sync::Arc;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use weir_meta::sessions::{NodeRow, SessionId, sessions};
use weir_meta::{DiskHold, LastMount, Leases, Meta};
use weir_object::StripeSet;
use weir_tier::{Cause, SetAside, Tier, Why};
use weir_types::{ErrorKind, FsError, Ino, Result, VolumeFormat};

use super::tier::{OpenedTier, bring_in_step, open_tier, set_doubtful_aside, tell_set_aside};
use super::watched::open_watched;
use crate::data::journal::Replay;
use crate::data::peers::listen::Listen;
use crate::engine::damaged::{Known, known};
use crate::engine::{Bound, Engine, Watched};
use crate::services::quarantine;
use crate::volume::age::{aged, rise};
use crate::volume::belongs::Note;
use crate::volume::claim::{check_clean, claim_idle};
use crate::volume::format::{make_private, read_format_in};
use crate::volume::metadata::{Joining, Metadata};
use crate::volume::names_log::{self, NamesLog};
use crate::volume::options::{AcceptLoss, MountOptions, MountReport};
use crate::volume::together::Together;

/// What the metadata has for the last mount of a volume that several had: none of their tiers belongs to
/// the volume as that of one that was alone does.
const SEVERAL: &str = "several-";

/// How long a mount brings what the one before had not, before others go on without: it says nothing of itself
/// meanwhile.
const BRING_MAX: Duration = Duration::from_secs(5);

/// Files compared with the metadata in one read.
const INODES_AT_ONCE: usize = 1_000;

pub(super) async fn mount_shared(
    options: MountOptions,
    format: VolumeFormat,
    buckets: StripeSet,
    metadata: Metadata,
) -> Result<Engine> {
    refuse_what_needs_one(&options)?;
    let listen = Listen::of(&options.settings, metadata.elsewhere())?;
    let held = claim_idle(&options.url, &options.host, &buckets).await?;
    let joining = metadata.open_shared().await?;
    let watched = open_watched(&options, &metadata, joining.kv()).await?;
    watched.meta.set_shared();
    if !is_shared(&watched.meta).await? {
        check_clean(&options.url, &watched.meta, held).await?;
    }
    let age = aged(&watched.meta, &options, &buckets, (&format, &metadata)).await?;
    make_private(&format, &options.url).await?;
    let opened = open_tier(&options, &format, buckets.keys())?;
    opened.tier.set_shared();
    let (guard, together, dead) = join(&options, &joining, &opened, &watched).await?;
    let volume = (&buckets, &format);
    let taken = take_up_all(&options, volume, &opened, &watched.meta, &together).await;
    let (names, set_aside, disks) = match taken {
        Ok(taken) => taken,
        Err(error) => {
            let _ = weir_meta::sessions::end(&**watched.meta.kv(), together.id()).await;
            return Err(error);
        }
    };
    let (directory, id) = (opened.directory.clone(), together.id().to_string());
    if let Some(in_bucket) = age.in_bucket {
        rise(&watched.meta, &buckets, &format.id, in_bucket).await?;
    }
    let report = MountReport {
        recovered: opened.recovered,
        replayed_commits: 0,
        replayed_files: 0,
        set_aside,
        taken_from: None,
        left_behind: None,
    };
    let together = Some(Arc::new(together));
    let bound = Bound {
        watched,
        guard: Some(guard),
        journal: None,
        report,
        lease: None,
        beats: None,
        together,
    };
    let open = options.inherited.open.clone();
    let engine = Engine::assemble(options, format, buckets, opened.tier, bound);
    engine.links.load_links().await?;
    engine.inherit(&open).await?;
    engine.recover(Replay::default()).await?;
    end_those_before(&engine, &dead).await?;
    let write_leases = engine.data.context.settings.write_leases;
    if let Some(leases) = engine.data.meta.leases().filter(|_| write_leases) {
        leases.defer_to(joining.behind, names).await?;
    }
    engine.data.tier.confirm()?;
    engine.actions.load_claimed().await?;
    engine.disks.unused(&disks);
    // What those of before left is taken up by now.
    Note::write(&directory, &[&id])?;
    if let Some(peers) = &engine.data.peers {
        let leases = engine.data.meta.leases().cloned();
        if let Some(leases) = &leases {
            let peers = peers.clone();
            leases.reach_by(Arc::new(move |sessions| peers.have_look(sessions)));
        }
        peers.listen(listen, leases).await;
    }
    Ok(engine)
}

/// Refuses where the key was rotated since it was read: who rotates one looks for nodes before and after that, and from now on
/// this one is seen. One GET, where the volume is encrypted.
async fn check_keys(buckets: &StripeSet, format: &VolumeFormat) -> Result<()> {
    let Some(encryption) = &format.encryption else { return Ok(()) };
    fail::fail_point!("engine::mount-joined");
    let now = read_format_in(buckets.first()).await?;
    if now.encryption.is_some_and(|now| now.older == encryption.older) {
        return Ok(());
    }
    let text = "the volume's key was rotated while it was mounted here: mount it again";
    Err(FsError::new(ErrorKind::Conflict, text))
}

/// What is not there for nodes that share a volume.
fn refuse_what_needs_one(options: &MountOptions) -> Result<()> {
    let what = match () {
        () if options.journal.is_some() => {
            "--journal: on a volume that nodes share an fsync ends in the bucket and the database, \
             where the others find it"
        }
        () if options.take_over => {
            "--take-over: a node that is dead is shut out by the others after 12 s; one that wrote \
             alone and does not end is taken over by a mount without --shared"
        }
        () if options.accept_loss != AcceptLoss::Nothing => {
            "--accept-loss: mount the volume without --shared for that, and unmount it"
        }
        () => return Ok(()),
    };
    Err(FsError::new(ErrorKind::Unsupported, format!("--shared does not go with {what}")))
}

/// Whether nodes that share the volume wrote it last.
async fn is_shared(meta: &Meta) -> Result<bool> {
    Ok(meta.writer().await?.is_some_and(|writer| writer.node.starts_with(SEVERAL)))
}

/// Joins the others. Whoever had the tier before is dead, since this has its lock; those of them are answered, too,
/// that the others still take for nodes.
async fn join(
    options: &MountOptions,
    joining: &Joining,
    opened: &OpenedTier,
    watched: &Watched,
) -> Result<(weir_meta::Guard, Together, Vec<SessionId>)> {
    let id = SessionId(((options.clock.random)() as u64).max(1));
    let before = Note::read(&opened.directory)?;
    let noted = id.to_string();
    let names = before.0.iter().map(String::as_str).chain([noted.as_str()]);
    Note::write(&opened.directory, &names.collect::<Vec<_>>())?;
    let there = sessions(&*joining.kv()).await?;
    let dead: Vec<_> = there
        .iter()
        .map(|session| session.id)
        .filter(|id| before.0.contains(&id.to_string()))
        .collect();
    let node = NodeRow {
        name: options.host.name.clone(),
        host: options.host.shown(),
        tier: options.tier.display().to_string(),
        build: env!("CARGO_PKG_VERSION").to_owned(),
        since: (options.clock.now)(),
    };
    let leases = Leases::new(id, Arc::new(boot_time)).in_place_of(&dead);
    // To join is to beat.
    leases.beat_begins();
    let guard = joining.join(id, &node, &[]).await?;
    leases.beat_answered();
    watched.meta.set_leases(Arc::new(leases));
    note_shared(&watched.meta).await?;
    let before = before.0.iter().filter_map(|id| u64::from_str_radix(id, 16).ok());
    Ok((guard, Together::new(id).after(before.map(SessionId)), dead))
}

/// Ends the sessions that had the tier before. What was closed in them, and the bucket has not, goes there first:
/// whoever looks for it waits for them, and would find what was before.
async fn end_those_before(engine: &Engine, dead: &[SessionId]) -> Result<()> {
    if dead.is_empty() {
        return Ok(());
    }
    let mut left = engine.data.tier.unflushed();
    // As many as can be in the time that there is.
    left.sort_by_key(|mirror| mirror.dirty_bytes());
    let inos: Vec<_> = left.iter().map(|mirror| mirror.ino()).collect();
    match tokio::time::timeout(BRING_MAX, engine.data.flusher.flush_files(&inos)).await {
        Ok(Ok(())) => {}
        Ok(Err(error)) => {
            tracing::warn!(%error, "other nodes find some files as they were before this one died");
        }
        Err(_) => tracing::warn!("other nodes find some files as they were before this one died"),
    }
    for id in dead {
        weir_meta::sessions::end(&**engine.data.meta.kv(), *id).await?;
    }
    Ok(())
}

/// The time since the machine was started, in which it slept, too.
fn boot_time() -> Duration {
    let time = clock_gettime(ClockId::Boottime);
    Duration::try_from(time).unwrap_or_default()
}

/// Has the metadata say that no single mount was the last one.
async fn note_shared(meta: &Meta) -> Result<()> {
    let Some(writer) = meta.writer().await? else {
        return note_shared_after(meta, None).await;
    };
    match writer.node.starts_with(SEVERAL) {
        true => Ok(()),
        false => note_shared_after(meta, Some(writer.epoch)).await,
    }
}

async fn note_shared_after(meta: &Meta, epoch: Option<u64>) -> Result<()> {
    let mount = LastMount {
        node: format!("{SEVERAL}{}", uuid::Uuid::new_v4()),
        host: "several nodes".to_owned(),
        tier: String::new(),
        journal: None,
        clean: true,
    };
    match meta.take_writer(epoch, &mount).await {
        // Another node that joins at this moment did.
        Err(error) if error.kind() == ErrorKind::Conflict && is_shared(meta).await? => Ok(()),
        taken => taken.map(drop),
    }
}

/// Has the volume get the names that an earlier mount had made, and what it had written. Answers the log of names, empty.
async fn take_up_all(
    options: &MountOptions,
    (buckets, format): (&StripeSet, &VolumeFormat),
    opened: &OpenedTier,
    meta: &Meta,
    together: &Together,
) -> Result<(Arc<NamesLog>, Option<SetAside>, Vec<Ino>)> {
    check_keys(buckets, format).await?;
    let (names, lost) = names_log::take_up(&opened.directory, &**meta.kv()).await?;
    let (set_aside, disks) = take_up(options, opened, (meta, &lost), together).await?;
    Ok((names, set_aside, disks))
}

/// Holds what an earlier mount left in the tier against the volume: what nobody else changed since goes on
/// its way, what somebody did is set aside, and so is what is of files that are lost. Answers the disks, too, that it had, and has.
async fn take_up(
    options: &MountOptions,
    opened: &OpenedTier,
    (meta, lost): (&Meta, &[Ino]),
    together: &Together,
) -> Result<(Option<SetAside>, Vec<Ino>)> {
    // Before anything is compared: who takes one from now on is refused, and who took one before changed it.
    let hold = DiskHold { session: together.id(), node: options.host.name.clone() };
    let disks = meta.take_own_disks(&hold, together.before()).await?;
    let now = (options.clock.now)();
    let label = |mounts: &[String]| {
        quarantine::label_for(&opened.directory.join(weir_tier::ASIDE), mounts, now)
    };
    let mounts = Note::read(&opened.directory)?.0;
    let doubtful = set_doubtful_aside(opened, &mounts, now)?;
    let mut changed = changed_elsewhere(&opened.tier, meta).await?;
    changed.extend(lost.iter().filter_map(|ino| opened.tier.find(*ino)));
    let mut aside = None;
    if !changed.is_empty() {
        let cause = Cause {
            why: Why::AnotherWriter,
            unix_ms: (now.0 / 1_000_000).max(0).cast_unsigned(),
            commits_hold: true,
            mounts: mounts.clone(),
            ..Cause::default()
        };
        aside = Some(opened.tier.set_aside_these(&changed, &label(&mounts)?, &cause)?);
        aside.iter().for_each(tell_set_aside);
    }
    bring_in_step(&opened.tier, meta).await?;
    Ok((aside.or(doubtful), disks))
}

/// The files of which something here is not in the bucket, and that others changed since.
async fn changed_elsewhere(tier: &Tier, meta: &Meta) -> Result<Vec<Arc<weir_tier::Mirror>>> {
    let mut changed = Vec::new();
    for mirrors in tier.unflushed().chunks(INODES_AT_ONCE) {
        let inos: Vec<_> = mirrors.iter().map(|mirror| mirror.ino()).collect();
        for (mirror, known) in mirrors.iter().zip(known(meta, &inos).await?) {
            let others = match known {
                Known::File(inode) => inode.data.generation != mirror.generation(),
                Known::Gone => false,
                Known::Damaged(_) => true,
            };
            changed.extend(others.then(|| mirror.clone()));
        }
    }
    Ok(changed)
}
