//! Bills: quantities times prices, line by line.

use std::fmt;
use std::ops::{Add, Mul};
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use weir_types::{ArchiveClass, NanoUsd, Restore, RestoreTier, StorageClass};

use crate::{ClassItems, Item, Price, Prices};

/// Bytes in a GB as AWS bills it.
pub(crate) const GB: f64 = (1_u64 << 30) as f64;

/// Hours in a month as price lists count it: 8,760 / 12.
pub(crate) const MONTH_HOURS: f64 = 730.0;

const HOUR_SECONDS: f64 = 3600.0;

/// Requests by what they cost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Requests {
    /// PUT, COPY and LIST.
    pub put: u64,
    /// GET and HEAD.
    pub get: u64,
    /// DELETE.
    pub delete: u64,
}

/// What a local disk is, for its price.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum DiskKind {
    /// The instance's own NVMe: in its price.
    InstanceStore,
    /// An EBS gp3 volume with its base IOPS and throughput.
    Gp3,
    /// An EBS io2 volume, its IOPS apart.
    Io2,
    /// Nobody said.
    Unknown,
}

/// The machine that a mount is on, as far as its price goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    /// The instance type, such as `i4i.8xlarge`, where known.
    pub instance: Option<String>,
    /// Bytes that the tier may take on its disk.
    pub disk_bytes: u64,
    /// What the disk is.
    pub disk: DiskKind,
}

/// What was used while somebody watched.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Bytes that were stored, as an average over the time watched, in whatever class.
    pub stored_bytes: u64,
    /// What of it, and of the requests, was in other storage classes than the first.
    pub cold: Vec<ColdUsage>,
    /// Bytes of other buckets' objects that were files, in each class, the first one first.
    pub linked_bytes: [u64; StorageClass::ALL.len()],
    /// What was restored out of archive classes, and by which of the requests.
    pub restored: Vec<Restored>,
    /// Requests made.
    pub requests: Requests,
    /// Bytes sent out of the region; 0 for a client inside it.
    pub out_bytes: u64,
    /// How long this was watched.
    pub observed: Duration,
    /// The machine, for a bill that includes it; without one, the bill is the bucket's.
    pub host: Option<Host>,
}

/// What was used in a storage class of its own prices.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ColdUsage {
    /// The class.
    pub class: StorageClass,
    /// Bytes that were kept in it, as an average.
    pub stored_bytes: u64,
    /// COPY requests that moved objects into it.
    pub moved: u64,
    /// GET requests for objects in it.
    pub gets: u64,
    /// Bytes that they brought.
    pub read_bytes: u64,
    /// Bytes of objects that left it too early, times the days that were left.
    pub early_byte_days: u64,
}

/// Objects that were asked to be restored out of a class, all of them as soon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The class that they stay in.
    pub class: ArchiveClass,
    /// How soon they come.
    pub tier: RestoreTier,
    /// How many, each by a request.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// The bytes of their copies times the days for which these are kept beside them.
    pub copy_byte_days: u64,
}

/// One line of a bill.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
#[schemars(rename = "BillLine")]
pub struct Line {
    /// What was used.
    pub what: String,
    /// Its name in the price book, if it has a price of its own.
    pub item: Option<Item>,
    /// How many units of it.
    pub quantity: f64,
    /// The unit, in words.
    pub unit: &'static str,
    /// The price of one unit and who says so, unless unknown.
    pub price: Option<Price>,
    /// The whole line, unless unknown. Nothing used costs nothing whatever its price.
    #[serde(rename = "amount_nano_usd")]
    pub amount: Option<NanoUsd>,
}

/// A sum of money of which some parts may not be known.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Amount {
    /// The sum of what is known.
    #[serde(rename = "nano_usd")]
    pub usd: NanoUsd,
    /// Whether that is all of it.
    pub complete: bool,
}

/// What something costs.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Bill {
    /// The region whose prices these are.
    pub region: String,
    /// Its lines, those with nothing used among them.
    pub lines: Vec<Line>,
    /// The sum of the known amounts: all that is owed when `complete`, else the least of it.
    #[serde(rename = "total_nano_usd")]
    pub total: NanoUsd,
    /// Whether every amount is known.
    pub complete: bool,
}

/// What `usage` cost: the time that the bytes were kept, the requests, the transfer, and the
/// machine where it is said.
pub fn so_far(prices: Prices<'_>, usage: &Usage) -> Bill {
    bill(prices, usage, usage.observed.as_secs_f64() / HOUR_SECONDS, 1.0)
}

/// What a month of 730 hours costs if all goes on as in `recent`. A rate that nobody watched is
/// taken for none: then only what is kept and rented is on the bill.
pub fn per_month(prices: Prices<'_>, recent: &Usage) -> Bill {
    at_this_rate(prices, recent, MONTH_HOURS)
}

/// What an hour costs if all goes on as in `recent`: what a burst of requests is worth ending for.
pub fn per_hour(prices: Prices<'_>, recent: &Usage) -> Bill {
    at_this_rate(prices, recent, 1.0)
}

