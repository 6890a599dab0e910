//! What the log says of a commit that waits.

use bytes::Bytes;
use serde::{Deserialize, Serialize, Serializer};
use weir_types::{ErrorKind, FsError, Result};

use crate::kv::{Check, Commit, Version};
use crate::session::SessionId;

/// The first byte of an entry.
const ENTRY_VERSION: u8 = 1;

/// A commit as it is noted.
pub(super) struct Noted {
    pub(super) session: SessionId,
    pub(super) number: u64,
    pub(super) commit: Commit,
}

/// What is stored: borrowed, so that no value is copied twice.
#[derive(Serialize, Deserialize)]
struct Stored<'a> {
    session: u64,
    number: u64,
    #[serde(borrow)]
    checks: Vec<(Raw<'a>, Option<Version>)>,
    #[serde(borrow)]
    puts: Vec<(Raw<'a>, Raw<'a>)>,
    #[serde(borrow)]
    adds: Vec<(Raw<'a>, i64)>,
    #[serde(borrow)]
    raises: Vec<(Raw<'a>, Raw<'a>)>,
}

/// Bytes, written at once: serde writes slices byte by byte, with the same result.
#[derive(Deserialize)]
struct Raw<'a>(&'a [u8]);

impl Serialize for Raw<'_> {
    fn serialize<S: Serializer>(&self, to: S) -> Result<S::Ok, S::Error> {
        to.serialize_bytes(self.0)
    }
}

fn wanted(check: &Check) -> (Raw<'_>, Option<Version>) {
    match check {
        Check::Absent(key) => (Raw(key), None),
        Check::Version(key, version) => (Raw(key), Some(*version)),
    }
}

impl Noted {
    pub(super) fn encode(&self) -> Result<Vec<u8>> {
        let Commit { checks, puts, adds, raises, .. } = &self.commit;
        let stored = Stored {
            session: self.session.0,
            number: self.number,
            checks: checks.iter().map(wanted).collect(),
            puts: puts.iter().map(|(key, value)| (Raw(key), Raw(value))).collect(),
            adds: adds.iter().map(|(key, n)| (Raw(key), *n)).collect(),
            raises: raises.iter().map(|(key, value)| (Raw(key), Raw(value))).collect(),
        };
        postcard::to_extend(&stored, vec![ENTRY_VERSION]).map_err(|error| {
            FsError::new(ErrorKind::Bug, "cannot encode a commit that waits; report this")
                .with_source(error)
        })
    }

    /// Reads an entry back; `Unsupported` if a newer build wrote it, `Corrupt` if nobody did.
    pub(super) fn decode(entry: &[u8]) -> Result<Self> {
        let corrupt = |error| {
            FsError::new(ErrorKind::Corrupt, "an entry of the log of names is none")
                .with_source(error)
        };
        let bytes = match entry {
            [ENTRY_VERSION, bytes @ ..] => bytes,
            _ => {
                let text = "the log of names in the tier is of a newer build: update weir";
                return Err(FsError::new(ErrorKind::Unsupported, text));
            }
        };
        let stored: Stored<'_> = postcard::from_bytes(bytes).map_err(corrupt)?;
        let check = |(key, version): (Raw<'_>, Option<Version>)| match version {
            None => Check::Absent(key.0.to_vec()),
            Some(version) => Check::Version(key.0.to_vec(), version),
        };
        let pair =
            |(key, value): (Raw<'_>, Raw<'_>)| (key.0.to_vec(), Bytes::copy_from_slice(value.0));
        let commit = Commit {
            checks: stored.checks.into_iter().map(check).collect(),
            puts: stored.puts.into_iter().map(pair).collect(),
            deletes: Vec::new(),
            adds: stored.adds.into_iter().map(|(key, n)| (key.0.to_vec(), n)).collect(),
            raises: stored.raises.into_iter().map(pair).collect(),
        };
        Ok(Self { session: SessionId(stored.session), number: stored.number, commit })
    }
}
