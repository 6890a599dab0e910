//! The budget of a mount: dollars an hour for requests to its buckets.
//!
//! When half of five minutes' money is spent, hydrations stop; at three quarters nothing is read
//! ahead any more; when all is gone, fetches that somebody waits for and new writes wait too: one of
//! them goes at each look, so that they are slow and not dead.

use parking_lot::{Mutex, MutexGuard};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use tokio::sync::{Notify, watch};
use weir_cost::{ColdUsage, PriceBook, Prices, Requests, Restored, Usage, so_far};
use weir_object::{MeterSnapshot, RequestKind};
use weir_throughput::budget::{self, Stage};
use weir_types::{NanoUsd, StorageClass};

use crate::volume::context::Context;
use crate::volume::restored::ByRestore;

/// What must wait at a stage of the budget, and at all that follow it.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize, JsonSchema,
)]
#[serde(rename_all = "kebab-case")]
pub enum Slowed {
    /// Nothing.
    Nothing,
    /// Hydrations.
    Hydration,
    /// Reading ahead.
    ReadAhead,
    /// Fetches that somebody waits for, and writes.
    Demand,
}

/// A budget as it stands.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BudgetView {
    /// Dollars an hour, in nano-dollars.
    pub nano_usd_per_hour: NanoUsd,
    /// The region whose prices count.
    pub region: String,
    /// Spent since it was set, in nano-dollars.
    pub spent_nano_usd: NanoUsd,
    /// What is slowed now.
    pub slowed: Slowed,
    /// The share of it that is this node's, 0 to 1, where nodes share the volume; all of them spent
    /// what is said to be spent.
    #[serde(default)]
    pub share: Option<f64>,
}

/// The money that a mount may spend on requests.
pub(crate) struct Budget {
    kept: Mutex<Option<Kept>>,
    slowed: watch::Sender<Slowed>,
    one_more: Notify,
}

struct Kept {
    budget: budget::Budget,
    prices: PriceBook,
    region: String,
    seen: Asked,
    spent: NanoUsd,
}

/// What was asked of the buckets since the mount, and what of it in classes of other prices than the first.
#[derive(Clone)]
pub(crate) struct Asked {
    requests: MeterSnapshot,
    cold: [ColdUsage; StorageClass::COLD.len()],
    restored: ByRestore<Restored>,
}

impl Asked {
    /// As it is counted now.
    pub(crate) fn of(context: &Context) -> Self {
        let cold = std::array::from_fn(|at| context.counts.cold[at].used(StorageClass::COLD[at]));
        let restored = context.counts.restored.used();
        Self { requests: context.meter.snapshot(), cold, restored }
    }

    fn since(&self, seen: &Asked) -> Usage {
        // A budget may be set between a look and its settling.
        let cold = self.cold.iter().zip(&seen.cold).map(|(now, seen)| ColdUsage {
            class: now.class,
            stored_bytes: 0,
            moved: now.moved.saturating_sub(seen.moved),
            gets: now.gets.saturating_sub(seen.gets),
            read_bytes: now.read_bytes.saturating_sub(seen.read_bytes),
            early_byte_days: now.early_byte_days.saturating_sub(seen.early_byte_days),
        });
        let requests = requests_of(&(&self.requests - &seen.requests));
        let seen = seen.restored.as_flattened();
        let restored = self.restored.as_flattened().iter().zip(seen).map(|(now, seen)| Restored {
            objects: now.objects.saturating_sub(seen.objects),
            bytes: now.bytes.saturating_sub(seen.bytes),
            copy_byte_days: now.copy_byte_days.saturating_sub(seen.copy_byte_days),
            ..*now
        });
        Usage { requests, cold: cold.collect(), restored: restored.collect(), ..Usage::default() }
    }
}

impl Default for Budget {
    fn default() -> Self {
        Self {
            kept: Mutex::default(),
            slowed: watch::Sender::new(Slowed::Nothing),
            one_more: Notify::new(),
        }
    }
}

impl Budget {
    /// Sets the budget, or takes it away.
    pub(crate) fn set(&self, budget: Option<(NanoUsd, &str)>, seen: Asked, now_ns: u64) {
        *self.kept() = budget.map(|(rate, region)| Kept {
            budget: budget::Budget::new(rate, now_ns),
            prices: PriceBook::built_in(),
            region: region.to_owned(),
            seen,
            spent: NanoUsd(0),
        });
        self.slowed.send_replace(Slowed::Nothing);
    }

    /// Works on what is kept of the budget, if one is set.
    pub(crate) fn with<T>(&self, work: impl FnOnce(&mut budget::Budget) -> T) -> Option<T> {
        self.kept().as_mut().map(|kept| work(&mut kept.budget))
    }

    /// Nano-dollars spent here since it was set.
    pub(crate) fn spent(&self) -> u64 {
        self.kept().as_ref().map_or(0, |kept| kept.spent.0.max(0).cast_unsigned())
    }

    pub(crate) fn is_set(&self) -> bool {
        self.kept().is_some()
    }

