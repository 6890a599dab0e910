//! The NVMe disks of an instance, which lose everything when it stops.
//!
//! AWS publishes random I/Os a second for each instance type (EC2 user guide, "Specifications for
//! storage optimized instances", instance store), and no throughput. The rate here is that of those
//! 4 KiB I/Os, which larger I/Os reach at least. The numbers grow with the bytes of the disks.

/// What the disks of an instance do together.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Disks {
    /// Reads of 4 KiB a second.
    pub read_iops: f64,
    /// Writes of 4 KiB a second.
    pub write_iops: f64,
    /// What one small I/O takes.
    pub latency_s: f64,
}

/// i3.8xlarge: 1,650,000 reads and 720,000 writes a second on 4 disks of 1,900 GB.
const I3_PER_BYTE: (f64, f64) = (1_650_000.0 / 7.6e12, 720_000.0 / 7.6e12);

/// i4i.8xlarge: 800,000 reads and 440,000 writes a second on 2 disks of 3,750 GB.
const I4I_PER_BYTE: (f64, f64) = (800_000.0 / 7.5e12, 440_000.0 / 7.5e12);

impl Disks {
    /// Those of an instance type that has `nvme_bytes` of them. Of types that are not known here
    /// the least of the known ones is expected.
    pub fn of(instance: &str, nvme_bytes: u64) -> Self {
        let (reads, writes) = if instance.starts_with("i3.") { I3_PER_BYTE } else { I4I_PER_BYTE };
        let bytes = nvme_bytes as f64;
        Self { read_iops: reads * bytes, write_iops: writes * bytes, latency_s: 0.0001 }
    }

    /// Bytes a second that are read at least.
    pub fn read_bytes_per_s(&self) -> f64 {
        self.read_iops * 4096.0
    }

    /// Bytes a second that are written at least.
    pub fn write_bytes_per_s(&self) -> f64 {
        self.write_iops * 4096.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn disks_grow_with_the_instance() {
        // EC2 user guide: i4i.32xlarge has 3,200,000 reads a second on 8 disks of 3,750 GB.
        let disks = Disks::of("i4i.32xlarge", 30_000_000_000_000);
        assert_eq!(disks.read_iops.round(), 3_200_000.0);
        assert_eq!(Disks::of("i3.16xlarge", 15_200_000_000_000).read_iops.round(), 3_300_000.0);
    }
}
