//! What each storage charges: for a month of keeping, and for a run.

use weir_throughput::efs::Mode;
use weir_throughput::fsx::Deployment;
use weir_throughput::s3_files;

use crate::bill::GB;
use crate::{Bill, Item, Line, Machine, Prices, RunTime, Storage, Workload};

/// Bytes of a ranged GET, as Weir and good copiers send them.
const GET_BYTES: f64 = (8 << 20) as f64;
/// Bytes of a PUT: one segment.
const PUT_BYTES: f64 = (16 << 20) as f64;
/// What EFS meters an operation at, at least. Source: EFS user guide, "Performance".
const EFS_BYTES_MIN: u64 = 4 << 10;
/// MiB/s that EFS includes with each TiB of Standard storage in provisioned mode.
const EFS_INCLUDED_MIBPS_PER_TIB: f64 = 50.0;
/// IOPS and MiB/s that a gp3 volume has without paying for them.
const GP3_BASE: (u64, u64) = (3000, 125);
/// IOPS of io2 up to which its first price holds.
const IO2_FIRST_IOPS: u64 = 32_000;

/// What is done with a storage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Load {
    /// Bytes kept.
    pub(crate) stored_bytes: u64,
    /// Of these what lies in a class for what nobody reads for a month.
    pub(crate) cold_bytes: u64,
    /// And in one for three months.
    pub(crate) archive_bytes: u64,
    /// Bytes that machines read from the storage in a run.
    pub(crate) read_bytes: f64,
    /// Bytes that they write in a run.
    pub(crate) write_bytes: f64,
    /// Bytes of one read or write.
    pub(crate) io_bytes: u64,
    /// Files opened or made in a run.
    pub(crate) metadata_ops: f64,
    /// Machines that need a disk of their own where the storage is no shared one.
    pub(crate) machines: u64,
    /// Share of the runs that begin with an empty local disk.
    pub(crate) cold: f64,
}

/// What a storage charges.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Charges {
    /// For each month, however much is run.
    pub(crate) monthly: Vec<Line>,
    /// For each run.
    pub(crate) per_run: Vec<Line>,
}

impl Load {
    /// The load of a run that each of `machines` does, if it takes as long and moves as much as
    /// `time` says.
    pub(crate) fn of(workload: &Workload, machines: u64, cold: f64, time: &RunTime) -> Self {
        let jobs = workload.concurrency as f64 * machines as f64;
        Self {
            stored_bytes: workload.data_set_bytes,
            cold_bytes: workload.cold_bytes,
            archive_bytes: workload.archive_bytes,
            read_bytes: time.read_bytes,
            write_bytes: time.write_bytes,
            io_bytes: workload.io_bytes,
            metadata_ops: workload.files_per_run as f64 * jobs,
            machines,
            cold,
        }
    }

    fn gb(&self) -> f64 {
        self.stored_bytes as f64 / GB
    }

    /// GB in each class: what is read, what is cold, what is colder.
    fn gb_by_age(&self) -> [f64; 3] {
        let warm = self.stored_bytes.saturating_sub(self.cold_bytes + self.archive_bytes);
        [warm, self.cold_bytes, self.archive_bytes].map(|bytes| bytes as f64 / GB)
    }

    /// GB that EFS meters for `bytes`.
    fn efs_gb(&self, bytes: f64) -> f64 {
        let io_bytes = self.io_bytes.max(1);
        bytes / io_bytes as f64 * io_bytes.max(EFS_BYTES_MIN) as f64 / GB
    }
}

