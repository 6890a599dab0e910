//! Values as bytes: one version byte, then postcard. Counters alone are bare, as the Kv wants them.

use bytes::Bytes;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use weir_types::{ErrorKind, FileKind, FsError, Ino, Inode, Result, UnixTime};

use crate::kv::{Key, Version, Versioned};

/// Version of every value's layout.
const VALUE_VERSION: u8 = 1;

/// What a directory entry leads to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Dirent {
    pub(crate) ino: Ino,
    pub(crate) kind: FileKind,
}

/// When a directory's entries last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct DirTimes {
    pub(crate) mtime: UnixTime,
    pub(crate) ctime: UnixTime,
}

/// A decoded value and the version it was read at.
#[derive(Clone, Debug)]
pub(crate) struct Seen<T> {
    pub(crate) version: Version,
    pub(crate) value: T,
}

pub(crate) fn encode<T: Serialize>(value: &T) -> Result<Bytes> {
    let bytes = postcard::to_extend(value, vec![VALUE_VERSION]).map_err(|e| {
        FsError::new(ErrorKind::Bug, "cannot encode a metadata value; please report it")
            .with_source(e)
    })?;
    Ok(bytes.into())
}

pub(crate) fn decode<T: DeserializeOwned>(key: &[u8], bytes: &[u8]) -> Result<T> {
    let corrupt = |why: String| {
        let key = key.escape_ascii();
        FsError::new(ErrorKind::Corrupt, format!("metadata value of key {key}: {why}; run a check"))
    };
    let body = match bytes.split_first() {
        Some((&VALUE_VERSION, body)) => body,
        Some((version, _)) => return Err(corrupt(format!("layout version {version} is unknown"))),
        None => return Err(corrupt("empty".to_owned())),
    };
    let (value, rest) = postcard::take_from_bytes(body).map_err(|e| corrupt(e.to_string()))?;
    if !rest.is_empty() {
        return Err(corrupt(format!("{} bytes too many", rest.len())));
    }
    Ok(value)
}

/// Decodes what a read found, if it found something.
pub(crate) fn decode_seen<T: DeserializeOwned>(
    key: &[u8],
    found: Option<&Versioned>,
) -> Result<Option<Seen<T>>> {
    let Some(found) = found else { return Ok(None) };
    Ok(Some(Seen { version: found.version, value: decode(key, &found.value)? }))
}

/// The value of a counter; absent means 0.
pub(crate) fn counter(key: &[u8], found: Option<&Versioned>) -> Result<i64> {
    let Some(found) = found else { return Ok(0) };
    let bytes = found.value.as_ref().try_into().map_err(|_| {
        let context = format!("counter {} is not 8 bytes long; run a check", key.escape_ascii());
        FsError::new(ErrorKind::Corrupt, context)
    })?;
    Ok(i64::from_le_bytes(bytes))
}

/// Folds the times of a directory's entries into its inode.
///
/// The entries' time of change stands above the inode's own even where that is later (somebody set
/// it to the future): an explicit setting of times removes the `T` row, so one that is there is of
/// a later change.
pub(crate) fn merge_times(inode: &mut Inode, times: Option<&Versioned>) -> Result<()> {
    if let Some(found) = times {
        let times: DirTimes = decode(&crate::keys::dir_times(inode.ino), &found.value)?;
        inode.mtime = times.mtime;
        inode.ctime = inode.ctime.max(times.ctime);
    }
    Ok(())
}

/// The version of what a read found, as a check wants it.
pub(crate) fn version(found: Option<&Versioned>) -> Option<Version> {
    found.map(|found| found.version)
}

/// The last key of a page of a scan, from where the next one goes on.
pub(crate) fn last_key<V>(page: &[(Key, V)]) -> Option<Key> {
    page.last().map(|(key, _)| key.clone())
}
