//! What the advisor tries: storages in the sizes that make sense, and machines that fit.

use weir_throughput::efs::Mode;
use weir_throughput::fsx::Deployment;

use crate::shadow::{gp3, least_capacity_gib};
use crate::{Machine, Storage, Workload};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Metered MiB/s that EFS is tried at in provisioned mode.
const PROVISIONED_MIB_PER_S: [f64; 6] = [32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
/// Ways to split that are tried.
const WAYS: [u64; 4] = [1, 2, 4, 8];
/// How many times its smallest size an FSx file system is tried at, for its throughput.
const FSX_SIZES: [u64; 4] = [1, 2, 4, 8];
const GP3_MIB_PER_S: [u64; 4] = [125, 500, 1000, 2000];
const IO2_IOPS: [u64; 3] = [4000, 16_000, 32_000];
/// IOPS that io2 has for each GiB at most: EBS user guide, "Provisioned IOPS SSD volumes".
const IO2_IOPS_PER_GIB: u64 = 1000;

/// The storages to try for `workload`, all of them valid.
pub(super) fn storages(workload: &Workload) -> Vec<Storage> {
    let mut storages =
        vec![Storage::Efs { mode: Mode::Elastic }, Storage::Efs { mode: Mode::Bursting }];
    for mib_per_s in PROVISIONED_MIB_PER_S {
        storages.push(Storage::Efs { mode: Mode::Provisioned { mib_per_s } });
    }
    for deployment in Deployment::ALL {
        let least = least_capacity_gib(deployment, workload.data_set_bytes);
        for size in FSX_SIZES {
            let capacity_gib = least_capacity_gib(deployment, least * size * GIB);
            // Scratch is not replicated: the data set stays in a bucket behind it.
            let lazy = deployment == Deployment::Scratch2;
            storages.push(Storage::FsxLustre { deployment, capacity_gib, lazy });
        }
    }
    let size_gib = workload.data_set_bytes.div_ceil(GIB).max(1);
    for mib_per_s in GP3_MIB_PER_S {
        let iops = mib_per_s * MIB / workload.io_bytes.clamp(4096, 256 << 10);
        storages.push(gp3(size_gib, iops, mib_per_s));
    }
    for iops in IO2_IOPS {
        let size_gib = size_gib.max(iops.div_ceil(IO2_IOPS_PER_GIB));
        storages.push(Storage::Io2 { size_gib, iops });
    }
    storages.extend([Storage::InstanceStore, Storage::S3Files, Storage::Weir { warm: false }]);
    // What outgrows the largest volume is not sold.
    storages.retain(|storage| storage.check().is_ok());
    storages
}

/// The machines with memory for half of the data set, so that what is read again is there; where
/// none has it, those with the most memory.
pub(super) fn machines(all: &[Machine], data_set_bytes: u64) -> Vec<Machine> {
    let most = all.iter().map(|machine| machine.memory_gib).fold(0.0, f64::max);
    let wanted = half_gib(data_set_bytes).min(most);
    all.iter().filter(|machine| machine.memory_gib >= wanted).cloned().collect()
}

/// Half of the data set in GiB.
pub(super) fn half_gib(data_set_bytes: u64) -> f64 {
    data_set_bytes as f64 / 2.0 / GIB as f64
}

/// Whether the storage can be had on this machine.
pub(super) fn fits(storage: &Storage, machine: &Machine, data_set_bytes: u64) -> bool {
    match storage {
        Storage::InstanceStore => machine.nvme_bytes >= data_set_bytes.max(1),
        Storage::Weir { .. } => machine.nvme_bytes == 0 || machine.nvme_bytes >= data_set_bytes,
        _ => true,
    }
}

/// Whether what is on the local disk is gone when the machine stops.
pub(super) fn forgets(storage: &Storage, machine: &Machine) -> bool {
    match storage {
        Storage::InstanceStore => true,
        Storage::Weir { .. } => machine.nvme_bytes > 0,
        _ => false,
    }
}

/// Numbers of machines to try: some jobs on each, one on each, or the queries of each job split.
pub(super) fn counts(jobs: u64, most: u64) -> Vec<u64> {
    let split = WAYS.map(|ways| jobs.saturating_mul(ways));
    let packed = WAYS.into_iter().filter(|count| *count <= jobs);
    let mut counts: Vec<u64> = packed.chain(split).filter(|count| *count <= most.max(1)).collect();
    counts.sort_unstable();
    counts.dedup();
    counts
}

/// What each of so many machines does of the workload: some of its jobs, or a share of one job's
/// queries over the whole data set.
pub(super) fn share(workload: &Workload, machines: u64) -> Workload {
    let jobs = workload.concurrency.max(1);
    let ways = (machines / jobs).max(1);
    Workload {
        write_bytes_per_run: workload.write_bytes_per_run / ways,
        concurrency: jobs.div_ceil(machines),
        cpu_seconds: workload.cpu_seconds / ways as f64,
        ..workload.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machines_take_jobs_or_shares_of_them() {
        assert_eq!(counts(1, 8), [1, 2, 4, 8]);
        assert_eq!(counts(3, 12), [1, 2, 3, 6, 12]);
        assert_eq!(counts(100, 8), [1, 2, 4, 8]);
        let workload = Workload {
            name: String::new(),
            data_set_bytes: 1000,
            cold_bytes: 0,
            archive_bytes: 0,
            files: 1,
            read_bytes_per_run: 1000,
            write_bytes_per_run: 80,
            io_bytes: 1,
            random: false,
            files_per_run: 1,
            runs_per_day: 1.0,
            concurrency: 3,
            threads: 4,
            cpu_seconds: 60.0,
            region: "here".to_owned(),
        };
        let of = |machines| {
            let share = share(&workload, machines);
            (share.concurrency, share.cpu_seconds, share.write_bytes_per_run)
        };
        assert_eq!((of(1), of(2), of(3)), ((3, 60.0, 80), (2, 60.0, 80), (1, 60.0, 80)));
        assert_eq!((of(6), of(12)), ((1, 30.0, 40), (1, 15.0, 20)));
        assert_eq!(share(&workload, 12).read_bytes_per_run, 1000, "each reads all of it");
    }
}