/// What `storage` charges for `load` on machines like `machine`.
pub(crate) fn charges(
    prices: Prices<'_>,
    storage: &Storage,
    load: &Load,
    machine: &Machine,
) -> Charges {
    let line = |what: &str, item, quantity| Line::of(prices, what, item, quantity);
    let bucket = || {
        let [warm, cold, archive] = load.gb_by_age();
        let classes = [
            line("S3 storage", Item::S3Storage, warm),
            line("S3 Standard-IA storage", Item::S3StandardIaStorage, cold),
            line("S3 Glacier Instant storage", Item::S3GlacierInstantStorage, archive),
        ];
        used(classes)
    };
    let fill = |share: f64| {
        let gets = load.stored_bytes as f64 / GET_BYTES * load.machines as f64 * share;
        line("S3 GET requests", Item::S3Get, gets / 1000.0)
    };
    let put = || line("S3 PUT requests", Item::S3Put, load.write_bytes / PUT_BYTES / 1000.0);
    match storage {
        Storage::Efs { mode } => efs(prices, *mode, load),
        Storage::FsxLustre { deployment, capacity_gib, lazy } => {
            let item = fsx_item(*deployment);
            let capacity = line("FSx capacity", item, *capacity_gib as f64);
            let behind = if *lazy { bucket() } else { Vec::new() };
            Charges { monthly: [capacity].into_iter().chain(behind).collect(), per_run: vec![] }
        }
        Storage::Gp3 { size_gib, iops, mib_per_s } => {
            let monthly = gp3(prices, load.machines as f64, (*size_gib, *iops, *mib_per_s));
            Charges { monthly, per_run: vec![] }
        }
        Storage::Io2 { size_gib, iops } => {
            let monthly = io2(prices, load.machines as f64, *size_gib, *iops);
            Charges { monthly, per_run: vec![] }
        }
        Storage::InstanceStore => {
            let gb = load.gb() * load.machines as f64;
            let disk = Line::included("instance store, in the instance's price", gb);
            let monthly = bucket().into_iter().chain([disk]).collect();
            Charges { monthly, per_run: vec![fill(load.cold), put()] }
        }
        Storage::S3Files => of_s3_files(prices, load),
        Storage::Weir { warm } => {
            let disk = match machine.nvme_bytes {
                0 => gp3(prices, load.machines as f64, weir_tier(load.stored_bytes)),
                _ => vec![Line::included("tier on NVMe, in the instance's price", load.gb())],
            };
            let share = if *warm { 0.0 } else { load.cold };
            let monthly = bucket().into_iter().chain(disk).collect();
            Charges { monthly, per_run: vec![fill(share), put()] }
        }
    }
}

/// Lines of classes: the first one always, others where something is in them.
fn used(classes: [Line; 3]) -> Vec<Line> {
    let all = classes.into_iter().enumerate();
    all.filter(|(at, line)| *at == 0 || line.quantity > 0.0).map(|(_, line)| line).collect()
}

/// The gp3 volume that holds a tier for all of a data set: GiB, and base IOPS and MiB/s.
fn weir_tier(stored_bytes: u64) -> (u64, u64, u64) {
    (stored_bytes.div_ceil(1 << 30).max(1), GP3_BASE.0, GP3_BASE.1)
}

/// EFS bills what is stored, and above that: elastic each byte moved, and provisioned the
/// throughput that the size does not include. Source: EFS pricing and user guide, "Performance" and "Storage classes".
fn efs(prices: Prices<'_>, mode: Mode, load: &Load) -> Charges {
    let line = |what: &str, item, quantity| Line::of(prices, what, item, quantity);
    let [warm, cold, archive] = load.gb_by_age();
    // Only file systems with elastic throughput have Archive.
    let (cold, archive, ia) = match mode {
        Mode::Elastic => (cold, archive, Item::EfsIaElastic),
        Mode::Bursting | Mode::Provisioned { .. } => (cold + archive, 0.0, Item::EfsIa),
    };
    let mut monthly = used([
        line("EFS Standard storage", Item::EfsStandard, warm),
        line("EFS Infrequent Access storage", ia, cold),
        line("EFS Archive storage", Item::EfsArchive, archive),
    ]);
    let mut per_run = vec![];
    match mode {
        Mode::Bursting => {}
        Mode::Provisioned { mib_per_s } => {
            let included = EFS_INCLUDED_MIBPS_PER_TIB * load.gb() / 1024.0;
            let billed = (mib_per_s - included).max(0.0);
            monthly.push(line("provisioned throughput", Item::EfsProvisioned, billed));
        }
        Mode::Elastic => {
            let metadata_gb = load.metadata_ops * EFS_BYTES_MIN as f64 / GB;
            let read_gb = load.efs_gb(load.read_bytes) + metadata_gb;
            let write_gb = load.efs_gb(load.write_bytes);
            per_run.push(line("elastic reads", Item::EfsElasticRead, read_gb));
            per_run.push(line("elastic writes", Item::EfsElasticWrite, write_gb));
        }
    }
    Charges { monthly, per_run }
}

/// S3 Files bills the bucket; large reads are GETs of it, small ones bring the data set into the
/// hot storage and are metered there. Source: S3 Files, as of its start on 2026-04-07.
fn of_s3_files(prices: Prices<'_>, load: &Load) -> Charges {
    let line = |what: &str, item, quantity| Line::of(prices, what, item, quantity);
    let direct = load.io_bytes >= s3_files::DIRECT_READ_BYTES;
    let metered_gb = |bytes: f64| s3_files::metered_bytes(bytes, load.io_bytes) / GB;
    let metadata_gb = load.metadata_ops * s3_files::METADATA_OP_BYTES_MIN as f64 / GB;
    let hot_gb = if direct { load.write_bytes / GB } else { load.gb() };
    let gets = if direct { load.read_bytes / GET_BYTES } else { 0.0 };
    let small_gb = if direct { 0.0 } else { metered_gb(load.read_bytes) };
    Charges {
        monthly: vec![
            line("S3 storage", Item::S3Storage, load.gb()),
            line("S3 Files hot storage", Item::S3FilesStorage, hot_gb),
        ],
        per_run: vec![
            line("S3 GET requests", Item::S3Get, gets / 1000.0),
            line("S3 Files reads", Item::S3FilesRead, small_gb + metadata_gb),
            line("S3 Files writes", Item::S3FilesWrite, metered_gb(load.write_bytes)),
        ],
    }
}

