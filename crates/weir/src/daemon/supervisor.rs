//! What systemd, or whatever started a daemon with a notification socket, hears of it: that it
//! serves, that it lives, that it ends and how much is left. Without such a socket nothing is said.
//! Protocol: sd_notify(3).

use std::sync::Arc;
use std::time::Duration;

use sd_notify::NotifyState;
use tokio::runtime::Runtime;
use tokio::task::JoinHandle;
use weir_types::Bytes;

use super::shared::DaemonState;

/// How long an end may take before the log tells what it waits for.
const TELL_AFTER: Duration = Duration::from_secs(5);
/// How often the log tells that.
const TELL_EVERY: Duration = Duration::from_secs(10);

/// Says once that the daemon lives.
pub(super) fn lives() {
    if sd_notify::watchdog_enabled().is_some() {
        tell(&[NotifyState::Watchdog]);
    }
}

/// Says from now on that the daemon lives.
pub(super) fn watch(runtime: &Runtime) {
    if let Some(limit) = sd_notify::watchdog_enabled() {
        // A runtime that hangs does not come to this.
        runtime.spawn(async move {
            loop {
                tell(&[NotifyState::Watchdog]);
                tokio::time::sleep(limit / 3).await;
            }
        });
    }
}

/// Says that the volume can be used.
pub(super) fn ready(shared: &DaemonState) {
    let place = match shared.mountpoint() {
        Some(dir) => format!("mounted at {}", dir.display()),
        None => "serves disks".to_owned(),
    };
    tell(&[NotifyState::Ready, NotifyState::Status(&place)]);
}

/// Says that the volume will be served when another machine does not any more.
pub(super) fn stands_by(holder: &str) {
    tell(&[NotifyState::Ready, NotifyState::Status(&format!("standing by for {holder}"))]);
}

/// Says that the daemon ends, and while the returned task runs, how much the last flush has left.
/// Should time run out, the log's last line says what stayed in the tier.
pub(super) fn ending(runtime: &Runtime, shared: Arc<DaemonState>) -> JoinHandle<()> {
    tell(&[NotifyState::Stopping, NotifyState::Status("flushing")]);
    runtime.spawn(async move {
        let mut rest = TELL_AFTER;
        loop {
            tokio::time::sleep(rest).await;
            rest = TELL_EVERY;
            let left = Bytes(shared.engine.dirty_bytes());
            let step = shared.waits_for().unwrap_or_else(|| "the end".to_owned());
            let text = format!("waiting for {step}; {left} are in the tier only");
            tracing::info!("{text}");
            tell(&[NotifyState::Status(&text)]);
        }
    })
}

/// Logs what the kernel's door waits for, where it does not shut although the daemon was told to end.
pub(super) async fn until_shut(shared: &DaemonState) {
    let mut rest = TELL_AFTER;
    while tokio::time::timeout(rest, shared.until_shut()).await.is_err() {
        rest = TELL_EVERY;
        if let Some(why) = shared.waits_for() {
            tracing::warn!("told to end, but {why}: it is served until that ends");
        }
    }
}

fn tell(states: &[NotifyState]) {
    if let Err(error) = sd_notify::notify(states) {
        tracing::debug!("whoever started the daemon cannot be told how it is: {error}");
    }
}
