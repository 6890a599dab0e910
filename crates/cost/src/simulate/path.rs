//! The way between the jobs and their bytes, for each choice of storage.

use weir_throughput::credits::Burst;
use weir_throughput::ebs::Volume;
use weir_throughput::efs::{self, Io, Limiter, Mode};
use weir_throughput::instance_store::Disks;
use weir_throughput::{fsx, s3, s3_files};

use super::parameters::FreeParameters;
use super::work::{Bound, Work, io_bytes};
use crate::{Machine, Storage, Workload};

/// Linux lets dirty pages grow to 10% of memory before it writes back and slows writers down from
/// the middle between that and 20%: `vm.dirty_background_ratio`, `vm.dirty_ratio`, and
/// `balance_dirty_pages` in mm/page-writeback.c.
const DIRTY_SHARE: f64 = 0.15;

/// How long an instance can keep to its burst bandwidth: EC2 user guide, "Amazon EC2 instance
/// network bandwidth", "typically from 5 to 60 minutes", the middle of it.
const NETWORK_BURST_S: f64 = 32.5 * 60.0;

/// "Consistent, sub-millisecond latencies": FSx for Lustre user guide, "Performance".
const FSX_LATENCY_S: f64 = 0.0005;

/// Opening and closing a file.
const OPERATIONS_PER_FILE: f64 = 2.0;

const DAY_S: f64 = 24.0 * 3600.0;

/// What a storage does one way.
pub(super) struct Side {
    /// What every byte passes, in bytes of data a second.
    pub(super) stages: Vec<(Bound, Burst)>,
    /// I/Os, or files where they are small, a second.
    pub(super) operations_per_s: (Bound, f64),
    /// Files a second, whatever their size.
    pub(super) files_per_s: (Bound, f64),
    /// What an I/O takes beside its bytes.
    pub(super) latency_s: f64,
    /// What a small file takes beside that.
    pub(super) file_s: f64,
    /// Memory takes the bytes: an operation does not wait for the stages.
    pub(super) behind: bool,
}

/// Both ways.
pub(super) struct Path {
    pub(super) read: Side,
    pub(super) write: Side,
    /// What must be done before the first run.
    pub(super) fill_s: f64,
}

/// Who asks for a path.
struct Site<'a> {
    workload: &'a Workload,
    machine: &'a Machine,
    free: &'a FreeParameters,
}

impl Path {
    /// Once the data set is where the storage keeps it.
    pub(super) fn warm(
        storage: &Storage,
        workload: &Workload,
        machine: &Machine,
        free: &FreeParameters,
        work: &Work,
    ) -> Self {
        let site = Site { workload, machine, free };
        match storage {
            Storage::Efs { mode } => site.efs(*mode, site.efs_credits(*mode, work)),
            _ => site.path(storage, false),
        }
    }

    /// For the first run.
    pub(super) fn cold(
        storage: &Storage,
        workload: &Workload,
        machine: &Machine,
        free: &FreeParameters,
    ) -> Self {
        Site { workload, machine, free }.path(storage, true)
    }
}

impl Side {
    fn new(stages: Vec<(Bound, Burst)>, latency_s: f64) -> Self {
        let operations_per_s = (Bound::Requests, f64::INFINITY);
        let files_per_s = (Bound::Metadata, f64::INFINITY);
        Self { stages, operations_per_s, files_per_s, latency_s, file_s: 0.0, behind: false }
    }

    fn operations(self, bound: Bound, per_s: f64) -> Self {
        Self { operations_per_s: (bound, per_s), ..self }
    }

    fn files(self, bound: Bound, per_s: f64) -> Self {
        Self { files_per_s: (bound, per_s), ..self }
    }

    fn file_s(self, file_s: f64) -> Self {
        Self { file_s, ..self }
    }
}

