//! How what lies in an archive class is had back.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// How soon an object in an archive class is to be readable again, which is what its price goes by.
///
/// Source: Amazon S3 User Guide, "Archive retrieval options".
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum RestoreTier {
    /// Within minutes; of GLACIER only.
    Expedited,
    /// Within 3 to 5 hours; of DEEP_ARCHIVE, within 12.
    #[default]
    Standard,
    /// Within 5 to 12 hours; of DEEP_ARCHIVE, within 48.
    Bulk,
}

/// A storage class out of which objects are restored before they are read.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ArchiveClass {
    /// S3 Glacier Flexible Retrieval.
    Glacier,
    /// S3 Glacier Deep Archive.
    DeepArchive,
    /// What S3 Intelligent-Tiering has put away by itself.
    IntelligentTiering,
}

impl ArchiveClass {
    /// All of them, in their order.
    pub const ALL: [Self; 3] = [Self::Glacier, Self::DeepArchive, Self::IntelligentTiering];

    /// Its name in requests to S3.
    pub fn name(self) -> &'static str {
        match self {
            Self::Glacier => "GLACIER",
            Self::DeepArchive => "DEEP_ARCHIVE",
            Self::IntelligentTiering => "INTELLIGENT_TIERING",
        }
    }

    /// The one of this name; `None` for a class whose objects are readable at once, or that nobody knows.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.name() == name)
    }
}

impl fmt::Display for ArchiveClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// How objects in an archive class are to be restored, if files are there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Restore {
    /// How soon.
    pub tier: RestoreTier,
    /// Days for which the bucket keeps the restored copy, which is paid beside the archived one. From 1.
    pub days: u32,
}

impl RestoreTier {
    /// All of them, the fastest first.
    pub const ALL: [Self; 3] = [Self::Expedited, Self::Standard, Self::Bulk];

    /// Its name in requests to S3.
    pub fn name(self) -> &'static str {
        match self {
            Self::Expedited => "Expedited",
            Self::Standard => "Standard",
            Self::Bulk => "Bulk",
        }
    }

    /// Its name for people.
    pub fn word(self) -> &'static str {
        match self {
            Self::Expedited => "expedited",
            Self::Standard => "standard",
            Self::Bulk => "bulk",
        }
    }

    /// How long it takes, for people: of GLACIER, and of DEEP_ARCHIVE.
    pub fn takes(self) -> &'static str {
        match self {
            Self::Expedited => "1 to 5 minutes",
            Self::Standard => "3 to 5 hours, of DEEP_ARCHIVE 12",
            Self::Bulk => "5 to 12 hours, of DEEP_ARCHIVE 48",
        }
    }
}

impl fmt::Display for RestoreTier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.word())
    }
}

impl FromStr for RestoreTier {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let lower = text.to_ascii_lowercase();
        let found = Self::ALL.into_iter().find(|tier| tier.word() == lower);
        found.ok_or_else(|| {
            format!("`{text}` is no way to restore: take expedited (minutes), standard (hours) or bulk (cheapest)")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tier_is_known_by_its_name_and_another_says_which_there_are() {
        for tier in RestoreTier::ALL {
            assert_eq!(tier.name().parse(), Ok(tier));
            assert_eq!(tier.to_string().parse(), Ok(tier));
        }
        assert!("soon".parse::<RestoreTier>().is_err_and(|why| why.contains("bulk")));
    }
}
