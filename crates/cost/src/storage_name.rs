//! Names of storages: how people read them, how they ask for them, and what AWS says to that.

use std::fmt;
use std::str::FromStr;

use weir_throughput::ebs;
use weir_throughput::efs::Mode;
use weir_throughput::fsx::{Deployment, check_capacity};

use crate::Storage;

const FORMS: &str = "efs-elastic, efs-bursting, efs-provisioned:MIBPS, fsx:DEPLOYMENT:GIB, \
     gp3:GIB:IOPS:MIBPS, io2:GIB:IOPS, instance-store, s3-files or weir";

/// Metered MiB/s of a file system in provisioned mode at most, in the smallest region: EFS user
/// guide, "Amazon EFS quotas": reads of 3 GiB/s, metered at a third; writes of 1 GiB/s.
const PROVISIONED_MIB_PER_S_MAX: f64 = 1024.0;

impl fmt::Display for Storage {
    /// For people: `FSx SCRATCH_2 1200 GiB`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.family())?;
        match self {
            Storage::Efs { mode: Mode::Provisioned { mib_per_s } } => {
                write!(f, " {mib_per_s} MiB/s")
            }
            Storage::FsxLustre { capacity_gib, lazy, .. } => {
                let linked = if *lazy { ", linked bucket" } else { "" };
                write!(f, " {capacity_gib} GiB{linked}")
            }
            Storage::Gp3 { size_gib, iops, mib_per_s } => {
                write!(f, " {size_gib} GiB, {iops} IOPS, {mib_per_s} MiB/s")
            }
            Storage::Io2 { size_gib, iops } => write!(f, " {size_gib} GiB, {iops} IOPS"),
            Storage::Efs { .. }
            | Storage::InstanceStore
            | Storage::S3Files
            | Storage::Weir { .. } => Ok(()),
        }
    }
}

impl Storage {
    /// Whether so many bytes fit, where the size is a part of the choice.
    pub(crate) fn holds(&self, bytes: u64) -> Result<(), String> {
        let gib = match self {
            Storage::FsxLustre { capacity_gib, .. } => *capacity_gib,
            Storage::Gp3 { size_gib, .. } | Storage::Io2 { size_gib, .. } => *size_gib,
            Storage::Efs { .. }
            | Storage::InstanceStore
            | Storage::S3Files
            | Storage::Weir { .. } => return Ok(()),
        };
        let needed_gib = bytes.div_ceil(1 << 30);
        match gib >= needed_gib {
            true => Ok(()),
            false => Err(format!("{self} does not hold the data set of {needed_gib} GiB")),
        }
    }

    /// What it is without its size: `FSx SCRATCH_2`.
    pub fn family(&self) -> String {
        match self {
            Storage::Efs { mode: Mode::Bursting } => "EFS bursting".to_owned(),
            Storage::Efs { mode: Mode::Provisioned { .. } } => "EFS provisioned".to_owned(),
            Storage::Efs { mode: Mode::Elastic } => "EFS elastic".to_owned(),
            Storage::FsxLustre { deployment, .. } => format!("FSx {deployment}"),
            Storage::Gp3 { .. } => "EBS gp3".to_owned(),
            Storage::Io2 { .. } => "EBS io2".to_owned(),
            Storage::InstanceStore => "instance store".to_owned(),
            Storage::S3Files => "S3 Files".to_owned(),
            Storage::Weir { warm: true } => "Weir, warm tier".to_owned(),
            Storage::Weir { warm: false } => "Weir".to_owned(),
        }
    }
}

