//! The tier at a mount: opened, held against the volume, and set aside where it is not part of it.

use std::path::PathBuf;

use weir_keys::VolumeKeys;
use weir_meta::Meta;
use weir_tier::{ASIDE, Cause, Recovered, SetAside, Tier, TierOptions, Why};
use weir_types::{Bytes, Result, UnixTime, VolumeFormat};

use super::sealed::unseal;
use crate::data::journal::Journal;
use crate::engine::damaged::{Known, known};
use crate::services::quarantine;
use crate::volume::belongs::{Here, Standing};
use crate::volume::options::MountOptions;

/// File in the tier directory that says where the redo log of a mount is that has not ended.
pub(super) const LOG_PLACE: &str = "log-place.json";
/// Inodes looked at in one read when a tier is compared with the volume.
const INODES_AT_ONCE: usize = 1_000;

pub(super) struct OpenedTier {
    pub(super) tier: Tier,
    pub(super) recovered: Recovered,
    pub(super) directory: PathBuf,
}

pub(super) fn open_tier(
    options: &MountOptions,
    format: &VolumeFormat,
    keys: &VolumeKeys,
) -> Result<OpenedTier> {
    weir_tier::check_directory("--tier", &options.tier)?;
    let directory = options.tier.join(&format.id.0);
    let mut sealed = Vec::from_iter(unseal(options, keys, ("--tier", &directory))?);
    if let Some(journal) = &options.journal {
        weir_tier::check_directory("--journal", journal)?;
        sealed.extend(unseal(options, keys, ("--journal", &journal.join(&format.id.0)))?);
    }
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
        inherited: options.inherited.tier.clone(),
        sealed,
    })?;
    report_small_disk(options, &tier)?;
    Ok(OpenedTier { tier, recovered, directory })
}

/// Warns where the tier can never be as large as it was told to be.
fn report_small_disk(options: &MountOptions, tier: &Tier) -> Result<()> {
    let (wanted, space) = (options.settings.tier_bytes, (options.ask_space)(&options.tier)?);
    let floor = space.floor_bytes(options.settings.free_floor_bytes.0);
    if space.bytes.saturating_sub(floor) < wanted.0 {
        tracing::warn!(
            tier_size = %wanted,
            disk = %Bytes(space.bytes),
            free = %Bytes(space.free_bytes),
            now = %Bytes(tier.limit()?.bytes),
            "the tier's disk is smaller than --tier-size: the tier takes what it can give"
        );
    }
    Ok(())
}

/// Lets go of all that changed since this tier was last used. Until the mount is complete, what is
/// here is not all that must be recovered.
pub(super) async fn bring_in_step(tier: &Tier, meta: &Meta) -> Result<()> {
    tier.doubt()?;
    let mut inos = tier.inos();
    inos.sort_unstable();
    for inos in inos.chunks(INODES_AT_ONCE) {
        for (ino, known) in inos.iter().zip(known(meta, inos).await?) {
            match known {
                Known::File(inode) => tier.mirror(&inode)?.idle(),
                Known::Gone => tier.remove(*ino)?,
                Known::Damaged(error) => {
                    tracing::error!(ino = ino.0, %error, "this file cannot be read: run weir fsck");
                    tier.remove(*ino)?;
                }
            }
        }
    }
    Ok(())
}

/// Moves away what an older mount of this tier, or with this log, had not flushed when another
/// writer came, or what is of no use without what is missing. With `commits_hold` no log has commits
/// that the volume lacks.
pub(super) fn set_aside(
    opened: &OpenedTier,
    journal: &Journal,
    standing: &Standing,
    here: &Here,
    (now, commits_hold): (UnixTime, bool),
) -> Result<Option<SetAside>> {
    let (tier, log) = (!standing.tier_is_last(), !standing.log);
    let mounts = if tier && !here.tier.0.is_empty() { &here.tier.0 } else { &here.log.0 };
    let log_bytes = if log { journal.stored_bytes() } else { 0 };
    let label = quarantine::label_for(&opened.directory.join(ASIDE), mounts, now)?;
    let log = (log_bytes > 0).then(|| journal.aside(&label));
    let cause = Cause {
        why: if standing.tier && tier { Why::LossAccepted } else { Why::AnotherWriter },
        mounts: mounts.clone(),
        unix_ms: (now.0 / 1_000_000).max(0).cast_unsigned(),
        log: log.clone(),
        commits_hold,
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
    tell_set_aside(&aside);
    Ok(Some(aside))
}

/// Says that something was set aside because others wrote.
pub(super) fn tell_set_aside(aside: &SetAside) {
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
}

/// Moves away what the tier's disk may have lost bytes of.
pub(super) fn set_doubtful_aside(
    opened: &OpenedTier,
    mounts: &[String],
    now: UnixTime,
) -> Result<Option<SetAside>> {
    if opened.tier.in_doubt().is_empty() {
        return Ok(None);
    }
    let label = quarantine::label_for(&opened.directory.join(ASIDE), &[], now)?;
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
