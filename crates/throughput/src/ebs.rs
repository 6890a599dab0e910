//! Amazon EBS: volumes of the types gp3 and io2 Block Express.

use thiserror::Error;

use crate::MIB;

/// What a volume does.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Volume {
    /// I/O operations a second.
    pub iops: f64,
    /// Bytes a second.
    pub bytes_per_s: f64,
    /// What one small I/O takes at least.
    pub latency_s: f64,
}

/// A volume that AWS does not sell.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{kind} has no volume with {what} {asked}: valid are {least} to {most}{reason}")]
pub struct Refused {
    /// `gp3` or `io2`.
    pub kind: &'static str,
    /// The number that is out of range.
    pub what: &'static str,
    /// What was asked for.
    pub asked: u64,
    /// The least that is valid.
    pub least: u64,
    /// The most that is valid, for the other numbers that were asked for.
    pub most: u64,
    /// What the limit comes from; empty when it is that of the type.
    pub reason: &'static str,
}

impl Volume {
    /// A gp3 volume that is sold. "Single-digit millisecond latency": 1 ms is the least of it.
    pub fn gp3(iops: u64, mib_per_s: u64) -> Self {
        Self { iops: iops as f64, bytes_per_s: mib_per_s as f64 * MIB, latency_s: 0.001 }
    }

    /// An io2 Block Express volume that is sold: 0.256 MiB/s for each IOPS, up to 4,000 MiB/s, and
    /// under 500 µs for an I/O of 16 KiB.
    pub fn io2(iops: u64) -> Self {
        let mib_per_s = (iops as f64 * 0.256).min(4000.0);
        Self { iops: iops as f64, bytes_per_s: mib_per_s * MIB, latency_s: 0.0005 }
    }
}

const GIB_MAX: u64 = 64 * 1024;

/// A gp3 volume: EBS user guide, "General Purpose SSD volumes", with the limits since 2025-09-26:
/// 3,000 to 80,000 IOPS, 500 for each GiB; 125 to 2,000 MiB/s, 0.25 for each IOPS; up to 64 TiB.
///
/// # Errors
/// When there is no such volume.
pub fn gp3(size_gib: u64, iops: u64, mib_per_s: u64) -> Result<Volume, Refused> {
    let check = |what, asked, least, most, reason| {
        let refused = Refused { kind: "gp3", what, asked, least, most, reason };
        if (least..=most).contains(&asked) { Ok(()) } else { Err(refused) }
    };
    check("GiB", size_gib, 1, GIB_MAX, "")?;
    let by_size = (size_gib * 500).max(3000);
    check(
        "IOPS",
        iops,
        3000,
        by_size.min(80_000),
        if by_size < 80_000 { ", 500 for each GiB" } else { "" },
    )?;
    let by_iops = iops / 4;
    check(
        "MiB/s",
        mib_per_s,
        125,
        by_iops.min(2000),
        if by_iops < 2000 { ", 1 for every 4 IOPS" } else { "" },
    )?;
    Ok(Volume::gp3(iops, mib_per_s))
}

/// An io2 Block Express volume: EBS user guide, "Provisioned IOPS SSD volumes": 100 to 256,000
/// IOPS, 1,000 for each GiB; 4 GiB to 64 TiB.
///
/// # Errors
/// When there is no such volume.
pub fn io2(size_gib: u64, iops: u64) -> Result<Volume, Refused> {
    let check = |what, asked, least, most, reason| {
        let refused = Refused { kind: "io2", what, asked, least, most, reason };
        if (least..=most).contains(&asked) { Ok(()) } else { Err(refused) }
    };
    check("GiB", size_gib, 4, GIB_MAX, "")?;
    let by_size = size_gib * 1000;
    check(
        "IOPS",
        iops,
        100,
        by_size.min(256_000),
        if by_size < 256_000 { ", 1,000 for each GiB" } else { "" },
    )?;
    Ok(Volume::io2(iops))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn volumes_that_are_not_sold_are_refused() {
        gp3(500, 3000, 125).expect("the default");
        gp3(160, 80_000, 2000).expect("the largest");
        gp3(1, 3000, 750).expect("3,000 IOPS come with any size");
        for (refused, text) in [
            (gp3(100, 60_000, 125), "60000: valid are 3000 to 50000, 500 for each GiB"),
            (gp3(1000, 3000, 751), "751: valid are 125 to 750, 1 for every 4 IOPS"),
            (gp3(1000, 90_000, 125), "90000: valid are 3000 to 80000"),
            (gp3(1000, 16_000, 2001), "2001: valid are 125 to 2000"),
            (gp3(0, 3000, 125), "GiB 0: valid are 1 to 65536"),
            (io2(4, 5000), "5000: valid are 100 to 4000, 1,000 for each GiB"),
            (io2(1000, 300_000), "300000: valid are 100 to 256000"),
        ] {
            let error = refused.expect_err(text).to_string();
            assert!(error.ends_with(text), "{error}");
        }
    }

    #[test]
    fn io2_has_its_throughput_from_its_iops() {
        assert_eq!(io2(100, 1000).expect("sold").bytes_per_s, 256.0 * MIB);
        assert_eq!(io2(1000, 100_000).expect("sold").bytes_per_s, 4000.0 * MIB);
    }
}
