//! Looking for damage: every invariant of the metadata, in one pass over all keys.

use std::fmt;

use weir_types::Result;

use crate::kv::Kv;

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem(pub String);

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// All that is wrong; empty when the volume is sound. Nothing may write meanwhile. Memory: one
/// small entry for each inode and segment.
pub async fn check(_kv: &dyn Kv) -> Result<Vec<Problem>> {
    todo!()
}