    pub(crate) fn view(&self) -> Option<BudgetView> {
        self.kept().as_ref().map(|kept| BudgetView {
            nano_usd_per_hour: kept.budget.rate(),
            region: kept.region.clone(),
            spent_nano_usd: kept.spent,
            slowed: *self.slowed.borrow(),
            share: None,
        })
    }

    /// Takes from the budget what was asked of the buckets since the last look.
    pub(crate) fn settle(&self, now: Asked, now_ns: u64) {
        let mut budget = self.kept();
        let Some(kept) = budget.as_mut() else { return };
        let cost = cost(kept.prices.at(&kept.region), &now.since(&kept.seen));
        kept.seen = now;
        kept.spent = kept.spent + cost;
        kept.budget.spend(cost, now_ns);
        let slowed = match kept.budget.stage(now_ns) {
            Stage::Free => Slowed::Nothing,
            Stage::NoHydration => Slowed::Hydration,
            Stage::NoReadAhead => Slowed::ReadAhead,
            Stage::Wait { .. } => Slowed::Demand,
        };
        let before = self.slowed.send_replace(slowed);
        if slowed == Slowed::Demand {
            self.one_more.notify_one();
        }
        if before != slowed {
            let hourly = kept.budget.rate();
            tracing::info!(?slowed, budget = %hourly, "the budget changed what may go on");
        }
    }

    /// Waits until this is not slowed.
    pub(crate) async fn wait(&self, what: Slowed) {
        if *self.slowed.borrow() < what {
            return;
        }
        let mut slowed = self.slowed.subscribe();
        // The sender lives as long as the budget.
        let allowed = async { drop(slowed.wait_for(|slowed| *slowed < what).await) };
        match what {
            Slowed::Demand => tokio::select! {
                () = allowed => {}
                () = self.one_more.notified() => {}
            },
            _ => allowed.await,
        }
    }

    /// Slows nothing any more, because nobody settles any more. The budget stays.
    pub(crate) fn end(&self) {
        self.slowed.send_replace(Slowed::Nothing);
    }

    pub(crate) fn slows(&self, what: Slowed) -> bool {
        *self.slowed.borrow() >= what
    }

    fn kept(&self) -> MutexGuard<'_, Option<Kept>> {
        self.kept.lock()
    }
}

/// What requests cost at list prices, and bytes that are read back from a class where these cost something.
fn cost(prices: Prices<'_>, asked: &Usage) -> NanoUsd {
    so_far(prices, asked).total
}

/// Requests by what they cost.
pub(crate) fn requests_of(asked: &MeterSnapshot) -> Requests {
    let of = |kinds: &[RequestKind]| kinds.iter().map(|kind| asked.requests(*kind)).sum();
    Requests {
        put: of(&[RequestKind::Put, RequestKind::Copy, RequestKind::List]),
        get: of(&[RequestKind::Get, RequestKind::Head]),
        delete: of(&[RequestKind::Delete]),
    }
}

#[cfg(test)]
mod tests {
    use weir_object::Meter;
    use weir_types::{ArchiveClass, Restore, RestoreTier};

    use super::*;
    use crate::volume::restored::RestoredCounts;

    fn asked(gets: u64, read_bytes: u64) -> Asked {
        let of = |class| ColdUsage { class, gets, read_bytes, ..ColdUsage::default() };
        let cold = StorageClass::COLD.map(|class| match class {
            StorageClass::GlacierIr => of(class),
            class => ColdUsage { class, ..ColdUsage::default() },
        });
        let restored = RestoredCounts::default().used();
        Asked { requests: Meter::new().snapshot(), cold, restored }
    }

    #[test]
    fn what_is_restored_from_an_archive_is_spent() {
        let budget = Budget::default();
        budget.set(Some((NanoUsd(9_000_000_000), "us-east-1")), asked(0, 0), 0);
        let counts = RestoredCounts::default();
        let restore = Restore { tier: RestoreTier::Standard, days: 1 };
        counts.add(ArchiveClass::Glacier, restore, 73 << 30);
        budget.settle(Asked { restored: counts.used(), ..asked(0, 0) }, 1);
        // 73 GB at a cent, a request at 5 cents a thousand, and the copy, at 2.3 cents a month of 30.4 days.
        assert_eq!(budget.spent(), 730_000_000 + 50_000 + 55_200_000);
    }

    #[test]
    fn what_is_read_back_from_a_cold_class_is_spent() {
        let budget = Budget::default();
        // 75 cents in five minutes.
        budget.set(Some((NanoUsd(9_000_000_000), "us-east-1")), asked(5, 1 << 40), 0);
        budget.settle(asked(5, 1 << 40), 1);
        assert_eq!(budget.spent(), 0, "what was before is not counted");
        // 10 GB at 3 cents, and ten thousand requests at a cent a thousand.
        budget.settle(asked(10_005, (1 << 40) + (10 << 30)), 2);
        assert_eq!(budget.spent(), 400_000_000);
        assert_eq!(budget.view().map(|view| view.slowed), Some(Slowed::Hydration));
    }
}
