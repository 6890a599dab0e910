//! Amazon FSx for Lustre: what a deployment type gives for its capacity.
//!
//! Numbers are those of the FSx for Lustre user guide, "Performance characteristics of SSD and HDD
//! storage classes", in MB/s (10^6 bytes) for each TiB (1,024 GiB) of capacity.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use thiserror::Error;

use crate::credits::Burst;

const MB: f64 = 1e6;

/// What one client can take over the network: FSx user guide, "Amazon FSx for Lustre performance",
/// 100 Gbps, without EFA.
pub const CLIENT_BYTES_PER_S: f64 = 100e9 / 8.0;

/// What one flow between a client and an object storage server can carry: 5 Gbps, the limit of a
/// single flow of an EC2 instance.
pub const FLOW_BYTES_PER_S: f64 = 5e9 / 8.0;

/// What a file system is, of those that AWS sells.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema,
)]
#[serde(try_from = "String", into = "String")]
pub enum Deployment {
    /// `SCRATCH_2`.
    Scratch2,
    /// `PERSISTENT_1` on SSD with 50 MB/s for each TiB.
    Persistent1_50,
    /// `PERSISTENT_1` on SSD with 100 MB/s for each TiB.
    Persistent1_100,
    /// `PERSISTENT_1` on SSD with 200 MB/s for each TiB.
    Persistent1_200,
    /// `PERSISTENT_2` with 125 MB/s for each TiB.
    Persistent2_125,
    /// `PERSISTENT_2` with 250 MB/s for each TiB.
    Persistent2_250,
    /// `PERSISTENT_2` with 500 MB/s for each TiB.
    Persistent2_500,
    /// `PERSISTENT_2` with 1,000 MB/s for each TiB.
    Persistent2_1000,
    /// `PERSISTENT_1` on HDD with 12 MB/s for each TiB.
    Hdd12,
    /// `PERSISTENT_1` on HDD with 40 MB/s for each TiB.
    Hdd40,
}

/// What a deployment type gives for each TiB, in MB/s: baseline and burst.
struct PerTib {
    network: (f64, f64),
    disk_read: (f64, f64),
    disk_write: (f64, f64),
    ram_gib: f64,
}

/// A name that no deployment type has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("`{0}` is no deployment type of FSx for Lustre; they are {known}", known = names())]
pub struct NoDeployment(String);

/// A capacity that AWS does not sell.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error(
    "{deployment} has no capacity of {gib} GiB: valid are {valid}; the nearest {nearest}",
    valid = self.deployment.valid_capacities(),
    nearest = nearest_text(&self.nearest_gib),
)]
pub struct Refused {
    /// For which deployment type.
    pub deployment: Deployment,
    /// What was asked for.
    pub gib: u64,
    /// The next smaller capacity, if any, and the next larger one.
    pub nearest_gib: Vec<u64>,
}

/// Whether AWS sells `deployment` with this capacity: FSx API reference, `CreateFileSystem`,
/// `StorageCapacity`.
///
/// # Errors
/// When it does not, with the nearest capacities that it does sell.
pub fn check_capacity(deployment: Deployment, gib: u64) -> Result<(), Refused> {
    let step = deployment.step_gib();
    let half_step = deployment.sold_as_half_step();
    if (gib > 0 && gib.is_multiple_of(step)) || half_step == Some(gib) {
        return Ok(());
    }
    let mut nearest: Vec<u64> = [Some(gib / step * step), Some((gib / step + 1) * step), half_step]
        .into_iter()
        .flatten()
        .filter(|near| *near > 0)
        .collect();
    nearest.sort_unstable();
    let above = nearest.iter().position(|near| *near > gib).unwrap_or(0);
    let nearest_gib = nearest[above.saturating_sub(1)..=above].to_vec();
    Err(Refused { deployment, gib, nearest_gib })
}

impl Deployment {
    /// All of them.
    pub const ALL: [Self; 10] = [
        Self::Scratch2,
        Self::Persistent1_50,
        Self::Persistent1_100,
        Self::Persistent1_200,
        Self::Persistent2_125,
        Self::Persistent2_250,
        Self::Persistent2_500,
        Self::Persistent2_1000,
        Self::Hdd12,
        Self::Hdd40,
    ];

