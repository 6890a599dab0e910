//! Subject a record is, and where it stands.

use weir_types::{Ino, RecordRef};

/// Which bytes of which file a record was made from. After a range was copied between files,
/// another file may share the record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Owner {
    /// The file.
    pub ino: Ino,
    /// Offset in the file of the record's first raw byte.
    pub offset: u64,
}

/// One record of a segment: whose it is and where it stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct IndexEntry {
    /// The file bytes it was made from.
    pub owner: Owner,
    /// Where it stands and how to check it.
    pub record: RecordRef,
}