fn gp3(
    prices: Prices<'_>,
    volumes: f64,
    (size_gib, iops, mib_per_s): (u64, u64, u64),
) -> Vec<Line> {
    let line = |what: &str, item, each: u64| Line::of(prices, what, item, each as f64 * volumes);
    vec![
        line("gp3 volumes", Item::Gp3Storage, size_gib),
        line("gp3 IOPS above 3,000", Item::Gp3Iops, iops.saturating_sub(GP3_BASE.0)),
        line("gp3 MiB/s above 125", Item::Gp3Throughput, mib_per_s.saturating_sub(GP3_BASE.1)),
    ]
}

fn io2(prices: Prices<'_>, volumes: f64, size_gib: u64, iops: u64) -> Vec<Line> {
    let line = |what: &str, item, each: u64| Line::of(prices, what, item, each as f64 * volumes);
    let above = iops.saturating_sub(IO2_FIRST_IOPS);
    vec![
        line("io2 volumes", Item::Io2Storage, size_gib),
        line("io2 IOPS", Item::Io2Iops, iops.min(IO2_FIRST_IOPS)),
        line("io2 IOPS above 32,000", Item::Io2IopsAbove32k, above),
    ]
}

fn fsx_item(deployment: Deployment) -> Item {
    match deployment {
        Deployment::Scratch2 => Item::FsxScratch2,
        Deployment::Persistent1_50 => Item::FsxPersistent1At50,
        Deployment::Persistent1_100 => Item::FsxPersistent1At100,
        Deployment::Persistent1_200 => Item::FsxPersistent1At200,
        Deployment::Persistent2_125 => Item::FsxPersistent2At125,
        Deployment::Persistent2_250 => Item::FsxPersistent2At250,
        Deployment::Persistent2_500 => Item::FsxPersistent2At500,
        Deployment::Persistent2_1000 => Item::FsxPersistent2At1000,
        Deployment::Hdd12 => Item::FsxHdd12,
        Deployment::Hdd40 => Item::FsxHdd40,
    }
}

impl Charges {
    /// The bill of so many months with so many runs in all.
    pub(crate) fn bill(&self, prices: Prices<'_>, months: f64, runs: f64) -> Bill {
        let kept = self.monthly.iter().cloned().map(|line| line.scaled(months));
        let done = self.per_run.iter().cloned().map(|line| line.scaled(runs));
        Bill::of(prices, kept.chain(done).collect())
    }
}

#[cfg(test)]
mod tests {
    use weir_types::NanoUsd;

    use super::*;
    use crate::{PriceBook, machine};

    const GIB: u64 = 1 << 30;

    fn load() -> Load {
        Load {
            stored_bytes: 254 * GIB,
            cold_bytes: 0,
            archive_bytes: 0,
            read_bytes: 254.0 * GB,
            write_bytes: 0.0,
            io_bytes: 1 << 20,
            metadata_ops: 0.0,
            machines: 1,
            cold: 1.0,
        }
    }

    /// Dollars of a month without runs, of a run, and whether all of it is known.
    fn usd(region: &str, storage: &str, load: &Load) -> (f64, f64, bool) {
        let book = PriceBook::built_in();
        let storage = storage.parse().expect(storage);
        let machine = machine("i3.8xlarge").expect("known");
        let charges = charges(book.at(region), &storage, load, &machine);
        let month = charges.bill(book.at(region), 1.0, 0.0);
        let NanoUsd(monthly) = month.total;
        let run = Bill::of(book.at(region), charges.per_run.clone());
        let complete = month.complete && run.complete;
        (monthly as f64 / 1e9, run.total.0 as f64 / 1e9, complete)
    }

    #[test]
    fn what_is_cold_is_cheaper_wherever_there_are_classes() {
        let load = Load { cold_bytes: 100 * GIB, archive_bytes: 50 * GIB, ..load() };
        for (storage, monthly) in [
            // 104 GB x $0.30 + 100 x $0.016 + 50 x $0.008.
            ("efs-elastic", 31.2 + 1.6 + 0.4),
            // No Archive there, and another price of IA: 150 x $0.025.
            ("efs-bursting", 31.2 + 3.75),
            // 104 GB x $0.023 + 100 x $0.0125 + 50 x $0.004.
            ("weir", 2.392 + 1.25 + 0.2),
            ("instance-store", 2.392 + 1.25 + 0.2),
            ("fsx:SCRATCH_2:1200", 168.0 + 2.392 + 1.25 + 0.2),
            // These have none.
            ("gp3:500:3000:125", 40.0),
        ] {
            let (have, _, complete) = usd("us-east-1", storage, &load);
            assert!((have - monthly).abs() < 1e-6 && complete, "{storage}: {have}, not {monthly}");
        }
    }

