//! What SlateDB's errors mean to the file system.

use slatedb::{CloseReason, Error, ErrorKind as Slate};
use weir_types::{ErrorKind, FsError};

/// Maps an error that came while trying to do `what`.
pub(super) fn from_slate(what: &str, error: Error) -> FsError {
    let (kind, advice) = match error.kind() {
        Slate::Closed(CloseReason::Fenced) => (
            ErrorKind::Fenced,
            "another writer took the volume over; unmount here, or mount read-only",
        ),
        Slate::Closed(CloseReason::Clean) => (ErrorKind::Invalid, "the metadata is closed"),
        Slate::Closed(_) => {
            (ErrorKind::Bug, "the metadata engine stopped; mount anew and report this")
        }
        Slate::Unavailable => (ErrorKind::Retry, "the bucket is away or refuses"),
        Slate::Transaction => (ErrorKind::Conflict, "read again and redo it"),
        Slate::Invalid => (ErrorKind::Invalid, "the request or the options make no sense"),
        Slate::Data => (ErrorKind::Corrupt, "an object of the metadata is missing or damaged"),
        _ => (ErrorKind::Bug, "the metadata engine failed; report this"),
    };
    FsError::new(kind, format!("cannot {what}: {advice} ({error})")).with_source(error)
}
