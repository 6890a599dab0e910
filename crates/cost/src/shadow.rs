//! The shadow bill: what the work that a mount did would have cost elsewhere, and taken there.
//!
//! Only the storage is billed: the machine that ran the programs is the same everywhere.

use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;
use weir_throughput::efs::{Io, Mode, Rules};
use weir_throughput::fsx::{Deployment, check_capacity};

use crate::bill::MONTH_HOURS;
use crate::charges::{Load, charges};
use crate::{Bill, Machine, Model, Prices, Storage, Workload};

const MIB: f64 = (1_u64 << 20) as f64;
const GIB: u64 = 1 << 30;

/// What clients did with a mount while somebody watched.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// Bytes that were stored, as an average over the time watched.
    pub stored_bytes: u64,
    /// Of these what lay in classes for what nobody reads for a month.
    pub cold_bytes: u64,
    /// And in such for three months.
    pub archive_bytes: u64,
    /// Files that were stored.
    pub files: u64,
    /// Bytes that programs read.
    pub read_bytes: u64,
    /// Bytes that programs wrote.
    pub written_bytes: u64,
    /// Reads.
    pub reads: u64,
    /// Writes.
    pub writes: u64,
    /// Files opened.
    pub opens: u64,
    /// Opens, creations, removals, renames, and questions for attributes.
    pub metadata_ops: u64,
    /// How long this was watched.
    pub observed: Duration,
}

/// The same work on another storage.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct Shadow {
    /// The storage, as people call it.
    pub name: String,
    /// The storage.
    pub storage: Storage,
    /// What the work would have cost there by now.
    pub so_far: Bill,
    /// What a month would cost there at the rate of the work.
    pub month: Bill,
    /// Seconds that the same bytes would have taken there, with nothing else to do.
    pub seconds: f64,
    /// What makes it take so long.
    pub bound_by: String,
}

/// What `activity` would have cost and taken on each service: EFS in its modes, FSx for Lustre in
/// the smallest capacity that holds it, EBS, the instance store, and S3 Files. `machine` is what
/// it runs on.
pub fn shadow(
    prices: Prices<'_>,
    activity: &Activity,
    machine: &Machine,
    model: &Model<'_>,
) -> Vec<Shadow> {
    let workload = activity.workload(prices.region());
    let hours = activity.observed.as_secs_f64() / 3600.0;
    let runs = if hours > 0.0 { MONTH_HOURS / hours } else { 0.0 };
    // What was read had passed the page cache already.
    let machine = Machine { memory_gib: 0.0, ..machine.clone() };
    // What forgets its data is filled once a month, however short the time observed is.
    let fills = if runs > 0.0 { 1.0 / runs } else { 0.0 };
    let of = |storage: Storage| {
        let time = model(&storage, &workload, &machine, 1);
        let load = Load {
            metadata_ops: activity.metadata_ops as f64,
            ..Load::of(&workload, 1, fills, &time)
        };
        let charges = charges(prices, &storage, &load, &machine);
        Shadow {
            name: storage.to_string(),
            so_far: charges.bill(prices, hours / MONTH_HOURS, 1.0),
            month: charges.bill(prices, 1.0, runs),
            seconds: time.seconds,
            bound_by: time.bound_by,
            storage,
        }
    };
    activity.storages(&machine).into_iter().map(of).collect()
}

impl Activity {
    /// The work as one run of a workload, once in the time observed.
    fn workload(&self, region: &str) -> Workload {
        let moved_bytes = self.read_bytes.saturating_add(self.written_bytes);
        let seconds = self.observed.as_secs_f64();
        Workload {
            name: String::new(),
            data_set_bytes: self.stored_bytes,
            cold_bytes: self.cold_bytes,
            archive_bytes: self.archive_bytes,
            files: self.files,
            read_bytes_per_run: self.read_bytes,
            write_bytes_per_run: self.written_bytes,
            io_bytes: io_bytes(moved_bytes, self.reads.saturating_add(self.writes)),
            random: false,
            files_per_run: self.opens,
            runs_per_day: if seconds > 0.0 { 86_400.0 / seconds } else { 0.0 },
            concurrency: 1,
            threads: 1,
            cpu_seconds: 0.0,
            region: region.to_owned(),
        }
    }

