//! What goes on without being asked: flushing by age and pressure, letting go, tidying, collecting.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use tokio::task::JoinSet;
use weir_tier::Amount;
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::engine::Core;

/// How often the tier is looked at, in milliseconds.
const TIER_LOOK_MS: u64 = 250;
/// How often logs are looked at, in milliseconds.
const TIDY_MS: u64 = 1_000;
/// How often mirrors are sealed, in milliseconds: what a power cut may cost of the cache.
const SEAL_MS: u64 = 600_000;

/// Starts the engine's tasks. They end when the set is shut down.
pub(crate) fn start(core: &Arc<Core>) -> JoinSet<()> {
    let mut tasks = JoinSet::new();
    tasks.spawn(release_loop(core.clone()));
    tasks.spawn(seal_loop(core.clone()));
    tasks.spawn(tidy_loop(core.clone()));
    tasks.spawn(crate::actions::run_loop(core.clone()));
    tasks.spawn(crate::throughput::throughput_loop(core.clone()));
    if !core.read_only {
        tasks.spawn(flush_loop(core.clone()));
        tasks.spawn(soon_loop(core.clone()));
        tasks.spawn(crate::journal::log_loop(core.clone()));
        tasks.spawn(crate::names::purge_loop(core.clone()));
        tasks.spawn(crate::collect::collect_loop(core.clone()));
        tasks.spawn(crate::links::links_loop(core.clone()));
    }
    tasks
}

async fn flush_loop(core: Arc<Core>) {
    let look = Duration::from_millis((core.settings.flush_age_ms / 4).clamp(25, 1_000));
    let mut failures = 0_u32;
    while !core.stopping.load(Ordering::Acquire) {
        let _ = tokio::time::timeout(look, core.flush_wanted.notified()).await;
        if let Err(error) = core.look_for_stores().await {
            tracing::warn!(%error, "a file that programs have mapped was not looked at: tried again");
        }
        let due = core.due();
        if due.is_empty() {
            continue;
        }
        match core.flush_along(&due).await {
            Ok(()) => {
                failures = 0;
                core.flusher.note_failed(0, None, core.now_ms());
            }
            Err(error) if error.kind() == ErrorKind::Fenced => return,
            Err(error) => {
                failures += 1;
                core.flusher.note_failed(failures, Some(&error), core.now_ms());
                if failures.is_power_of_two() {
                    let files = due.len();
                    tracing::warn!(%error, files, failures, "flush failed: the data waits in the tier");
                }
                core.flusher.rest(failures, (core.clock.random)()).await;
            }
        }
    }
}

/// Flushes files that were cut to nothing and written anew, once they are closed: what they were is
/// gone from the metadata within a second, and what they are must not stay behind for long.
async fn soon_loop(core: Arc<Core>) {
    loop {
        let inos = core.flusher.wait_for_soon().await;
        if let Err(error) = core.flush_along(&inos).await {
            if error.kind() == ErrorKind::Fenced {
                return;
            }
            tracing::debug!(%error, files = inos.len(), "files wait for the next flush by age");
        }
    }
}

impl Core {
    /// The files to flush now: once one has waited long enough, or under pressure, all there are.
    /// Under a steady trickle of writes each look would else find a few more that are due, and
    /// make a segment of its own for them.
    fn due(&self) -> Vec<Ino> {
        let news = self.tier.news();
        let pressed = self.tier.dirty_bytes() > self.settings.flush_start_bytes.0
            || (self.tier.dirty_bytes() > 0 && self.room_is_short());
        let now = self.now_ms();
        let old = |since: Option<u64>| {
            since.is_some_and(|since| now.saturating_sub(since) >= self.settings.flush_age_ms)
        };
        if pressed || news.iter().any(|m| old(m.dirty_since_ms())) {
            return news.iter().map(|m| m.ino()).collect();
        }
        Vec::new()
    }
}

async fn tidy_loop(core: Arc<Core>) {
    loop {
        tokio::time::sleep(Duration::from_millis(TIDY_MS)).await;
        core.nodes.sweep();
        let tidy = core.clone();
        let tidied = blocking(move || tidy.tier.tidy()).await;
        if let Err(error) = tidied {
            tracing::warn!(%error, "tidying the tier failed: tried again");
        }
    }
}

async fn release_loop(core: Arc<Core>) {
    loop {
        tokio::time::sleep(Duration::from_millis(TIER_LOOK_MS)).await;
        let tier = core.clone();
        let released = blocking(move || match tier.tier.above_high_water()? {
            true => tier.release(Amount::default()),
            false => Ok(0),
        });
        if let Err(error) = released.await {
            tracing::warn!(%error, "releasing pages failed: tried again");
        }
    }
}

async fn seal_loop(core: Arc<Core>) {
    loop {
        tokio::time::sleep(Duration::from_millis(SEAL_MS)).await;
        let tier = core.clone();
        if let Err(error) = blocking(move || tier.tier.seal()).await {
            tracing::warn!(%error, "sealing the tier failed: tried again");
        }
    }
}

/// Runs what blocks on the local disk where it holds nobody up.
pub(crate) async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    let done = tokio::task::spawn_blocking(work).await;
    done.unwrap_or_else(|e| Err(FsError::new(ErrorKind::Bug, format!("background work: {e}"))))
}