    fn name(self) -> &'static str {
        match self {
            Self::Scratch2 => "SCRATCH_2",
            Self::Persistent1_50 => "PERSISTENT_1-50",
            Self::Persistent1_100 => "PERSISTENT_1-100",
            Self::Persistent1_200 => "PERSISTENT_1-200",
            Self::Persistent2_125 => "PERSISTENT_2-125",
            Self::Persistent2_250 => "PERSISTENT_2-250",
            Self::Persistent2_500 => "PERSISTENT_2-500",
            Self::Persistent2_1000 => "PERSISTENT_2-1000",
            Self::Hdd12 => "PERSISTENT_1-HDD-12",
            Self::Hdd40 => "PERSISTENT_1-HDD-40",
        }
    }

    /// The table of the user guide. Scratch file systems have no disk burst of their own there, but
    /// "burst read throughput using a network I/O credit mechanism": reads burst with the network.
    fn per_tib(self) -> PerTib {
        let ssd = |network: (f64, f64), disk: (f64, f64), ram_gib: f64| PerTib {
            network,
            disk_read: disk,
            disk_write: disk,
            ram_gib,
        };
        match self {
            Self::Scratch2 => PerTib {
                network: (200.0, 1300.0),
                disk_read: (200.0, 1300.0),
                disk_write: (100.0, 100.0),
                ram_gib: 6.7,
            },
            Self::Persistent1_50 => ssd((250.0, 1300.0), (50.0, 240.0), 2.2),
            Self::Persistent1_100 => ssd((500.0, 1300.0), (100.0, 240.0), 4.4),
            Self::Persistent1_200 => ssd((750.0, 1300.0), (200.0, 240.0), 8.8),
            Self::Persistent2_125 => ssd((320.0, 1300.0), (125.0, 500.0), 3.4),
            Self::Persistent2_250 => ssd((640.0, 1300.0), (250.0, 500.0), 6.8),
            Self::Persistent2_500 => ssd((1300.0, 1300.0), (500.0, 500.0), 13.7),
            Self::Persistent2_1000 => ssd((2600.0, 2600.0), (1000.0, 1000.0), 27.3),
            Self::Hdd12 => PerTib {
                network: (40.0, 375.0),
                disk_read: (12.0, 80.0),
                disk_write: (12.0, 50.0),
                ram_gib: 0.4,
            },
            Self::Hdd40 => PerTib {
                network: (150.0, 1300.0),
                disk_read: (40.0, 250.0),
                disk_write: (40.0, 150.0),
                ram_gib: 1.5,
            },
        }
    }

    fn step_gib(self) -> u64 {
        match self {
            Self::Hdd12 => 6000,
            Self::Hdd40 => 1800,
            _ => 2400,
        }
    }

    /// SSD also comes in half of its step.
    fn sold_as_half_step(self) -> Option<u64> {
        (!matches!(self, Self::Hdd12 | Self::Hdd40)).then_some(1200)
    }

    fn valid_capacities(self) -> String {
        let half_step = self.sold_as_half_step();
        let half_step = half_step.map(|gib| format!("{gib} GiB and ")).unwrap_or_default();
        format!("{half_step}multiples of {} GiB", self.step_gib())
    }
}

/// A file system of FSx for Lustre, and how fast it is.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FileSystem {
    /// Its deployment type.
    pub deployment: Deployment,
    /// Its capacity.
    pub capacity_gib: u64,
    /// Burst credits for each TiB when all are there. AWS does not publish this number: it is a
    /// free parameter, to be fitted.
    pub credit_bytes_per_tib: f64,
}

impl FileSystem {
    /// The network: what is read from the servers' memory.
    pub fn network(&self) -> Burst {
        self.rate(self.deployment.per_tib().network)
    }

    /// Reads that miss the servers' memory: "the lower of the network and the disk throughput".
    pub fn reads(&self) -> Burst {
        let PerTib { network, disk_read, .. } = self.deployment.per_tib();
        self.rate((network.0.min(disk_read.0), network.1.min(disk_read.1)))
    }

    /// Writes: the lower of the network and the disk throughput.
    pub fn writes(&self) -> Burst {
        let PerTib { network, disk_write, .. } = self.deployment.per_tib();
        self.rate((network.0.min(disk_write.0), network.1.min(disk_write.1)))
    }

    /// Memory of the file servers, which caches data.
    pub fn cache_bytes(&self) -> f64 {
        self.deployment.per_tib().ram_gib * (1_u64 << 30) as f64 * self.tib()
    }

    /// Metadata IOPS in automatic mode: FSx user guide, "File system metadata performance". `None`
    /// for deployment types that have no metadata configuration, all but `PERSISTENT_2`.
    pub fn metadata_iops(&self) -> Option<u64> {
        use Deployment::{Persistent2_125, Persistent2_250, Persistent2_500, Persistent2_1000};
        let has_one = matches!(
            self.deployment,
            Persistent2_125 | Persistent2_250 | Persistent2_500 | Persistent2_1000
        );
        let iops = match self.capacity_gib {
            ..2400 => 1500,
            2400..4800 => 3000,
            4800..12_000 => 6000,
            12_000..48_000 => 12_000,
            gib => 12_000 * (gib / 24_000),
        };
        has_one.then_some(iops)
    }

    fn tib(&self) -> f64 {
        self.capacity_gib as f64 / 1024.0
    }

    fn rate(&self, (baseline, burst): (f64, f64)) -> Burst {
        let (baseline, fast) = (baseline * MB * self.tib(), burst * MB * self.tib());
        Burst {
            baseline,
            fast,
            slow: baseline,
            credit_bytes: self.credit_bytes_per_tib * self.tib(),
        }
    }
}