fn at_this_rate(prices: Prices<'_>, recent: &Usage, hours: f64) -> Bill {
    let observed_hours = recent.observed.as_secs_f64() / HOUR_SECONDS;
    let times = if observed_hours > 0.0 { hours / observed_hours } else { 0.0 };
    bill(prices, recent, hours, times)
}

/// What keeping `stored_bytes` for a month of 730 hours costs, with no request made.
pub fn month(prices: Prices<'_>, stored_bytes: u64) -> Bill {
    let gb_months = stored_bytes as f64 / GB;
    Bill::of(prices, vec![Line::of(prices, "storage", Item::S3Storage, gb_months)])
}

/// The bill for `hours` of keeping, and for what was done `times` over.
fn bill(prices: Prices<'_>, usage: &Usage, hours: f64, times: f64) -> Bill {
    let months = hours / MONTH_HOURS;
    let line = |what: &str, item, quantity| Line::of(prices, what, item, quantity);
    let thousand = |count: u64| count as f64 / 1000.0 * times;
    let Requests { put, get, delete } = usage.requests;
    let of_cold = |of: fn(&ColdUsage) -> u64| usage.cold.iter().map(of).sum::<u64>();
    // These have prices of their own.
    let restores = usage.restored.iter().map(Restored::own_requests).sum::<u64>();
    let put = put.saturating_sub(of_cold(|cold| cold.moved) + restores);
    let get = get.saturating_sub(of_cold(|cold| cold.gets));
    let stored_bytes = usage.stored_bytes.saturating_sub(of_cold(|cold| cold.stored_bytes));
    let mut lines = vec![
        line("storage", Item::S3Storage, stored_bytes as f64 / GB * months),
        line("PUT, COPY and LIST requests", Item::S3Put, thousand(put)),
        line("GET and HEAD requests", Item::S3Get, thousand(get)),
        line("DELETE requests", Item::S3Delete, thousand(delete)),
        line(
            "transfer out of the region",
            Item::S3TransferOut,
            usage.out_bytes as f64 / GB * times,
        ),
    ];
    lines.extend(usage.cold.iter().flat_map(|cold| cold_lines(prices, cold, months, times)));
    let linked =
        StorageClass::ALL.into_iter().zip(usage.linked_bytes).filter(|(_, bytes)| *bytes > 0);
    lines.extend(linked.map(|(class, bytes)| {
        let gb_months = bytes as f64 / GB * months;
        line(&format!("linked objects in {class}"), Item::of_class(class).keep, gb_months)
    }));
    lines.extend(usage.restored.iter().flat_map(|restored| restored.lines(prices, times)));
    if let Some(host) = &usage.host {
        let disk_gb_months = host.disk_bytes as f64 / GB * months;
        lines.push(match host.disk {
            DiskKind::InstanceStore => {
                Line::included("disk: instance store, in the instance's price", disk_gb_months)
            }
            DiskKind::Gp3 => line("disk: gp3", Item::Gp3Storage, disk_gb_months),
            DiskKind::Io2 => line("disk: io2, without its IOPS", Item::Io2Storage, disk_gb_months),
            DiskKind::Unknown => Line::unknown("disk of unknown kind", disk_gb_months, "GB-month"),
        });
        lines.push(match &host.instance {
            Some(name) => line(&format!("instance {name}"), Item::Instance(name.clone()), hours),
            None => Line::unknown("instance of unknown type", hours, "hour"),
        });
    }
    Bill::of(prices, lines)
}

/// The lines of a storage class that was used.
fn cold_lines(prices: Prices<'_>, cold: &ColdUsage, months: f64, times: f64) -> Vec<Line> {
    let ClassItems { keep, put, get, retrieve } = Item::of_class(cold.class);
    let class = cold.class;
    let many = |count: u64, of: f64| count as f64 / of * times;
    let early_gb_months = many(cold.early_byte_days, GB) / (MONTH_HOURS / 24.0);
    let kept_gb_months = cold.stored_bytes as f64 / GB * months;
    let mut lines = vec![
        Line::of(prices, &format!("storage in {class}"), keep.clone(), kept_gb_months),
        Line::of(prices, &format!("moved into {class}"), put, many(cold.moved, 1000.0)),
        Line::of(prices, &format!("GET requests of {class}"), get, many(cold.gets, 1000.0)),
        Line::of(prices, &format!("left {class} before its days"), keep, early_gb_months),
    ];
    if let Some(retrieve) = retrieve {
        let gb = many(cold.read_bytes, GB);
        lines.insert(3, Line::of(prices, &format!("read from {class}"), retrieve, gb));
    }
    lines.retain(|line| line.quantity > 0.0);
    lines
}

impl Restored {
    /// So many objects of a class, restored in one way. What INTELLIGENT_TIERING had put away stays where it is kept,
    /// and has no copy.
    pub fn of(class: ArchiveClass, restore: Restore, objects: u64, bytes: u64) -> Self {
        let days = match class {
            ArchiveClass::IntelligentTiering => 0,
            ArchiveClass::Glacier | ArchiveClass::DeepArchive => u64::from(restore.days),
        };
        let copy_byte_days = bytes.saturating_mul(days);
        Self { class, tier: restore.tier, objects, bytes, copy_byte_days }
    }

