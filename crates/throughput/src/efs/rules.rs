//! What EFS promises and counts, by the day it held.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::date::Date;
use crate::{MIB, TIB};

/// How the throughput of a file system is set.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "mode", rename_all = "snake_case", deny_unknown_fields)]
pub enum Mode {
    /// By its stored size, with credits for bursts.
    Bursting,
    /// As ordered; by the stored size where that gives more.
    Provisioned {
        /// Metered MiB/s.
        mib_per_s: f64,
    },
    /// Without a limit; each byte is paid for.
    Elastic,
}

/// An I/O by how it is metered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// Reads file data.
    Read,
    /// Writes file data.
    Write,
    /// Names, attributes, locks.
    Metadata,
}

/// The rules of throughput on some day. Plain data, so that a mount may have rules of its own.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Rules {
    /// What each stored TiB may do for ever, in metered MiB/s.
    pub baseline_mib_per_s_per_tib: f64,
    /// What the smallest file system may do for ever, in metered MiB/s.
    pub floor_mib_per_s: f64,
    /// What each stored TiB may do while credits last, in metered MiB/s.
    pub burst_mib_per_s_per_tib: f64,
    /// What the smallest file system may do while credits last, in metered MiB/s.
    pub burst_floor_mib_per_s: f64,
    /// The share of the bytes read that is metered.
    pub read_share: f64,
    /// What an I/O is metered at, at least, before `read_share`.
    pub io_least_bytes: u64,
    /// Credits of a new file system.
    pub initial_credit_bytes: f64,
    /// Credits that one can have for each stored TiB, and with less than a TiB.
    pub credit_cap_bytes_per_tib: f64,
    /// How long a provisioned throughput can be neither lowered nor left after it was set.
    pub lock_ms: Option<u64>,
    /// Provisioned throughput is all there is, also where the stored size would give more.
    #[serde(default)]
    pub provisioned_is_all: bool,
}

/// Since then, file systems of less than 20 GiB have 1 MiB/s: AWS, What's New, 2020-06-30.
const FLOOR_SINCE: Date = Date { year: 2020, month: 6, day: 30 };

/// Since then, reads are metered at a third: AWS, What's New, 2021-01-28.
const READ_THIRD_SINCE: Date = Date { year: 2021, month: 1, day: 28 };

impl Rules {
    /// The lock of 24 hours that EFS puts on a provisioned throughput once it is set: EFS user
    /// guide, "Restrictions on switching throughput and changing provisioned amount".
    pub const EFS_LOCK_MS: u64 = 24 * 3600 * 1000;

    /// The rules of EFS on `date`, from its user guide ("Throughput modes"; before the changes of
    /// 2020 and 2021: the edition of 2018, "Throughput Scaling in Amazon EFS"), without the lock.
    pub fn on(date: Date) -> Self {
        // The edition of 2018: "the minimum file system size used when calculating the baseline
        // rate is 1 GiB, so all file systems have a baseline rate of at least 50 KiB/s".
        let floor_mib_per_s = if date < FLOOR_SINCE { 50.0 / 1024.0 } else { 1.0 };
        Self {
            baseline_mib_per_s_per_tib: 50.0,
            floor_mib_per_s,
            burst_mib_per_s_per_tib: 100.0,
            burst_floor_mib_per_s: 100.0,
            read_share: if date < READ_THIRD_SINCE { 1.0 } else { 1.0 / 3.0 },
            io_least_bytes: 4096,
            initial_credit_bytes: 2.1 * TIB,
            credit_cap_bytes_per_tib: 2.1 * TIB,
            lock_ms: None,
            provisioned_is_all: false,
        }
    }

    /// The newest rules.
    pub fn today() -> Self {
        Self::on(READ_THIRD_SINCE)
    }

    /// Where they are not the newest: until when EFS had them.
    pub fn until(&self) -> Option<Date> {
        match (self.floor_mib_per_s < 1.0, self.read_share >= 1.0) {
            (true, _) => Some(FLOOR_SINCE),
            (false, true) => Some(READ_THIRD_SINCE),
            (false, false) => None,
        }
    }

    /// What that many bytes stored may do for ever, in metered bytes a second.
    pub fn baseline_bytes_per_s(&self, stored_bytes: u64) -> f64 {
        let tib = stored_bytes as f64 / TIB;
        (self.baseline_mib_per_s_per_tib * tib).max(self.floor_mib_per_s) * MIB
    }

    /// What that many bytes stored may do while credits last, in metered bytes a second.
    pub fn burst_bytes_per_s(&self, stored_bytes: u64) -> f64 {
        let tib = stored_bytes as f64 / TIB;
        let burst = (self.burst_mib_per_s_per_tib * tib).max(self.burst_floor_mib_per_s) * MIB;
        burst.max(self.baseline_bytes_per_s(stored_bytes))
    }

    /// The most credits that a file system of this size can have.
    pub fn credit_cap_bytes(&self, stored_bytes: u64) -> f64 {
        self.credit_cap_bytes_per_tib * (stored_bytes as f64 / TIB).max(1.0)
    }

    /// What an I/O of `bytes` is metered at: the metric `MeteredIOBytes`, "with read operations
    /// metered at one-third the rate of other operations".
    pub fn metered_bytes(&self, io: Io, bytes: u64) -> u64 {
        let counted = bytes.max(self.io_least_bytes);
        match io {
            Io::Read => (counted as f64 * self.read_share).round() as u64,
            Io::Write | Io::Metadata => counted,
        }
    }
}
