//! What must be true of an object for it to be written, and which of that a store holds.

use object_store::{ObjectMeta, PutMode, UpdateVersion};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use weir_types::Result;

use crate::etags::{check_etag, is_same};

/// Which conditions of a PUT a store holds. Where it does not, the object is looked at right before
/// each attempt, which leaves the moment between the look and the PUT.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Conditions {
    /// That there is no object (`If-None-Match: *`).
    pub absent: bool,
    /// That it has an ETag (`If-Match`).
    pub matches: bool,
}

impl Conditions {
    /// What a store should hold.
    pub const ALL: Conditions = Conditions { absent: true, matches: true };

    /// Whether the store itself sees to it that `condition` holds.
    pub(crate) fn hold(self, condition: &PutCondition) -> bool {
        match condition {
            PutCondition::Any => true,
            PutCondition::Absent => self.absent,
            PutCondition::Matches(_) => self.matches,
            PutCondition::Unchanged { .. } => false,
        }
    }
}

/// What must be true of an object for it to be written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PutCondition {
    /// Nothing: whatever is there is replaced.
    Any,
    /// There is none.
    Absent,
    /// It has this ETag.
    Matches(String),
    /// It has this size and was written at this time: for stores that tell no ETags. No store holds
    /// it, so the object is looked at first.
    Unchanged {
        /// Bytes.
        size: u64,
        /// When it was written, in milliseconds since 1970.
        modified_unix_ms: i64,
    },
}

impl PutCondition {
    pub(crate) fn check(&self) -> Result<()> {
        match self {
            PutCondition::Matches(etag) => check_etag(etag),
            _ => Ok(()),
        }
    }

    pub(crate) fn mode(&self) -> PutMode {
        match self {
            PutCondition::Any | PutCondition::Unchanged { .. } => PutMode::Overwrite,
            PutCondition::Absent => PutMode::Create,
            PutCondition::Matches(etag) => {
                PutMode::Update(UpdateVersion { e_tag: Some(etag.clone()), version: None })
            }
        }
    }

    /// Whether it holds for an object of which this is known.
    pub(crate) fn holds_for(&self, found: Option<&ObjectMeta>) -> bool {
        match (self, found) {
            (PutCondition::Any, _) | (PutCondition::Absent, None) => true,
            (PutCondition::Absent, Some(_)) | (_, None) => false,
            (PutCondition::Matches(etag), Some(have)) => is_same(Some(etag), have.e_tag.as_deref()),
            (PutCondition::Unchanged { size, modified_unix_ms }, Some(have)) => {
                have.size == *size && have.last_modified.timestamp_millis() == *modified_unix_ms
            }
        }
    }
}
