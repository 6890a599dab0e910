//! The machines that the advisor chooses from.

use crate::Machine;

/// Instance type, vCPUs, memory in GiB, network in Gbit/s (lasting, peak), NVMe in GB, EBS in MB/s.
type Row = (&'static str, u64, f64, (f64, f64), u64, f64);

/// What EC2's `DescribeInstanceTypes` says of them, as the library moto 5.2.5 carries it.
const KNOWN: [Row; 10] = [
    ("c5.2xlarge", 8, 16.0, (2.5, 10.0), 0, 287.5),
    ("c5n.9xlarge", 36, 96.0, (50.0, 50.0), 0, 1187.5),
    ("i3.8xlarge", 32, 244.0, (10.0, 10.0), 7600, 875.0),
    ("i4i.8xlarge", 32, 256.0, (18.75, 18.75), 7500, 1250.0),
    ("i4i.16xlarge", 64, 512.0, (37.5, 37.5), 15_000, 2500.0),
    ("i4i.32xlarge", 128, 1024.0, (75.0, 75.0), 30_000, 5000.0),
    ("r5d.12xlarge", 48, 384.0, (12.0, 12.0), 1800, 1187.5),
    ("r6i.24xlarge", 96, 768.0, (37.5, 37.5), 0, 3750.0),
    ("r6id.12xlarge", 48, 384.0, (18.75, 18.75), 2850, 1875.0),
    ("r7i.24xlarge", 96, 768.0, (37.5, 37.5), 0, 3750.0),
];

/// All machines that are known, by name.
pub fn machines() -> Vec<Machine> {
    let machine = |&(name, vcpu, memory_gib, network_gbps, nvme_gb, ebs_mb_per_s): &Row| Machine {
        instance: name.to_owned(),
        vcpu,
        memory_gib,
        network_gbps,
        nvme_bytes: nvme_gb * 1_000_000_000,
        ebs_mb_per_s,
    };
    KNOWN.iter().map(machine).collect()
}

/// The machine of this instance type, if it is known.
pub fn machine(instance: &str) -> Option<Machine> {
    machines().into_iter().find(|machine| machine.instance == instance)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn machines_are_found_by_name() {
        let i3 = machine("i3.8xlarge").expect("known");
        assert_eq!((i3.vcpu, i3.nvme_bytes), (32, 7_600_000_000_000), "4 disks of 1.9 TB");
        assert_eq!(machine("x9.huge"), None);
        let names: BTreeSet<String> = machines().into_iter().map(|of| of.instance).collect();
        assert_eq!(names.len(), machines().len(), "none is there twice");
    }
}
