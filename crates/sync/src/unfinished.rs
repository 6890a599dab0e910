//! The names under which files are written before they are whole.

use xxhash_rust::xxh3::xxh3_64;

/// The attribute of one that is being written: of which source, and how many bytes from the start are on the disk.
pub(crate) const NOTE: &str = "user.weir.sync";

const BEGINNING: &[u8] = b".weir-sync.";

/// Whether a name is one that a run writes under: it is in no listing.
pub(crate) fn is_unfinished(name: &[u8]) -> bool {
    name.starts_with(BEGINNING)
}

/// Under which name a file is written: the same in each run, so that the next one takes over what a
/// killed one left.
pub(crate) fn unfinished(name: &[u8]) -> Vec<u8> {
    [BEGINNING, format!("{:016x}", xxh3_64(name)).as_bytes()].concat()
}
