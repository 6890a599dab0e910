//! Room in the tier for a hydration: others make it, up to the high-water mark, but not what was
//! hydrated before, or the last files would push out the first.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_tier::Mirror;
use weir_types::{Bytes, Result};

use super::hydrate::Mover;
use crate::background::blocking;
use crate::engine::Core;

/// How long a hydration waits for dirty data to leave before it looks again for room.
const FLUSH_WAIT: Duration = Duration::from_secs(10);

/// Room in the tier for what is not here yet.
pub(super) struct Reserved {
    core: Arc<Core>,
    bytes: u64,
}

impl Reserved {
    pub(super) fn split(&mut self, bytes: u64) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self { core: self.core.clone(), bytes }
    }
}

impl Drop for Reserved {
    fn drop(&mut self) {
        self.core.actions.reserved_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Mover {
    /// Keeps room in the tier, which others make, but not what this hydration brought. What is
    /// under way may still turn out to take less. Answers why there is none.
    pub(super) async fn reserve(&mut self, bytes: u64) -> Result<Reserved, String> {
        loop {
            let short = self.core.hydrate_short_of(bytes);
            if short == 0 {
                self.core.actions.reserved_bytes.fetch_add(bytes, Ordering::Relaxed);
                return Ok(Reserved { core: self.core.clone(), bytes });
            }
            if self.releasable.is_none_or(|releasable| releasable >= short) {
                let released = self.core.release_for_hydration(short).await;
                self.releasable = Some(released.as_ref().map_or(0, |(_, left)| *left));
                if released.is_ok_and(|(released, _)| released > 0) {
                    continue;
                }
            }
            match self.under_way.join_next().await {
                Some(done) => self.joined(done),
                // What is dirty now makes room when it is in the bucket.
                None if self.waits_for_flush().await => self.releasable = None,
                None => return Err(self.too_small()),
            }
        }
    }

    /// Waits a moment for dirty data to leave; `false` if there is none.
    async fn waits_for_flush(&self) -> bool {
        let core = &self.core;
        let dirty = core.tier.dirty_bytes();
        if dirty == 0 {
            return false;
        }
        core.flush_wanted.notify_one();
        let _ = tokio::time::timeout(FLUSH_WAIT, core.room_made.notified()).await;
        core.tier.dirty_bytes() < dirty
    }

    fn too_small(&self) -> String {
        let settings = &self.core.settings;
        let tier = settings.tier_bytes;
        let all = self.action.bytes_total();
        let needed = all.unwrap_or_else(|| self.action.view().bytes_total);
        let needed = needed + self.core.pinned_bytes();
        let needed = needed.saturating_mul(100) / u64::from(settings.high_water_percent) + 1;
        let least = if all.is_some() { "" } else { "at least " };
        format!(
            "the tier of {tier} is full of what was hydrated before and of what is in use: all of \
             this takes a --tier-size of {least}{}",
            Bytes(needed.next_multiple_of(1 << 20))
        )
    }
}

impl Core {
    /// Bytes that must go before `bytes` may be hydrated: up to the high-water mark, because
    /// beyond it what came first would go again.
    fn hydrate_short_of(&self, bytes: u64) -> u64 {
        let room = self.tier.room_below_high_water().unwrap_or(0);
        let reserved = self.actions.reserved_bytes.load(Ordering::Relaxed);
        (bytes + reserved.max(self.fetcher.coming_bytes())).saturating_sub(room)
    }

    /// Releases `bytes` of what nobody used since the oldest hydration began, or nothing if that
    /// is not enough. Answers how much, and how much more it could be.
    async fn release_for_hydration(self: &Arc<Self>, bytes: u64) -> Result<(u64, u64)> {
        let core = self.clone();
        let since = self.actions.hydrating_since();
        blocking(move || {
            let keep = |mirror: &Mirror| mirror.last_used() >= since || core.is_pinned(mirror);
            let clean = core.tier.clean_bytes(keep);
            if clean < bytes {
                return Ok((0, clean));
            }
            let released = core.tier.release_oldest(bytes, keep)?;
            core.released(released);
            Ok((released, clean - released.min(clean)))
        })
        .await
    }
}
