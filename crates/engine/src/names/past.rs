//! What is in snapshots, and the name under which they are: neither can be changed.

use weir_meta::Meta;
use weir_types::{ErrorKind, FsError, Ino, Result};

/// The name of the directory of the snapshots, in the root. No listing has it.
pub(crate) const SNAPSHOTS_NAME: &[u8] = b".snapshots";

/// Refuses to change any of these that is in a snapshot.
pub(crate) fn check_present(inos: &[Ino]) -> Result<()> {
    match inos.iter().any(|ino| ino.is_past()) {
        false => Ok(()),
        true => {
            let text = "it is in a snapshot, which nobody can change: copy it to the volume first";
            Err(FsError::new(ErrorKind::ReadOnly, text))
        }
    }
}

/// Refuses to give the name of the snapshots' directory to anything else, or to take it away.
pub(crate) fn check_name(meta: &Meta, parent: Ino, name: &[u8]) -> Result<()> {
    check_present(&[parent])?;
    if !is_snapshots(meta, parent, name) {
        return Ok(());
    }
    let text = "`.snapshots` is where the volume has its snapshots: choose another name";
    Err(FsError::new(ErrorKind::Permission, text))
}

/// Whether this is the name of the snapshots' directory.
pub(crate) fn is_snapshots(meta: &Meta, parent: Ino, name: &[u8]) -> bool {
    parent == Ino::ROOT && name == SNAPSHOTS_NAME && meta.has_checkpoints()
}