    /// The requests that have a price of their own, and are no PUTs on a bill.
    pub(crate) fn own_requests(&self) -> u64 {
        Item::of_restore(self.class, self.tier).map_or(0, |_| self.objects)
    }

    /// The lines of a bill for `times` as much: the requests, what is read from the archive, and the copies, which are
    /// kept at the price of the first class.
    pub(crate) fn lines(&self, prices: Prices<'_>, times: f64) -> Vec<Line> {
        let Self { class, tier, objects, bytes, copy_byte_days } = *self;
        let gb = |bytes: u64| bytes as f64 / GB * times;
        let mut lines = Vec::new();
        if let Some((read, asked)) = Item::of_restore(class, tier) {
            let thousands = objects as f64 / 1000.0 * times;
            lines.push(Line::of(
                prices,
                &format!("restored from {class}, {tier}"),
                read,
                gb(bytes),
            ));
            lines.push(Line::of(prices, &format!("asked of {class}, {tier}"), asked, thousands));
        }
        let months = gb(copy_byte_days) * 24.0 / MONTH_HOURS;
        lines.push(Line::of(prices, &format!("copies of {class}"), Item::S3Storage, months));
        lines.retain(|line| line.quantity > 0.0);
        lines
    }
}

impl Line {
    /// `quantity` units of `item` at its price.
    pub(crate) fn of(prices: Prices<'_>, what: &str, item: Item, quantity: f64) -> Self {
        let price = prices.of(&item).cloned();
        let nothing = (quantity == 0.0).then_some(NanoUsd(0));
        let amount = nothing.or(price.as_ref().map(|price| times(price.usd, quantity)));
        let (what, unit) = (what.to_owned(), item.unit());
        Self { what, item: Some(item), quantity, unit, price, amount }
    }

    /// Something used whose price is in that of another line.
    pub(crate) fn included(what: &str, gb_months: f64) -> Self {
        Self { amount: Some(NanoUsd(0)), ..Self::unknown(what, gb_months, "GB-month") }
    }

    /// Something used of which nobody knows what it costs.
    pub(crate) fn unknown(what: &str, quantity: f64, unit: &'static str) -> Self {
        let amount = (quantity == 0.0).then_some(NanoUsd(0));
        Self { what: what.to_owned(), item: None, quantity, unit, price: None, amount }
    }

    /// The same at a price that is lower by this share of it.
    pub(crate) fn discounted(mut self, share: f64) -> Self {
        if let Some(price) = &mut self.price {
            price.usd = times(price.usd, 1.0 - share);
        }
        self.scaled(1.0)
    }

    /// The same line for `factor` as much.
    pub(crate) fn scaled(mut self, factor: f64) -> Self {
        self.quantity *= factor;
        self.amount = match (&self.price, self.amount) {
            (_, None) if self.quantity == 0.0 => Some(NanoUsd(0)),
            (Some(price), _) => Some(times(price.usd, self.quantity)),
            (None, amount) => amount,
        };
        self
    }
}

/// Exact to the nano-dollar below 2^53 of them, which is nine million dollars; `as` takes more than
/// the largest amount for the largest.
pub(crate) fn times(price: NanoUsd, quantity: f64) -> NanoUsd {
    NanoUsd((price.0 as f64 * quantity).round() as i64)
}

impl Bill {
    /// The bill of these lines.
    pub(crate) fn of(prices: Prices<'_>, lines: Vec<Line>) -> Self {
        let complete = lines.iter().all(|line| line.amount.is_some());
        let total = lines.iter().filter_map(|line| line.amount).sum();
        Self { region: prices.region().to_owned(), lines, total, complete }
    }

    /// The total, and whether it is all.
    pub fn amount(&self) -> Amount {
        Amount { usd: self.total, complete: self.complete }
    }

    /// Names of the items that were used and whose price nobody knows.
    pub fn unknown(&self) -> Vec<String> {
        let name = |line: &Line| line.item.as_ref().map_or(line.what.clone(), Item::to_string);
        self.unknown_lines().map(name).collect()
    }

    /// The lines whose amount nobody knows.
    pub(crate) fn unknown_lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter().filter(|line| line.amount.is_none())
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { usd: self.usd + other.usd, complete: self.complete && other.complete }
    }
}

impl Mul<f64> for Amount {
    type Output = Self;

    fn mul(self, factor: f64) -> Self {
        Self { usd: times(self.usd, factor), ..self }
    }
}

impl Amount {
    /// All of it in dollars.
    pub fn dollars(&self) -> f64 {
        self.usd.0 as f64 / 1e9
    }
}

impl fmt::Display for Amount {
    /// `$12.34`; `at least $12.34` when some part is unknown, and `unknown` when that is all.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.complete, self.usd) {
            (true, usd) => write!(f, "{usd}"),
            (false, NanoUsd(0)) => write!(f, "unknown"),
            (false, usd) => write!(f, "at least {usd}"),
        }
    }
}

impl fmt::Display for Bill {
    /// The total alone.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.amount().fmt(f)
    }
}

#[cfg(test)]
mod tests;
