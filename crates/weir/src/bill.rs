//! What a mount's work cost, and what it would have cost elsewhere: the same for `weir bill` and for
//! the page. What was counted flows in, priced lines flow out.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use weir_cost::{
    Activity, Bill, ColdUsage, Host, Item, Machine, Prices, Requests, Restored, Shadow, Storage,
    Usage, machine, machines, month, per_hour, per_month, predicted, shadow, so_far,
};
use weir_door_nfs::UseView;
use weir_engine::{Period, RestoredTotals, SnapshotTotals};
use weir_types::{ArchiveClass, ErrorKind, FsError, RestoreTier, Result, StorageClass};

use crate::render::seconds;

/// A month is told from no less than this; what was used before is mostly what a mount begins with.
pub(crate) const MONTH_FROM: Duration = Duration::from_secs(600);
/// An hour from no less than this.
pub(crate) const HOUR_FROM: Duration = Duration::from_secs(60);

/// The machine whose network bounds the services if nobody names one.
const USUAL_MACHINE: &str = "i4i.8xlarge";

/// What a daemon counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Counted {
    pub(crate) volume: String,
    pub(crate) mountpoint: Option<PathBuf>,
    pub(crate) files: u64,
    pub(crate) period: Period,
    /// What was done by NFS since its server began.
    pub(crate) nfs: Vec<UseView>,
    /// What snapshots hold alone.
    pub(crate) held: SnapshotTotals,
}

/// What the price of it depends on, and no daemon knows.
#[derive(Clone, Debug, Default)]
pub(crate) struct Terms {
    /// The machine, for a bill that includes it.
    pub(crate) host: Option<Host>,
    /// What was received left the bucket's region.
    pub(crate) outside: bool,
}

/// All that is said.
#[derive(Serialize, JsonSchema)]
#[schemars(rename = "BillReport")]
pub(crate) struct Report {
    /// The volume's URL.
    pub(crate) volume: String,
    /// Where it is mounted; `None` if it is only served.
    pub(crate) mountpoint: Option<PathBuf>,
    /// Whose list prices these are.
    pub(crate) region: String,
    /// When what is billed began.
    pub(crate) from_unix_ms: u64,
    /// When it ended.
    pub(crate) to_unix_ms: u64,
    /// What it cost.
    pub(crate) so_far: Bill,
    /// At this rate; nothing before a minute was watched.
    pub(crate) hour: Option<Bill>,
    /// At this rate; nothing before ten minutes were watched.
    pub(crate) month: Option<Bill>,
    /// What the same work would have cost elsewhere.
    pub(crate) shadow: Vec<Elsewhere>,
    /// The machine that the services are thought to serve.
    pub(crate) machine: Machine,
    /// What it rests on.
    pub(crate) used: Period,
    /// Which of it came by NFS, by address and export, since the server began.
    pub(crate) nfs: Vec<UseView>,
    /// What of the storage only snapshots hold.
    pub(crate) held: SnapshotTotals,
    /// What that costs a month.
    pub(crate) held_month: Bill,
}

/// The same work on another storage.
#[derive(Serialize, JsonSchema)]
pub(crate) struct Elsewhere {
    /// The storage, as people call it.
    pub(crate) name: String,
    /// Which one it is.
    pub(crate) storage: Storage,
    /// What it would have cost.
    pub(crate) so_far: Bill,
    /// Nothing before ten minutes were watched.
    pub(crate) month: Option<Bill>,
    /// How long the same bytes would have taken there.
    pub(crate) seconds: f64,
    /// What makes it take so long.
    pub(crate) bound_by: String,
}

impl Elsewhere {
    /// How long the same bytes would have taken there.
    pub(crate) fn time(&self) -> String {
        match self.seconds.is_finite() {
            true => seconds(self.seconds.ceil() as u64),
            false => "never".to_owned(),
        }
    }
}

/// What it cost at these prices.
///
/// # Errors
/// `Invalid` for an instance that nobody knows.
pub(crate) fn report(counted: Counted, terms: Terms, prices: Prices<'_>) -> Result<Report> {
    let Terms { host, outside } = terms;
    let machine = thought_of(host.as_ref().and_then(|host| host.instance.as_deref()), prices)?;
    let period = counted.period;
    let used = period.used;
    let out_bytes = if outside { used.received_bytes } else { 0 };
    let usage = Usage { out_bytes, host, ..usage(&period) };
    let observed = usage.observed;
    let (cold_bytes, archive_bytes) = by_age(&period);
    let activity = Activity {
        stored_bytes: period.average_stored_bytes + sum(period.average_linked_bytes),
        cold_bytes,
        archive_bytes,
        files: counted.files,
        read_bytes: used.read_bytes,
        written_bytes: used.written_bytes,
        reads: used.reads,
        writes: used.writes,
        opens: used.opens,
        metadata_ops: used.metadata_ops,
        observed,
    };
    Ok(Report {
        volume: counted.volume,
        mountpoint: counted.mountpoint,
        region: prices.region().to_owned(),
        from_unix_ms: period.from_unix_ms,
        to_unix_ms: used.unix_ms,
        so_far: so_far(prices, &usage),
        hour: (observed >= HOUR_FROM).then(|| per_hour(prices, &usage)),
        month: (observed >= MONTH_FROM).then(|| per_month(prices, &usage)),
        shadow: elsewhere(shadow(prices, &activity, &machine, &predicted), observed),
        machine,
        used: period,
        nfs: counted.nfs,
        held: counted.held,
        held_month: month(prices, counted.held.bytes),
    })
}