/// An operation on names, by what it takes of the metadata IOPS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetadataOp {
    /// Create, open or close a file.
    File,
    /// Remove a file.
    Unlink,
    /// Make a directory, or rename.
    Rename,
    /// Remove a directory.
    RemoveDirectory,
}

impl MetadataOp {
    /// Operations a second for each metadata IOPS: FSx user guide, "File system metadata
    /// performance".
    pub fn per_iops(self) -> f64 {
        match self {
            Self::File => 2.0,
            Self::Unlink => 1.0,
            Self::Rename => 0.1,
            Self::RemoveDirectory => 0.2,
        }
    }
}

impl fmt::Display for Deployment {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Deployment {
    type Err = NoDeployment;

    fn from_str(text: &str) -> Result<Self, NoDeployment> {
        let found = Self::ALL.into_iter().find(|known| known.name() == text);
        found.ok_or_else(|| NoDeployment(text.to_owned()))
    }
}

impl TryFrom<String> for Deployment {
    type Error = NoDeployment;

    fn try_from(text: String) -> Result<Self, NoDeployment> {
        text.parse()
    }
}

impl From<Deployment> for String {
    fn from(deployment: Deployment) -> Self {
        deployment.name().to_owned()
    }
}

fn names() -> String {
    Deployment::ALL.map(Deployment::name).join(", ")
}

fn nearest_text(nearest_gib: &[u64]) -> String {
    let gib: Vec<String> = nearest_gib.iter().map(|gib| format!("{gib} GiB")).collect();
    let verb = if gib.len() == 1 { "is" } else { "are" };
    format!("{verb} {}", gib.join(" and "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file_system(deployment: Deployment, capacity_gib: u64) -> FileSystem {
        FileSystem { deployment, capacity_gib, credit_bytes_per_tib: 0.0 }
    }

    #[test]
    fn capacities_that_are_not_sold_are_refused_with_the_nearest() {
        for gib in [1200, 2400, 4800, 7200] {
            check_capacity(Deployment::Scratch2, gib).expect("sold");
        }
        let refused = check_capacity(Deployment::Scratch2, 3686).expect_err("3.6 TiB");
        assert_eq!(
            refused.to_string(),
            "SCRATCH_2 has no capacity of 3686 GiB: valid are 1200 GiB and multiples of 2400 GiB; \
             the nearest are 2400 GiB and 4800 GiB"
        );
        for (deployment, gib, nearest) in [
            (Deployment::Scratch2, 3600, vec![2400, 4800]),
            (Deployment::Persistent2_125, 0, vec![1200]),
            (Deployment::Persistent1_50, 1800, vec![1200, 2400]),
            (Deployment::Hdd12, 1200, vec![6000]),
            (Deployment::Hdd40, 2000, vec![1800, 3600]),
        ] {
            let refused = check_capacity(deployment, gib).expect_err("not sold");
            assert_eq!(refused.nearest_gib, nearest, "{deployment} {gib}");
        }
    }

    #[test]
    fn names_are_those_of_aws() {
        for deployment in Deployment::ALL {
            assert_eq!(deployment.to_string().parse(), Ok(deployment));
        }
        assert_eq!("PERSISTENT_2-125".parse(), Ok(Deployment::Persistent2_125));
        let error = "SCRATCH_9".parse::<Deployment>().expect_err("no such").to_string();
        assert!(error.contains("SCRATCH_9") && error.contains("SCRATCH_2,"), "{error}");
    }

    #[test]
    fn rates_follow_capacity() {
        let fs = file_system(Deployment::Persistent2_250, 4800);
        assert_eq!(fs.reads().baseline, 250e6 * 4800.0 / 1024.0);
        assert_eq!(fs.network().fast, 1300e6 * 4800.0 / 1024.0);
        assert_eq!(fs.reads().fast, 500e6 * 4800.0 / 1024.0);
        let scratch = file_system(Deployment::Scratch2, 1200);
        assert_eq!(scratch.reads().slow, 234.375e6);
        assert_eq!(scratch.writes().fast, 117.1875e6);
        assert_eq!(scratch.cache_bytes().round(), 6.7 * 1200.0 / 1024.0 * 1_073_741_824.0);
    }

    /// FSx user guide, "File system metadata performance", the table of automatic mode.
    #[test]
    fn metadata_iops_follow_capacity() {
        for (gib, iops) in [
            (1200, 1500),
            (2400, 3000),
            (4800, 6000),
            (9600, 6000),
            (12_000, 12_000),
            (45_600, 12_000),
            (48_000, 24_000),
            (96_000, 48_000),
        ] {
            let iops = Some(iops);
            assert_eq!(file_system(Deployment::Persistent2_125, gib).metadata_iops(), iops);
        }
        assert_eq!(file_system(Deployment::Scratch2, 48_000).metadata_iops(), None);
        assert_eq!(MetadataOp::File.per_iops() * 1500.0, 3000.0);
    }
}
