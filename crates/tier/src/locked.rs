//! Directories that one daemon may use at a time.

use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::sync::Arc;

use rustix::fs::{FlockOperation, flock};
use weir_types::{ErrorCode, ErrorKind, FsError, Result};

use crate::private;

/// Takes the lock of a directory that one daemon may use at a time, unless it is one of those that
/// are held already; held until the file goes.
pub fn lock_directory(directory: &Path, held: &[Arc<File>]) -> Result<Arc<File>> {
    let path = directory.join("lock");
    let at = |e| FsError::local_io(format!("open {}", path.display()), e);
    let file = open_lock(&path).map_err(at)?;
    let same = |one: &File| {
        let (one, other) = (one.metadata()?, file.metadata()?);
        Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
    };
    for lock in held {
        if same(lock).map_err(at)? {
            return Ok(lock.clone());
        }
    }
    Ok(Arc::new(locked(file, directory)?))
}

fn open_lock(path: &Path) -> std::io::Result<File> {
    private::options().write(true).truncate(false).open(path)
}

/// Makes a file, if it is not there, and locks it, for the use of a directory.
pub(crate) fn lock_file(path: &Path, directory: &Path) -> Result<File> {
    let file = open_lock(path);
    locked(file.map_err(|e| FsError::local_io(format!("open {}", path.display()), e))?, directory)
}

fn locked(file: File, directory: &Path) -> Result<File> {
    flock(&file, FlockOperation::NonBlockingLockExclusive).map_err(|e| {
        let text = format!(
            "{} is in use by another weir on this machine: unmount that one, or name another \
             directory",
            directory.display()
        );
        let error = FsError::new(ErrorKind::Conflict, text).coded(ErrorCode::TierInUse);
        error.with_source(std::io::Error::from(e))
    })?;
    Ok(file)
}
