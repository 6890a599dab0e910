//! Room in the tier for a hydration: others make it, up to the high-water mark, but not what was
//! hydrated before, or the last files would push out the first.

use std::sync::Arc;
use std::time::Duration;

use weir_tier::{Amount, Mirror};
use weir_types::{Bytes, Result};

use super::hydrate::Mover;
use super::reservation::Reserved;
use crate::services::actions::parts::Actions;
use crate::volume::context::blocking;

/// How long a hydration waits for dirty data to leave before it looks again for room.
const FLUSH_WAIT: Duration = Duration::from_secs(10);

impl Mover {
    /// Keeps room in the tier, which others make, but not what this hydration brought. What is
    /// under way may still turn out to take less. Answers why there is none.
    pub(super) async fn reserve(&mut self, wanted: Amount) -> Result<Reserved, String> {
        loop {
            let short = self.actions.hydrate_short_of(wanted);
            if short == Amount::default() {
                self.actions.space.reserve(wanted);
                return Ok(Reserved { actions: self.actions.clone(), amount: wanted });
            }
            if self.releasable.is_none_or(|releasable| releasable.covers(&short)) {
                let released = self.actions.release_for_hydration(short).await;
                self.releasable =
                    Some(released.as_ref().map(|(_, left)| *left).unwrap_or_default());
                if released.is_ok_and(|(released, _)| released > 0) {
                    continue;
                }
            }
            match self.under_way.join_next().await {
                Some(done) => self.joined(done),
                // What is dirty now makes room when it is in the bucket.
                None if self.waits_for_flush().await => self.releasable = None,
                None => {
                    self.action.finds_no_room();
                    return Err(self.too_small(short));
                }
            }
        }
    }

    /// Waits a moment for dirty data to leave; `false` if there is none.
    async fn waits_for_flush(&self) -> bool {
        let actions = &self.actions;
        let dirty = actions.tier.dirty_bytes();
        if dirty == 0 {
            return false;
        }
        actions.space.flush_wanted.notify_one();
        let _ = tokio::time::timeout(FLUSH_WAIT, actions.space.made.notified()).await;
        actions.tier.dirty_bytes() < dirty
    }

    fn too_small(&self, short: Amount) -> String {
        let settings = &self.actions.context.settings;
        let why = "is full of what was hydrated before and of what is in use";
        let Ok(usage) = self.actions.tier.usage() else { return format!("the tier {why}") };
        if short.bytes == 0 {
            let files = usage.limit_files;
            return match usage.limits_files_by_memory() {
                true => format!("a tier of {files} files, which --memory allows, {why}"),
                false => format!("a tier of {files} files, for which its disk has inodes, {why}"),
            };
        }
        let all = self.action.bytes_total();
        let needed = all.unwrap_or_else(|| self.action.view().bytes_total);
        let needed = needed + self.actions.space.pinned_bytes();
        let needed = needed.saturating_mul(100) / u64::from(settings.high_water_percent) + 1;
        let least = if all.is_some() { "" } else { "at least " };
        let needed = Bytes(needed.next_multiple_of(1 << 20));
        let tier = Bytes(usage.limit_bytes);
        match usage.limit_bytes < usage.tier_bytes {
            true => format!(
                "the tier of {tier}, which is what its disk can give, {why}: all of this takes \
                 {least}{needed}"
            ),
            false => format!(
                "the tier of {tier} {why}: all of this takes a --tier-size of {least}{needed}"
            ),
        }
    }
}

impl Actions {
    /// What must go before `wanted` may be hydrated: up to the high-water mark, because beyond it
    /// what came first would go again.
    fn hydrate_short_of(&self, wanted: Amount) -> Amount {
        let room = self.tier.room_below_high_water().unwrap_or_default();
        let reserved = self.space.reserved();
        let bytes = wanted.bytes + reserved.bytes.max(self.space.coming_bytes());
        Amount {
            bytes: bytes.saturating_sub(room.bytes),
            files: (wanted.files + reserved.files).saturating_sub(room.files),
        }
    }

    /// Releases so much of what nobody used since the oldest hydration began, or nothing if that is
    /// not enough. Answers the bytes, and how much more it could be.
    async fn release_for_hydration(self: &Arc<Self>, short: Amount) -> Result<(u64, Amount)> {
        let actions = self.clone();
        let since = self.space.hydrating_since();
        blocking(move || {
            let keep =
                |mirror: &Mirror| mirror.last_used() >= since || actions.space.is_pinned(mirror);
            let clean = actions.tier.clean(keep);
            if !clean.covers(&short) {
                return Ok((0, clean));
            }
            let released = actions.tier.release_amount(short, keep)?;
            actions.space.released(released);
            Ok((released, actions.tier.clean(keep)))
        })
        .await
    }
}
