//! Another binary in the place of this one, while programs use the mount: the same process executes
//! it, with the kernel's descriptors open, and it goes on with what the kernel holds. To the volume
//! that is a daemon that was killed and one that recovers from it.
//!
//! What must always hold:
//! - Whatever can be found out is found out before anything stops.
//! - From the first request that is not read until the process executes, all can be called off.
//! - After that one of two binaries serves the mount: the new one, or the one it replaced.

use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

use weir_door_fuse::HeldMount;
use weir_types::{ErrorKind, FsError, Result};

use super::handover::{Attempt, Binary, Handed, State, VERSIONS, exec, memory, now_ns, number};
use super::shared::{DaemonState, panicked};
use super::supervisor;
use crate::api::{Upgrade, Upgraded, Upgrading};

/// This version.
const VERSION: &str = env!("CARGO_PKG_VERSION");
/// How long requests under way may take before an upgrade is called off.
const DRAIN_MAX: Duration = Duration::from_secs(10);
/// How long the bucket may take for the metadata before an upgrade is called off.
const BUCKET_MAX: Duration = Duration::from_secs(10);

/// Executes another binary in the place of this one. Returns only where that was refused or called
/// off, and then nothing has changed.
pub(crate) async fn upgrade(shared: Arc<DaemonState>, call: Upgrade) -> Result<Upgrading> {
    let alone = shared.clone();
    let Ok(_alone) = alone.upgrading.try_lock() else {
        let text = "another upgrade of this daemon is under way";
        return Err(FsError::new(ErrorKind::Conflict, text));
    };
    check(&shared).await?;
    let mountpoint = shared.mountpoint().unwrap_or_default();
    let question = shared.invocation.question(&mountpoint);
    let path = call.binary.clone();
    let opened = tokio::task::spawn_blocking(move || Binary::open(&path, Some(&mountpoint)));
    let binary = opened.await.map_err(panicked)??;
    let to = binary.ask(&question).await?;
    let begun = |error: FsError| error.within("the upgrade was not begun");
    shared.engine.check_room_for_heir().map_err(begun)?;
    shared.engine.prepare_heir(BUCKET_MAX).await.map_err(|error| {
        error.within("the upgrade was not begun, because the bucket is needed for it")
    })?;
    // Somebody may have attached or ended something meanwhile.
    check(&shared).await?;
    tracing::info!(binary = %call.binary.display(), from = VERSION, to, "upgrading");
    supervisor::lives();
    // What their requests change, the kernel of the mount is to know of by then.
    let clients = shared.nfs.hold(DRAIN_MAX).await.map_err(begun)?;
    let replace = move || {
        let _held = clients;
        replace(&shared, &binary, &call.id)
    };
    Err(tokio::task::spawn_blocking(replace).await.map_err(panicked)?)
}

/// Whether all that this daemon serves can be handed over.
async fn check(shared: &DaemonState) -> Result<()> {
    check_stays(shared)?;
    let Some(fuse) = &shared.fuse else {
        let text = "only mounts can be upgraded while they are used: end this one by `weir stop`, \
                    and start the new version";
        return Err(FsError::new(ErrorKind::Unsupported, text));
    };
    fuse.view.check_holdable()?;
    let block = shared.block.status().await;
    if let Some(device) = block.devices.first() {
        let text = format!(
            "{} (disk `{}`) is attached, and devices cannot be handed over: `weir detach {0}` \
             first, or unmount and mount again with the new version",
            device.device.display(),
            device.name
        );
        return Err(FsError::new(ErrorKind::Conflict, text));
    }
    if block.counts.connections > 0 {
        let text = format!(
            "{} NBD clients are connected, and they cannot be handed over: have them disconnect \
             first",
            block.counts.connections
        );
        return Err(FsError::new(ErrorKind::Conflict, text));
    }
    match &shared.invocation.directory_in(&fuse.mountpoint) {
        true => {
            let text = format!(
                "the daemon was started in {}, below its own mount point, and cannot go back there \
                 without it: unmount and mount again from elsewhere",
                shared.invocation.directory.display()
            );
            Err(FsError::new(ErrorKind::Unsupported, text))
        }
        false => Ok(()),
    }
}

fn check_stays(shared: &DaemonState) -> Result<()> {
    match shared.may_end() {
        true => Err(FsError::new(ErrorKind::Conflict, "the daemon was told to end")),
        false => Ok(()),
    }
}

/// Executes the new binary; the error says why that did not come about, and all goes on then.
fn replace(shared: &DaemonState, binary: &Binary, id: &str) -> FsError {
    let Some(fuse) = &shared.fuse else {
        return FsError::new(ErrorKind::Bug, "nothing is mounted");
    };
    let called_off = match fuse.view.hold(DRAIN_MAX) {
        Ok(held) => match execute(shared, binary, id, &held) {
            Ok(never) => match never {},
            Err(error) => error,
        },
        Err(error) => error,
    };
    tracing::warn!("the upgrade was called off: {called_off}");
    called_off.within("the upgrade was called off, and all goes on with the version that ran")
}

enum Never {}

fn execute(shared: &DaemonState, binary: &Binary, id: &str, held: &HeldMount<'_>) -> Result<Never> {
    let began_ns = now_ns().saturating_sub(held.began().elapsed().as_nanos() as u64);
    let inherited = shared.engine.to_inherit();
    let old = Binary::own()?;
    let mut keep = vec![held.as_fd(), old.as_fd()];
    keep.extend(inherited.tier.locks.iter().map(|lock| lock.as_fd()));
    keep.extend(shared.sockets.descriptors());
    let attempt = Attempt {
        id: id.to_owned(),
        from: VERSION.to_owned(),
        began_ns,
        old: number(&old),
        kept: keep.iter().map(number).collect(),
        failed: None,
    };
    let state = State {
        version: VERSIONS[0],
        directory: shared.invocation.directory.clone().into(),
        mountpoint: shared.mountpoint().unwrap_or_default().into(),
        device: number(held),
        locks: inherited.tier.locks.iter().map(|lock| number(&**lock)).collect(),
        sockets: shared.sockets.numbers(),
        in_passthrough: inherited.tier.in_passthrough,
        fuse: held.hand_over()?,
    };
    let state = serde_json::to_vec(&state)
        .map_err(|e| FsError::new(ErrorKind::Bug, "write what is handed over").with_source(e))?;
    let handed = memory(&attempt, &state)?;
    keep.push(handed.as_fd());
    // What is asked of this binary only would be lost with it. Signals that come from here on are not
    // taken by it.
    let _hearing = shared.hearing.lock();
    check_stays(shared)?;
    fail::fail_point!("daemon::upgrade-executing");
    let argv = shared.invocation.handed(number(&handed));
    let error = exec(binary.as_fd(), &argv, &keep);
    Err(FsError::local_io("execute the new binary", error))
}

/// How an upgrade came out, as the daemon tells that goes on.
pub(crate) fn outcome(handed: &Handed) -> Upgraded {
    let waited_ms = now_ns().saturating_sub(handed.attempt.began_ns) / 1_000_000;
    let Attempt { id, from, failed, .. } = handed.attempt.clone();
    let seconds = waited_ms as f64 / 1e3;
    match &failed {
        None => tracing::info!(from, to = VERSION, "upgraded; programs waited {seconds} s"),
        Some(why) => tracing::error!(
            "the new binary could not take over, and this one goes on; programs waited {seconds} \
             s: {why}"
        ),
    }
    Upgraded { id, from, to: VERSION.to_owned(), waited_ms, failed }
}
