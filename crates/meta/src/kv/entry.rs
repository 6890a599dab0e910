//! The physical form of one commit: what a redo log notes and what replay applies.
//!
//! Checks are decided and adds are resolved before an entry is made, so applying it twice, or to a
//! store that already holds it, changes nothing.

use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};
use weir_types::{ErrorKind, FsError, Result};

use super::contract::{Key, Version};

/// Final values and removals of one commit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Entry {
    /// Which commit this is.
    pub(super) version: Version,
    /// Values to set, without their version.
    pub(super) puts: Vec<(Key, Bytes)>,
    /// Keys to remove.
    pub(super) deletes: Vec<Key>,
}

/// What is stored: borrowed, so that encoding and decoding copy no value twice.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    version: Version,
    #[serde(borrow)]
    puts: Vec<(Raw<'a>, Raw<'a>)>,
    #[serde(borrow)]
    deletes: Vec<Raw<'a>>,
}

/// Bytes, written at once: serde writes slices byte by byte, with the same result.
#[derive(Deserialize)]
struct Raw<'a>(&'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

impl Entry {
    /// The entry as a redo log stores it.
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let stored = Stored {
            version: self.version,
            puts: self.puts.iter().map(|(key, value)| (Raw(key), Raw(value))).collect(),
            deletes: self.deletes.iter().map(|key| Raw(key)).collect(),
        };
        postcard::to_stdvec(&stored).map_err(|error| {
            FsError::new(ErrorKind::Bug, "cannot encode a metadata commit; report this")
                .with_source(error)
        })
    }

    /// Reads an entry back. Bytes that are none, or that hold another version than their log says,
    /// are `Corrupt`.
    pub(super) fn decode(version: Version, bytes: &[u8]) -> Result<Entry> {
        let corrupt = |why: String| {
            let advice = "the log is damaged from here on: set it aside, mount without it";
            let context = format!("redo log entry of commit {version}: {why}; {advice}");
            FsError::new(ErrorKind::Corrupt, context)
        };
        let (stored, rest): (Stored<'_>, _) =
            postcard::take_from_bytes(bytes).map_err(|error| corrupt(error.to_string()))?;
        if !rest.is_empty() {
            return Err(corrupt(format!("{} bytes too long", rest.len())));
        }
        if stored.version != version {
            return Err(corrupt(format!("it says it is commit {}", stored.version)));
        }
        let puts = stored.puts.iter().map(|(k, v)| (k.0.to_vec(), Bytes::copy_from_slice(v.0)));
        let deletes = stored.deletes.iter().map(|key| key.0.to_vec());
        Ok(Entry { version, puts: puts.collect(), deletes: deletes.collect() })
    }
}

/// Values that a commit puts, and keys that it deletes.
pub(crate) type Changes = (Vec<(Key, Bytes)>, Vec<Key>);

/// What a commit changes, as a [`CommitLog`](super::CommitLog) noted it.
pub(crate) fn logged(version: Version, entry: &[u8]) -> Result<Changes> {
    let entry = Entry::decode(version, entry)?;
    Ok((entry.puts, entry.deletes))
}

/// A commit as a [`CommitLog`](super::CommitLog) notes it.
#[cfg(test)]
pub(crate) fn encode_for_tests(
    version: Version,
    puts: Vec<(Key, Bytes)>,
    deletes: Vec<Key>,
) -> Vec<u8> {
    Entry { version, puts, deletes }.encode().expect("encodes")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entries_are_written_as_ever() {
        let puts = vec![(vec![1], Bytes::from_static(b"ab"))];
        let entry = Entry { version: 7, puts, deletes: vec![vec![2, 3]] };
        let bytes = entry.encode().unwrap();
        assert_eq!(bytes, [7, 1, 1, 1, 2, b'a', b'b', 1, 2, 2, 3]);
        assert_eq!(Entry::decode(7, &bytes).unwrap(), entry);
    }
}
