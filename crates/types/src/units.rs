//! Quantities with their units.

use std::fmt;
use std::iter::Sum;
use std::ops::Add;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A number of bytes, read and written for people: `16MiB`, `100GiB`, `1.5TB`, `4096`.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct Bytes(pub u64);

const UNITS: [(&str, u64); 11] = [
    ("TiB", 1 << 40),
    ("GiB", 1 << 30),
    ("MiB", 1 << 20),
    ("KiB", 1 << 10),
    ("TB", 1_000_000_000_000),
    ("GB", 1_000_000_000),
    ("MB", 1_000_000),
    ("kB", 1_000),
    ("PiB", 1 << 50),
    ("PB", 1_000_000_000_000_000),
    ("B", 1),
];

impl Bytes {
    /// `n` MiB.
    pub const fn mib(n: u64) -> Self {
        Self(n << 20)
    }

    /// `n` GiB.
    pub const fn gib(n: u64) -> Self {
        Self(n << 30)
    }
}

impl fmt::Display for Bytes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (unit, size) = [UNITS[8], UNITS[0], UNITS[1], UNITS[2], UNITS[3]]
            .into_iter()
            .find(|(_, size)| self.0 >= *size)
            .unwrap_or(("B", 1));
        if self.0.is_multiple_of(size) {
            write!(f, "{} {unit}", self.0 / size)
        } else {
            write!(f, "{:.1} {unit}", self.0 as f64 / size as f64)
        }
    }
}

impl FromStr for Bytes {
    type Err = String;

    fn from_str(s: &str) -> Result<Self, String> {
        let bad = || format!("`{s}` is not a size: write a number and a unit, such as 100GiB");
        let s = s.trim();
        let digits = s.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(s.len());
        let (number, unit) = (&s[..digits], s[digits..].trim());
        let factor = match unit {
            "" => 1,
            _ => short_or_long(unit).ok_or_else(bad)?,
        };
        if let Ok(whole) = number.parse::<u64>() {
            return whole.checked_mul(factor).map(Self).ok_or_else(bad);
        }
        let value = number.parse::<f64>().map_err(|_| bad())? * factor as f64;
        (value < u64::MAX as f64).then_some(Self(value as u64)).ok_or_else(bad)
    }
}

/// The factor of a unit: `GiB`, or `G` for the same, in any case.
fn short_or_long(unit: &str) -> Option<u64> {
    let found = UNITS.iter().find(|(name, _)| name.eq_ignore_ascii_case(unit));
    let short =
        || UNITS.iter().find(|(name, _)| name[..1].eq_ignore_ascii_case(unit) && name.len() == 3);
    found.or_else(short).map(|(_, size)| *size)
}

/// An amount of money in billionths of a US dollar: one GET costs 400 of them. Sums stop at the
/// ends of the range, nine billion dollars.
#[derive(
    Clone,
    Copy,
    Debug,
    Default,
    PartialEq,
    Eq,
    PartialOrd,
    Ord,
    Hash,
    Serialize,
    Deserialize,
    JsonSchema,
)]
#[serde(transparent)]
pub struct NanoUsd(pub i64);

impl Add for NanoUsd {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self(self.0.saturating_add(other.0))
    }
}

impl Sum for NanoUsd {
    fn sum<I: Iterator<Item = Self>>(amounts: I) -> Self {
        amounts.fold(Self::default(), Add::add)
    }
}

impl fmt::Display for NanoUsd {
    /// Dollars: whole cents from one dollar up, three significant digits below.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DOLLAR: u64 = 1_000_000_000;
        let nanos = self.0.unsigned_abs();
        let step = match nanos {
            DOLLAR.. => DOLLAR / 100,
            _ => 10_u64.pow(nanos.max(1).ilog10().saturating_sub(2)),
        };
        let rounded = (nanos + step / 2) / step * step;
        let sign = if self.0 < 0 { "-" } else { "" };
        let digits = format!("{:09}", rounded % DOLLAR);
        let (cents, rest) = digits.split_at(2);
        write!(f, "{sign}${}.{cents}{}", rounded / DOLLAR, rest.trim_end_matches('0'))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn money_reads_as_dollars() {
        for (nanos, text) in [
            (0, "$0.00"),
            (400, "$0.0000004"),
            (123_456, "$0.000123"),
            (23_000_000, "$0.023"),
            (500_000_000, "$0.50"),
            (999_999_999, "$1.00"),
            (12_345_000_000, "$12.35"),
            (-12_340_000_000, "-$12.34"),
            (i64::MIN, "-$9223372036.85"),
        ] {
            assert_eq!(NanoUsd(nanos).to_string(), text);
        }
        let most: NanoUsd = [NanoUsd(i64::MAX), NanoUsd(1)].into_iter().sum();
        assert_eq!(most, NanoUsd(i64::MAX));
    }

    #[test]
    fn reads_what_people_write() {
        for (text, bytes) in [
            ("4096", 4096),
            ("16MiB", 16 << 20),
            ("100 GiB", 100 << 30),
            ("100G", 100 << 30),
            ("1.5k", 1536),
            ("2TB", 2_000_000_000_000),
        ] {
            assert_eq!(text.parse(), Ok(Bytes(bytes)), "{text}");
        }
        for text in ["", "GiB", "-1", "12 parsecs", "99999999999TiB"] {
            assert!(text.parse::<Bytes>().is_err(), "{text}");
        }
    }

    #[test]
    fn writes_what_people_read() {
        assert_eq!(Bytes(0).to_string(), "0 B");
        assert_eq!(Bytes::gib(100).to_string(), "100 GiB");
        assert_eq!(Bytes(1536).to_string(), "1.5 KiB");
    }
}
