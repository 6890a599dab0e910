//! ETags: which can be sent, which are the same, and that of a file.

use std::fs::Metadata;
use std::os::unix::fs::MetadataExt;
use std::time::UNIX_EPOCH;

use object_store::path::Path;
use weir_types::{ErrorKind, FsError, Result};

/// Refuses an ETag that no header can carry: the library would panic.
pub(crate) fn check_etag(etag: &str) -> Result<()> {
    match etag.bytes().all(|byte| byte == b' ' || byte.is_ascii_graphic()) {
        true => Ok(()),
        false => Err(FsError::new(ErrorKind::Invalid, format!("`{etag:?}` cannot be an ETag"))),
    }
}

/// Whether two ETags are the same, or both missing. Some servers quote them in one answer and leave
/// the quotes out in another.
pub fn is_same_etag(one: Option<&str>, other: Option<&str>) -> bool {
    one.map(|etag| etag.trim_matches('"')) == other.map(|etag| etag.trim_matches('"'))
}

/// Whether two ETags are there and the same.
pub(crate) fn is_same(one: Option<&str>, other: Option<&str>) -> bool {
    one.is_some() && is_same_etag(one, other)
}

/// Fails if the object should have one ETag and has another.
pub(crate) fn still(
    want: Option<&str>,
    have: Option<&str>,
    path: &Path,
) -> object_store::Result<()> {
    let bare = |etag: &str| etag.trim_matches('"').to_owned();
    match want.zip(have) {
        Some((want, have)) if bare(want) != bare(have) => Err(object_store::Error::Precondition {
            path: path.to_string(),
            source: format!("the object has ETag {have} and no longer {want}").into(),
        }),
        _ => Ok(()),
    }
}

/// The ETag of a file: inode, time in microseconds, size.
pub(crate) fn etag(meta: &Metadata) -> String {
    let modified = meta.modified().ok().and_then(|time| time.duration_since(UNIX_EPOCH).ok());
    let micros = modified.unwrap_or_default().as_micros();
    format!("\"{:x}-{micros:x}-{:x}\"", meta.ino(), meta.len())
}
