//! Flushing without being asked: by age, under pressure, and soon after a file was written anew.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_tier::Mirror;
use weir_types::{CHUNK_BYTES, ErrorKind, Ino};

use super::Flusher;

impl Flusher {
    /// The files to flush now: once one has waited long enough, or under pressure, all there are.
    /// Under a steady trickle of writes each look would else find a few more that are due, and
    /// make a segment of its own for them. Before that, a file that was written in one go and has
    /// enough: whoever syncs it waits at its end for what could have left meanwhile.
    fn due(&self) -> Vec<Ino> {
        let unflushed = self.tier.unflushed();
        let pressed = self.tier.dirty_bytes() > self.context.settings.flush_start_bytes.0
            || (self.tier.dirty_bytes() > 0 && self.space.room_is_short());
        let now = self.context.now_ms();
        let old = |since: Option<u64>| {
            since.is_some_and(|since| {
                now.saturating_sub(since) >= self.context.settings.flush_age_ms
            })
        };
        if pressed || unflushed.iter().any(|m| old(m.dirty_since_ms())) {
            return unflushed.iter().map(|m| m.ino()).collect();
        }
        let start = self.context.flush_start_of_one();
        let in_one_go = |mirror: &Mirror| {
            let dirty = mirror.dirty_bytes();
            dirty >= start && dirty >= mirror.dirty_ranges(0, u64::MAX).len() as u64 * CHUNK_BYTES
        };
        unflushed.iter().filter(|m| in_one_go(m)).map(|m| m.ino()).collect()
    }
}

pub(crate) async fn flush_loop(flusher: Arc<Flusher>) {
    let look = Duration::from_millis((flusher.context.settings.flush_age_ms / 4).clamp(25, 1_000));
    let mut failures = 0_u32;
    while !flusher.context.stopping.load(Ordering::Acquire) {
        let _ = tokio::time::timeout(look, flusher.space.flush_wanted.notified()).await;
        if let Err(error) = flusher.mirrors.look_for_mapped_writes().await {
            tracing::warn!(%error, "a file that programs have mapped was not looked at: tried again");
        }
        let due = flusher.due();
        if due.is_empty() {
            continue;
        }
        match flusher.flush_along(&due).await {
            Ok(()) => {
                failures = 0;
                flusher.background.note_failed(0, None, flusher.context.now_ms());
            }
            Err(error) if error.kind() == ErrorKind::Fenced => return,
            Err(error) => {
                failures += 1;
                flusher.background.note_failed(failures, Some(&error), flusher.context.now_ms());
                if failures.is_power_of_two() {
                    let files = due.len();
                    tracing::warn!(%error, files, failures, "flush failed: the data waits in the tier");
                }
                flusher.background.rest(failures, (flusher.context.clock.random)()).await;
            }
        }
    }
}

/// Flushes files that were cut to nothing and written anew, once they are closed: what they were is
/// gone from the metadata within a second, and what they are must not stay behind for long.
pub(crate) async fn soon_loop(flusher: Arc<Flusher>) {
    loop {
        let inos = flusher.background.wait_for_soon().await;
        if let Err(error) = flusher.flush_along(&inos).await {
            if error.kind() == ErrorKind::Fenced {
                return;
            }
            tracing::debug!(%error, files = inos.len(), "files wait for the next flush by age");
        }
    }
}
