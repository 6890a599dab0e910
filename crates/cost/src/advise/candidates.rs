//! What the advisor tries: storages in the sizes that make sense, and machines that fit.

use weir_throughput::efs::Mode;
use weir_throughput::fsx::Deployment;

use crate::shadow::{gp3, least_capacity_gib};
use crate::{Machine, Storage, Workload};

const GIB: u64 = 1 << 30;
const MIB: u64 = 1 << 20;

/// Metered MiB/s that EFS is tried at in provisioned mode.
const PROVISIONED_MIB_PER_S: [f64; 6] = [32.0, 64.0, 128.0, 256.0, 512.0, 1024.0];
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

/// The workload with the queries of each job split over so many machines: each reads the whole
/// data set and does its share of the rest.
pub(super) fn split(workload: &Workload, ways: u64) -> Workload {
    Workload {
        write_bytes_per_run: workload.write_bytes_per_run / ways,
        files_per_run: workload.files_per_run.div_ceil(ways),
        concurrency: workload.concurrency * ways,
        cpu_seconds: workload.cpu_seconds / ways as f64,
        ..workload.clone()
    }
}
