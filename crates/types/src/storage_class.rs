//! Storage classes of S3: what keeping, asking and leaving early cost differs, the bytes and the time to the first of
//! them do not.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A storage class of S3 whose objects can be read at once, from the one for what is used most.
///
/// Source of the days: Amazon S3 User Guide, "Understanding and managing Amazon S3 storage classes".
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
#[serde(rename_all = "SCREAMING_SNAKE_CASE")]
pub enum StorageClass {
    /// S3 Standard.
    #[default]
    Standard,
    /// S3 Standard-Infrequent Access.
    StandardIa,
    /// S3 One Zone-Infrequent Access: gone when its availability zone is.
    OnezoneIa,
    /// S3 Glacier Instant Retrieval.
    GlacierIr,
}

/// Objects that would move from one storage class into another.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ClassMove {
    /// Where they are.
    pub from: StorageClass,
    /// Where they would be.
    pub to: StorageClass,
    /// How many.
    pub objects: u64,
    /// Their bytes.
    pub bytes: u64,
    /// Their bytes times the days for which they would be paid where they are all the same.
    pub early_byte_days: u64,
}

impl StorageClass {
    /// All of them, in their order.
    pub const ALL: [StorageClass; 4] =
        [Self::Standard, Self::StandardIa, Self::OnezoneIa, Self::GlacierIr];
    /// Those but the first.
    pub const COLD: [StorageClass; 3] = [Self::StandardIa, Self::OnezoneIa, Self::GlacierIr];

    /// Its name in requests to S3.
    pub fn name(self) -> &'static str {
        match self {
            Self::Standard => "STANDARD",
            Self::StandardIa => "STANDARD_IA",
            Self::OnezoneIa => "ONEZONE_IA",
            Self::GlacierIr => "GLACIER_IR",
        }
    }

    /// Days for which an object in it is paid, however soon it leaves.
    pub fn days_min(self) -> u32 {
        match self {
            Self::Standard => 0,
            Self::StandardIa | Self::OnezoneIa => 30,
            Self::GlacierIr => 90,
        }
    }

    /// Its place in [`StorageClass::ALL`].
    pub fn index(self) -> usize {
        self as usize
    }

    /// Its place in [`StorageClass::COLD`], if it is one of them.
    pub fn cold_index(self) -> Option<usize> {
        self.index().checked_sub(1)
    }
}

impl fmt::Display for StorageClass {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for StorageClass {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let upper = text.to_ascii_uppercase();
        if let Some(class) = Self::ALL.into_iter().find(|class| class.name() == upper) {
            return Ok(class);
        }
        let known = Self::ALL.map(Self::name).join(", ");
        Err(match upper.as_str() {
            "GLACIER" | "DEEP_ARCHIVE" => format!(
                "what is in {upper} must be restored for hours before it can be read, which no file of a volume can \
                 wait for: take GLACIER_IR"
            ),
            "INTELLIGENT_TIERING" => format!(
                "{upper} moves objects by itself, and says nowhere what each costs: let a lifecycle rule of the \
                 bucket put them there, or take one of {known}"
            ),
            _ => format!("`{text}` is no storage class: take one of {known}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_class_is_known_by_its_name_and_others_say_why_not() {
        for class in StorageClass::ALL {
            assert_eq!(class.name().parse(), Ok(class));
            assert_eq!(StorageClass::ALL[class.index()], class);
            assert_eq!(
                class.cold_index().map(|at| StorageClass::COLD[at]).unwrap_or_default(),
                class
            );
        }
        assert_eq!("standard_ia".parse(), Ok(StorageClass::StandardIa));
        let why = |text: &str| text.parse::<StorageClass>().expect_err("no such class");
        assert!(why("DEEP_ARCHIVE").contains("take GLACIER_IR"));
        assert!(why("INTELLIGENT_TIERING").contains("by itself"));
        assert!(why("COLD").contains("STANDARD_IA"));
        assert_eq!(
            serde_json::to_string(&StorageClass::GlacierIr).ok().as_deref(),
            Some("\"GLACIER_IR\"")
        );
    }
}
