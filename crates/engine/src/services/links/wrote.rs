//! Whose an object is that nothing was noted of.

use std::collections::BTreeMap;

use weir_types::{ErrorKind, Ino, Result};

use super::attributes;
use crate::data::mirrors::Mirrors;

/// Whether an object of this size and metadata is one that an export of this very file wrote:
/// a crash between its PUT and the commit leaves such a one. What the file is is asked for now:
/// it may have been flushed since somebody looked.
pub(crate) async fn wrote(
    mirrors: &Mirrors,
    ino: Ino,
    object_bytes: u64,
    metadata: &BTreeMap<String, String>,
) -> Result<bool> {
    match mirrors.known(ino).await {
        Ok(now) => {
            let shown = mirrors.without_acl(now).await?;
            Ok(*metadata == attributes::write(&shown) && object_bytes == shown.size)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}