    /// Each service in the size that the work needs: what it stores, and the rate that it had as
    /// an average of the time observed.
    fn storages(&self, machine: &Machine) -> Vec<Storage> {
        let seconds = self.observed.as_secs_f64();
        let rate = |count: f64| if seconds > 0.0 { count / seconds } else { 0.0 };
        let metered_bytes = Rules::today().metered_bytes(Io::Read, self.read_bytes) as f64
            + self.written_bytes as f64;
        let metered_mib_per_s = (rate(metered_bytes) / MIB).ceil().max(1.0);
        let mib_per_s =
            (rate(self.read_bytes as f64 + self.written_bytes as f64) / MIB).ceil() as u64;
        let iops = rate(self.reads as f64 + self.writes as f64).ceil() as u64;
        let efs = |mode| Storage::Efs { mode };
        let mut storages = vec![
            efs(Mode::Elastic),
            efs(Mode::Bursting),
            efs(Mode::Provisioned { mib_per_s: metered_mib_per_s }),
        ];
        for deployment in Deployment::ALL {
            let capacity_gib = least_capacity_gib(deployment, self.stored_bytes);
            let lazy = deployment == Deployment::Scratch2;
            storages.push(Storage::FsxLustre { deployment, capacity_gib, lazy });
        }
        let size_gib = self.stored_bytes.div_ceil(GIB).max(1);
        storages.extend([
            gp3(size_gib, iops, mib_per_s),
            Storage::Io2 { size_gib: size_gib.max(4), iops: iops.clamp(100, 32_000) },
            Storage::S3Files,
        ]);
        if machine.nvme_bytes >= self.stored_bytes.max(1) {
            storages.push(Storage::InstanceStore);
        }
        // What outgrows the largest volume is not sold.
        storages.retain(|storage| storage.check().is_ok());
        storages
    }
}

/// Bytes of an I/O, as an average. The tails of files pull that below what programs ask for: close
/// below 1 MiB it is taken for 1 MiB, from where on services serve reads otherwise.
fn io_bytes(moved_bytes: u64, ios: u64) -> u64 {
    const LARGE: u64 = 1 << 20;
    match moved_bytes / ios.max(1) {
        average if average >= LARGE / 4 * 3 => average.max(LARGE),
        average => average.max(1),
    }
}

/// The smallest capacity that AWS sells and that holds so many bytes.
pub(crate) fn least_capacity_gib(deployment: Deployment, stored_bytes: u64) -> u64 {
    let gib = stored_bytes.div_ceil(GIB).max(1);
    match check_capacity(deployment, gib) {
        Ok(()) => gib,
        Err(refused) => refused.nearest_gib.into_iter().fold(gib, u64::max),
    }
}

/// A gp3 volume of at least this size, rate and throughput, as far as AWS sells them: 3,000 to
/// 80,000 IOPS and 500 for each GiB at most; 125 to 2,000 MiB/s and a quarter for each IOPS at
/// most. Source: EBS user guide, "General Purpose SSD volumes".
pub(crate) fn gp3(size_gib: u64, iops: u64, mib_per_s: u64) -> Storage {
    let mib_per_s = mib_per_s.clamp(125, 2000);
    let iops = iops.max(mib_per_s * 4).clamp(3000, 80_000);
    let size_gib = if iops > 3000 { size_gib.max(iops.div_ceil(500)) } else { size_gib };
    Storage::Gp3 { size_gib, iops, mib_per_s }
}

#[cfg(test)]
mod tests {
    use weir_types::NanoUsd;

    use super::*;
    use crate::{PriceBook, RunTime, machine, predicted};

    fn an_hour() -> Activity {
        Activity {
            stored_bytes: 254 * GIB,
            files: 78,
            read_bytes: 254 * GIB,
            reads: 254 << 10,
            observed: Duration::from_secs(3600),
            ..Activity::default()
        }
    }

    fn shadows(region: &str, activity: &Activity) -> Vec<Shadow> {
        shadows_of(&PriceBook::built_in(), region, activity)
    }

    fn shadows_of(book: &PriceBook, region: &str, activity: &Activity) -> Vec<Shadow> {
        let machine = machine("i3.8xlarge").expect("known");
        let model = |_: &Storage, workload: &Workload, _: &Machine, _: u64| {
            let read_bytes = workload.read_bytes_per_run as f64;
            let seconds = read_bytes / (100.0 * MIB);
            let bound_by = "network".to_owned();
            RunTime { seconds, first_seconds: seconds, bound_by, read_bytes, write_bytes: 0.0 }
        };
        shadow(book.at(region), activity, &machine, &model)
    }