impl Site<'_> {
    fn path(&self, storage: &Storage, cold: bool) -> Path {
        match *storage {
            Storage::Efs { mode } => {
                let initial = self.free.efs_rules.initial_credit_bytes;
                self.efs(mode, self.free.efs_credit_bytes.unwrap_or(initial))
            }
            Storage::FsxLustre { deployment, capacity_gib, lazy } => {
                self.fsx(deployment, capacity_gib, lazy && cold)
            }
            Storage::Gp3 { iops, mib_per_s, .. } => self.volume(&Volume::gp3(iops, mib_per_s)),
            Storage::Io2 { iops, .. } => self.volume(&Volume::io2(iops)),
            Storage::InstanceStore => {
                let path = self.instance_store();
                let disks = Disks::of(&self.machine.instance, self.machine.nvme_bytes);
                let stages = [self.network(), steady(Bound::Disk, disks.write_bytes_per_s())];
                let bytes = self.workload.data_set_bytes as f64;
                let times = stages.map(|(_, burst)| burst.seconds(bytes));
                let fill_s = if cold { times.into_iter().fold(0.0, f64::max) } else { 0.0 };
                Path { fill_s, ..path }
            }
            Storage::S3Files => self.s3_files(cold),
            Storage::Weir { warm } => self.weir(cold && !warm),
        }
    }

    /// The machine's network.
    fn network(&self) -> (Bound, Burst) {
        let (lasting, peak) = self.machine.network_gbps;
        let (lasting, peak) = (lasting * 1e9 / 8.0, peak * 1e9 / 8.0);
        let credit_bytes = (peak - lasting) * NETWORK_BURST_S;
        (Bound::Network, Burst { baseline: lasting, fast: peak, slow: lasting, credit_bytes })
    }

    fn source(&self) -> (Bound, Burst) {
        steady(Bound::Client, self.free.source_bytes_per_s)
    }

    /// What a byte of an I/O is metered at.
    fn metered(&self, io: Io) -> f64 {
        let io_bytes = io_bytes(self.workload);
        self.free.efs_rules.metered_bytes(io, io_bytes) as f64 / io_bytes as f64
    }

    /// Credits when a run begins, for runs that go on day after day: as many as there can be if a
    /// run spends no more than is earned from its beginning to that of the next, else what is
    /// earned between the end of a run and the beginning of the next.
    fn efs_credits(&self, mode: Mode, work: &Work) -> f64 {
        if let Some(credit_bytes) = self.free.efs_credit_bytes {
            return credit_bytes;
        }
        let rules = &self.free.efs_rules;
        let stored_bytes = self.workload.data_set_bytes;
        let earned_per_s = rules.baseline_bytes_per_s(stored_bytes);
        let period_s = DAY_S / self.workload.runs_per_day;
        let spent =
            work.read_bytes * self.metered(Io::Read) + work.write_bytes * self.metered(Io::Write);
        let mut credit_bytes = rules.credit_cap_bytes(stored_bytes);
        if spent > earned_per_s * period_s {
            // The run's length and its credits depend on each other; a few rounds settle them.
            for _ in 0..16 {
                let run_s = self.efs(mode, credit_bytes).seconds(work).seconds;
                credit_bytes = earned_per_s * (period_s - run_s).max(0.0);
            }
        }
        credit_bytes
    }

    fn efs(&self, mode: Mode, credit_bytes: f64) -> Path {
        let stored_bytes = self.workload.data_set_bytes;
        let limiter = Limiter::new(self.free.efs_rules.clone(), mode, stored_bytes, 0);
        let permitted = limiter.with_credits(credit_bytes).burst();
        let limits = efs::Limits::of(mode);
        let client = limits.client_bytes_per_s * self.free.efs_client_share;
        let side = |io, most, latency_s| {
            let metered = self.metered(io);
            let permitted = Burst {
                baseline: permitted.baseline / metered,
                fast: permitted.fast / metered,
                slow: permitted.slow / metered,
                credit_bytes: permitted.credit_bytes / metered,
            };
            let mut stages =
                vec![(Bound::Mode, permitted), steady(Bound::Client, client), self.network()];
            stages.push(steady(Bound::Mode, most));
            Side::new(stages, latency_s)
        };
        let mut write = side(Io::Write, limits.write_bytes_per_s, efs::WRITE_LATENCY_S);
        write.stages.push(self.source());
        let read = side(Io::Read, limits.read_bytes_per_s, efs::READ_LATENCY_S);
        Path {
            read: read
                .operations(Bound::Requests, limits.read_iops)
                .file_s(self.free.efs_read_file_s),
            write: write
                .operations(Bound::Requests, limits.write_iops)
                .file_s(self.free.efs_write_file_s),
            fill_s: 0.0,
        }
    }

    fn fsx(&self, deployment: fsx::Deployment, capacity_gib: u64, loads: bool) -> Path {
        let free = self.free;
        let credit_bytes_per_tib = free.fsx_credit_bytes_per_tib;
        let fs = fsx::FileSystem { deployment, capacity_gib, credit_bytes_per_tib };
        let common = || {
            let client = steady(Bound::Client, fsx::CLIENT_BYTES_PER_S);
            vec![(Bound::Network, fs.network()), client, self.network()]
        };
        let mut read = Side::new(common(), FSX_LATENCY_S).file_s(free.fsx_read_file_s);
        if self.workload.data_set_bytes as f64 > fs.cache_bytes() {
            read.stages.push((Bound::Disk, fs.reads()));
        }
        if loads {
            let tib = capacity_gib as f64 / 1024.0;
            read.stages.push(steady(Bound::Load, free.fsx_load_bytes_per_s_per_tib * tib));
        }
        let mut write = Side::new(common(), FSX_LATENCY_S).file_s(free.fsx_write_file_s);
        write.stages.extend([(Bound::Disk, fs.writes()), self.source()]);
        if let Some(iops) = fs.metadata_iops() {
            let per_file = OPERATIONS_PER_FILE / fsx::MetadataOp::File.per_iops();
            let files_per_s = iops as f64 / per_file;
            read = read.files(Bound::Metadata, files_per_s);
            write = write.files(Bound::Metadata, files_per_s);
        }
        Path { read, write, fill_s: 0.0 }
    }

    /// A local disk. What is written goes to memory first, like a burst, and nobody waits for the
    /// disk until that is full.
    fn local(&self, read_bytes_per_s: f64, write_bytes_per_s: f64, latency_s: f64) -> Path {
        let read = Side::new(vec![steady(Bound::Disk, read_bytes_per_s)], latency_s);
        let memory = Burst {
            baseline: write_bytes_per_s,
            fast: f64::INFINITY,
            slow: write_bytes_per_s,
            credit_bytes: self.machine.memory_gib * (1_u64 << 30) as f64 * DIRTY_SHARE,
        };
        let stages = vec![(Bound::Disk, memory), self.source()];
        let write = Side { behind: true, ..Side::new(stages, 0.0) }.file_s(self.free.local_file_s);
        Path { read, write, fill_s: 0.0 }
    }

    fn volume(&self, volume: &Volume) -> Path {
        let ebs_bytes_per_s = self.machine.ebs_mb_per_s * 1e6;
        let bytes_per_s = volume.bytes_per_s.min(ebs_bytes_per_s);
        let Path { read, write, fill_s } = self.local(bytes_per_s, bytes_per_s, volume.latency_s);
        Path { read: read.operations(Bound::Requests, volume.iops), write, fill_s }
    }

    fn instance_store(&self) -> Path {
        let disks = Disks::of(&self.machine.instance, self.machine.nvme_bytes);
        let path = self.local(disks.read_bytes_per_s(), disks.write_bytes_per_s(), disks.latency_s);
        Path { read: path.read.operations(Bound::Requests, disks.read_iops), ..path }
    }

    fn s3_files(&self, cold: bool) -> Path {
        let from_bucket = io_bytes(self.workload) >= s3_files::DIRECT_READ_BYTES;
        let latency_s = if from_bucket { s3::FIRST_BYTE_S } else { efs::READ_LATENCY_S };
        let client = steady(Bound::Client, s3_files::CLIENT_READ_BYTES_PER_S);
        let mut read = Side::new(vec![client, self.network()], latency_s)
            .operations(Bound::Requests, s3_files::READ_IOPS)
            .file_s(self.free.efs_read_file_s);
        if cold && !from_bucket {
            read.stages.push(steady(Bound::Load, s3_files::IMPORT_BYTES_PER_S));
            read = read.files(Bound::Load, s3_files::IMPORT_FILES_PER_S);
        }
        let most = steady(Bound::Mode, s3_files::WRITE_BYTES_PER_S);
        let write = Side::new(vec![most, self.network(), self.source()], efs::WRITE_LATENCY_S)
            .operations(Bound::Requests, s3_files::WRITE_IOPS)
            .file_s(self.free.efs_write_file_s);
        Path { read, write, fill_s: 0.0 }
    }

    /// Weir reads what its tier holds at the speed of the disk, and the rest over as many
    /// connections as fill the network, of which S3 serves enough: 5,500 ranges of 8 MB a second
    /// for a prefix.
    fn weir(&self, cold: bool) -> Path {
        let has_nvme = self.machine.nvme_bytes > 0;
        let mut path = if has_nvme {
            self.instance_store()
        } else {
            // The gp3 volume that comes without a surcharge.
            self.volume(&Volume::gp3(3000, 125))
        };
        let data_set_bytes = self.workload.data_set_bytes.max(1) as f64;
        let held = self.machine.nvme_bytes as f64 / data_set_bytes;
        // What several jobs want comes once.
        let work = Work::of(self.workload, self.machine);
        let once = (data_set_bytes / work.read_bytes.max(1.0)).min(1.0);
        let remote_share = once
            * match (cold, has_nvme) {
                (true, _) => 1.0,
                (false, true) => (1.0 - held).max(0.0),
                (false, false) => 0.0,
            };
        if remote_share > 0.0 {
            let (bound, network) = self.network();
            let requests = s3::GET_PER_S_PER_PREFIX * s3::RANGE_BYTES;
            let of_all = |burst: Burst| Burst {
                baseline: burst.baseline / remote_share,
                fast: burst.fast.min(requests) / remote_share,
                slow: burst.slow.min(requests) / remote_share,
                credit_bytes: burst.credit_bytes / remote_share,
            };
            path.read.stages.push((bound, of_all(network)));
            match work.small_files() && !work.random {
                true => path.read.file_s += self.free.weir_read_file_s * remote_share,
                false => path.read.latency_s += s3::FIRST_BYTE_S * remote_share,
            }
        }
        path
    }
}

fn steady(bound: Bound, bytes_per_s: f64) -> (Bound, Burst) {
    (bound, Burst::steady(bytes_per_s))
}