/// What was used of the bucket, from inside its region.
fn usage(period: &Period) -> Usage {
    let used = &period.used;
    Usage {
        stored_bytes: period.average_bucket_bytes,
        requests: Requests {
            put: used.put_requests,
            get: used.get_requests,
            delete: used.delete_requests,
        },
        cold: cold(period),
        linked_bytes: period.average_linked_bytes,
        restored: restored(period),
        observed: Duration::from_millis(used.unix_ms.saturating_sub(period.from_unix_ms)),
        ..Usage::default()
    }
}

/// What the bucket cost in a period.
pub(crate) fn cost_of(period: &Period, prices: Prices<'_>) -> Bill {
    so_far(prices, &usage(period))
}

/// What a month costs of keeping these bytes in the bucket, of which some are in other classes as at the end of a period,
/// and objects of links as then.
pub(crate) fn month_of_storage(stored_bytes: u64, period: &Period, prices: Prices<'_>) -> Bill {
    let cold = StorageClass::COLD.into_iter().zip(period.used.cold);
    let cold = cold.map(|(class, used)| ColdUsage {
        class,
        stored_bytes: used.bucket_bytes,
        ..ColdUsage::default()
    });
    // At a rate that nobody watched nothing is asked for.
    let linked_bytes = period.used.linked_bytes;
    per_month(
        prices,
        &Usage { stored_bytes, linked_bytes, cold: cold.collect(), ..Usage::default() },
    )
}

/// What was used in other storage classes than the first.
fn cold(period: &Period) -> Vec<ColdUsage> {
    let all = StorageClass::COLD.into_iter().zip(period.average_cold_bytes).zip(period.used.cold);
    let usage = all.map(|((class, stored_bytes), used)| ColdUsage {
        class,
        stored_bytes,
        moved: used.moved,
        gets: used.requests,
        read_bytes: used.read_bytes,
        early_byte_days: used.early_byte_days,
    });
    usage.collect()
}

/// What was restored out of archive classes, each class in each way.
fn restored(period: &Period) -> Vec<Restored> {
    let of_class = |(class, used): (ArchiveClass, [RestoredTotals; RestoreTier::ALL.len()])| {
        RestoreTier::ALL.into_iter().zip(used).map(move |(tier, used)| {
            let RestoredTotals { objects, bytes, copy_byte_days } = used;
            Restored { class, tier, objects, bytes, copy_byte_days }
        })
    };
    ArchiveClass::ALL.into_iter().zip(period.used.restored).flat_map(of_class).collect()
}

/// Bytes in all classes.
pub(crate) fn sum(in_class: [u64; StorageClass::ALL.len()]) -> u64 {
    in_class.iter().sum()
}

/// What files take that are in classes for what nobody reads for a month, and for three: objects of links among them, the
/// others if they are compressed as all are.
pub(crate) fn by_age(period: &Period) -> (u64, u64) {
    let of = |bytes: u64| {
        let share = bytes as f64 / period.average_bucket_bytes.max(1) as f64;
        (period.average_stored_bytes as f64 * share.min(1.0)) as u64
    };
    let [standard_ia, onezone_ia, glacier_ir] = period.average_cold_bytes;
    let [_, linked_ia, linked_onezone_ia, linked_ir] = period.average_linked_bytes;
    let month = of(standard_ia + onezone_ia) + linked_ia + linked_onezone_ia;
    (month, of(glacier_ir) + linked_ir)
}

/// The machine of this name. One that only the price book knows has its price from there, and the
/// usual one's network.
fn thought_of(instance: Option<&str>, prices: Prices<'_>) -> Result<Machine> {
    let priced = instance.is_some_and(|name| prices.of(&Item::Instance(name.to_owned())).is_some());
    let name = instance.unwrap_or(USUAL_MACHINE);
    let known = machine(name).or_else(|| machine(USUAL_MACHINE).filter(|_| priced));
    known.ok_or_else(|| {
        let known: Vec<_> = machines().into_iter().map(|machine| machine.instance).collect();
        let text = format!("--instance {name} is not known; known are {}", known.join(", "));
        FsError::new(ErrorKind::Invalid, text)
    })
}

pub(crate) fn elsewhere(shadows: Vec<Shadow>, observed: Duration) -> Vec<Elsewhere> {
    let of = |shadow: Shadow| {
        let Shadow { name, storage, so_far, month, seconds, bound_by } = shadow;
        let month = (observed >= MONTH_FROM).then_some(month);
        Elsewhere { name, storage, so_far, month, seconds, bound_by }
    };
    shadows.into_iter().map(of).collect()
}