    fn of<'a>(shadows: &'a [Shadow], family: &str) -> &'a Shadow {
        let found = shadows.iter().find(|shadow| shadow.storage.family() == family);
        found.expect(family)
    }

    fn usd(bill: &Bill) -> f64 {
        bill.total.0 as f64 / 1e9
    }

    #[test]
    fn an_hour_elsewhere() {
        let shadows = shadows("us-east-1", &an_hour());
        let elastic = of(&shadows, "EFS elastic");
        // 254 GB x $0.30 / 730 + 254 GB x $0.03; a month: 254 x $0.30 + 730 x 254 GB x $0.03.
        assert!((usd(&elastic.so_far) - 7.724383562).abs() < 1e-6, "{}", elastic.so_far);
        assert!((usd(&elastic.month) - 5638.80).abs() < 1e-6, "{}", elastic.month);
        assert_eq!(elastic.seconds, 254.0 * 1024.0 / 100.0);
        // 254 GiB an hour are 72.25 MiB/s, metered at a third: 25 MiB/s, of which the size
        // includes 12.402: 12.598 x $6 + 254 x $0.30.
        let provisioned = of(&shadows, "EFS provisioned");
        assert_eq!(provisioned.name, "EFS provisioned 25 MiB/s");
        assert!((usd(&provisioned.month) - 151.7859375).abs() < 1e-6, "{}", provisioned.month);
        // 1,200 GiB are the least that is sold.
        let scratch = of(&shadows, "FSx SCRATCH_2");
        assert_eq!(scratch.name, "FSx SCRATCH_2 1200 GiB, linked bucket");
        assert!((usd(&scratch.month) - 173.842).abs() < 1e-6, "{}", scratch.month);
        for family in ["EFS bursting", "EBS gp3", "EBS io2", "instance store", "S3 Files"] {
            assert!(of(&shadows, family).month.complete, "{family}");
        }
    }

    #[test]
    fn what_has_no_price_is_at_least_something() {
        let book = r#"{"schema": "weir-prices/2", "prices": [{"region": "here",
            "item": "efs.standard", "usd": 0.33, "source": "test", "confidence": "vendor"}]}"#;
        let book = PriceBook::from_json(book).expect("reads");
        let shadows = shadows_of(&book, "here", &an_hour());
        let elastic = of(&shadows, "EFS elastic");
        // 254 GB x $0.33 is known; what a read costs is not.
        assert_eq!((elastic.month.total, elastic.month.complete), (NanoUsd(83_820_000_000), false));
        assert_eq!(elastic.month.to_string(), "at least $83.82");
        let reads = elastic.month.lines.iter().find(|line| line.what == "elastic reads");
        assert_eq!(reads.expect("a line").amount, None);
    }

    #[test]
    fn the_simulator_has_a_time_for_each_service_and_any_work() {
        let book = PriceBook::built_in();
        let machine = machine("i3.8xlarge").expect("known");
        let idle = Activity { observed: Duration::from_secs(60), ..Activity::default() };
        let small = Activity {
            stored_bytes: GIB,
            written_bytes: GIB,
            writes: 1 << 18,
            metadata_ops: 1 << 18,
            ..idle
        };
        for (activity, least) in [(idle, 0.0), (small, 0.01), (an_hour(), 10.0)] {
            for shadow in shadow(book.at("us-east-1"), &activity, &machine, &predicted) {
                let seconds = shadow.seconds;
                assert!(seconds.is_finite() && seconds >= least, "{}: {seconds}", shadow.name);
            }
        }
        // Nobody reads 254 GiB at more than the 100 MiB/s, metered at a third, that bursts are.
        let shadows = shadow(book.at("us-east-1"), &an_hour(), &machine, &predicted);
        let bursting = of(&shadows, "EFS bursting");
        assert!(bursting.seconds >= 254.0 * 1024.0 / 300.0, "{}", bursting.seconds);
    }

    #[test]
    fn a_mount_that_nobody_watched_has_no_rate() {
        let unwatched = Activity { observed: Duration::ZERO, ..an_hour() };
        for shadow in shadows("us-east-1", &unwatched) {
            assert!(usd(&shadow.month) < 1500.0, "{}: {}", shadow.name, shadow.month);
            assert!(shadow.seconds.is_finite(), "{}", shadow.name);
        }
    }

    #[test]
    fn sizes_are_ones_that_are_sold() {
        for (bytes, gib) in
            [(0, 1200), (1200 * GIB, 1200), (1200 * GIB + 1, 2400), (3687 * GIB, 4800)]
        {
            for deployment in [Deployment::Scratch2, Deployment::Persistent2_250] {
                assert_eq!(least_capacity_gib(deployment, bytes), gib, "{deployment} {bytes}");
            }
        }
        assert_eq!(least_capacity_gib(Deployment::Hdd40, 254 * GIB), 1800);
        assert_eq!(gp3(10, 0, 500), Storage::Gp3 { size_gib: 10, iops: 3000, mib_per_s: 500 });
        // 2,000 MiB/s need 8,000 IOPS, and those 16 GiB.
        assert_eq!(gp3(10, 0, 9999), Storage::Gp3 { size_gib: 16, iops: 8000, mib_per_s: 2000 });
    }
}