    #[test]
    fn each_service_by_hand() {
        let load = load();
        for (region, storage, monthly, run, complete) in [
            // 254 GB x $0.33; 254 GB x $0.03.
            ("ap-northeast-2", "efs-elastic", 83.82, 7.62, true),
            // Nobody knows what EFS and Scratch 2 cost in Tokyo; 1,200 GB x $0.188.
            ("ap-northeast-1", "efs-elastic", 0.0, 0.0, false),
            ("ap-northeast-1", "fsx:SCRATCH_2:1200", 0.0, 0.0, false),
            ("ap-northeast-1", "fsx:PERSISTENT_2-125:1200", 225.6, 0.0, true),
            // 254 GB x $0.30; 254 GB x $0.03.
            ("us-east-1", "efs-elastic", 76.20, 7.62, true),
            ("us-east-1", "efs-bursting", 76.20, 0.0, true),
            // 254 GB include 254/1024 x 50 = 12.402 MiB/s; 87.598 x $6 = $525.59.
            ("us-east-1", "efs-provisioned:100", 76.20 + 525.5859375, 0.0, true),
            ("us-east-1", "efs-provisioned:12", 76.20, 0.0, true),
            // 1,200 GB x $0.14 = $168, and 254 GB x $0.023 in the bucket behind it.
            ("us-east-1", "fsx:SCRATCH_2:1200", 168.0 + 5.842, 0.0, true),
            // 1,200 GB x $0.165, and 254 GB x $0.025.
            ("ap-northeast-2", "fsx:SCRATCH_2:1200", 198.0 + 6.35, 0.0, true),
            // 500 x $0.08 + 1,000 x $0.005 + 125 x $0.04.
            ("us-east-1", "gp3:500:4000:250", 40.0 + 5.0 + 5.0, 0.0, true),
            ("ap-northeast-2", "gp3:500:3000:125", 45.6, 0.0, true),
            // 500 x $0.0912 + 125 x $0.0456.
            ("ap-northeast-2", "gp3:500:3000:250", 45.6 + 5.7, 0.0, true),
            // 500 x $0.125 + 4,000 x $0.065; above 32,000 IOPS another price holds.
            ("us-east-1", "io2:500:4000", 62.5 + 260.0, 0.0, true),
            ("us-east-1", "io2:500:40000", 62.5 + 2080.0 + 8000.0 * 0.0455, 0.0, true),
            // 254 GB x $0.023; 254 x 128 GETs of 8 MiB = 32.512 thousand x $0.0004.
            ("us-east-1", "instance-store", 5.842, 0.0130048, true),
            ("us-east-1", "weir", 5.842, 0.0130048, true),
            ("us-east-1", "s3-files", 5.842, 0.0130048, true),
        ] {
            let (month_usd, run_usd, known) = usd(region, storage, &load);
            assert!((month_usd - monthly).abs() < 1e-6, "{storage} {region}: {month_usd} a month");
            assert!((run_usd - run).abs() < 1e-6, "{storage} {region}: {run_usd} a run");
            assert_eq!(known, complete, "{storage} {region}");
        }
    }

    #[test]
    fn small_operations_are_metered_as_larger_ones() {
        // Reads of 1 KiB count as 4 KiB on EFS and as 32 KiB in the hot storage of S3 Files.
        let load = Load { io_bytes: 1 << 10, read_bytes: GB, ..load() };
        assert_eq!(usd("us-east-1", "efs-elastic", &load).1, 4.0 * 0.03);
        assert_eq!(usd("us-east-1", "s3-files", &load).1, 32.0 * 0.03);
        // 254 GB hot at $0.30 and in the bucket at $0.023.
        let (monthly, ..) = usd("us-east-1", "s3-files", &load);
        assert!((monthly - 82.042).abs() < 1e-6, "{monthly}");
        // 2^18 files x 4 KiB = 1 GB.
        let opens = Load { read_bytes: 0.0, metadata_ops: (1 << 18) as f64, ..load };
        assert_eq!(usd("us-east-1", "efs-elastic", &opens).1, 0.03);
    }

    #[test]
    fn a_disk_of_its_own_is_paid_for_by_each_machine() {
        let four = Load { machines: 4, ..load() };
        assert_eq!(usd("us-east-1", "gp3:500:3000:125", &four).0, 160.0);
        assert_eq!(usd("us-east-1", "efs-bursting", &four).0, 76.20);
    }
}