impl Storage {
    /// Whether AWS sells this, and if not, why.
    ///
    /// # Errors
    /// The reason of the refusal, with the nearest that is sold.
    pub fn check(&self) -> Result<(), String> {
        match self {
            Storage::FsxLustre { deployment, capacity_gib, .. } => {
                check_capacity(*deployment, *capacity_gib).map_err(|refused| refused.to_string())
            }
            Storage::Gp3 { size_gib, iops, mib_per_s } => {
                ebs::gp3(*size_gib, *iops, *mib_per_s).map(drop).map_err(|no| no.to_string())
            }
            Storage::Io2 { size_gib, iops } => {
                ebs::io2(*size_gib, *iops).map(drop).map_err(|no| no.to_string())
            }
            Storage::Efs { mode: Mode::Provisioned { mib_per_s } }
                if !(1.0..=PROVISIONED_MIB_PER_S_MAX).contains(mib_per_s) =>
            {
                Err(format!(
                    "EFS provisions 1 to {PROVISIONED_MIB_PER_S_MAX} MiB/s without asking, not \
                     {mib_per_s}"
                ))
            }
            _ => Ok(()),
        }
    }
}

impl FromStr for Storage {
    type Err = String;

    /// `efs-elastic`, `efs-provisioned:100`, `fsx:SCRATCH_2:1200`, `gp3:500:3000:125`, and so on.
    fn from_str(text: &str) -> Result<Self, String> {
        let bad = || format!("`{text}` is no storage: write {FORMS}");
        let parts: Vec<&str> = text.split(':').collect();
        let number = |text: &str| text.parse::<u64>().map_err(|_| bad());
        Ok(match parts[..] {
            ["efs-elastic"] => Storage::Efs { mode: Mode::Elastic },
            ["efs-bursting"] => Storage::Efs { mode: Mode::Bursting },
            ["efs-provisioned", mib_per_s] => {
                Storage::Efs { mode: Mode::Provisioned { mib_per_s: number(mib_per_s)? as f64 } }
            }
            ["fsx", deployment, capacity_gib] => {
                let deployment: Deployment =
                    deployment.parse().map_err(|error| format!("`{text}`: {error}"))?;
                let lazy = deployment == Deployment::Scratch2;
                Storage::FsxLustre { deployment, capacity_gib: number(capacity_gib)?, lazy }
            }
            ["gp3", size_gib, iops, mib_per_s] => Storage::Gp3 {
                size_gib: number(size_gib)?,
                iops: number(iops)?,
                mib_per_s: number(mib_per_s)?,
            },
            ["io2", size_gib, iops] => {
                Storage::Io2 { size_gib: number(size_gib)?, iops: number(iops)? }
            }
            ["instance-store"] => Storage::InstanceStore,
            ["s3-files"] => Storage::S3Files,
            ["weir"] => Storage::Weir { warm: false },
            _ => return Err(bad()),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_aws_does_not_sell_is_refused() {
        for (text, sold) in [
            ("fsx:SCRATCH_2:2400", true),
            // 3.6 TiB, the size of a published recommendation.
            ("fsx:SCRATCH_2:3600", false),
            ("fsx:PERSISTENT_2-125:3600", false),
            ("efs-provisioned:1024", true),
            ("efs-provisioned:0", false),
            ("efs-provisioned:4096", false),
            ("gp3:100:60000:125", false),
            ("io2:4:4000", true),
            ("io2:4:5000", false),
            ("s3-files", true),
        ] {
            let storage: Storage = text.parse().expect(text);
            assert_eq!(storage.check().is_ok(), sold, "{text}");
        }
    }

    #[test]
    fn storages_are_asked_for_by_name() {
        for (text, name) in [
            ("efs-elastic", "EFS elastic"),
            ("efs-provisioned:100", "EFS provisioned 100 MiB/s"),
            ("fsx:SCRATCH_2:1200", "FSx SCRATCH_2 1200 GiB, linked bucket"),
            ("gp3:500:3000:125", "EBS gp3 500 GiB, 3000 IOPS, 125 MiB/s"),
            ("io2:100:5000", "EBS io2 100 GiB, 5000 IOPS"),
            ("instance-store", "instance store"),
        ] {
            let storage: Storage = text.parse().expect(text);
            assert_eq!(storage.to_string(), name);
            assert!(name.starts_with(&storage.family()));
        }
        for bad in ["", "nfs", "fsx:SCRATCH_9:1200", "gp3:500", "efs-provisioned:fast"] {
            let error = bad.parse::<Storage>().expect_err(bad);
            assert!(error.contains(&format!("`{bad}`")), "{error}");
        }
    }
}
