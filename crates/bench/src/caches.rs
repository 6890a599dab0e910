//! The page cache: what of it can be dropped, and what of it is not on disk yet.

use std::fs::{self, File};
use std::path::Path;

use crate::suite::{BenchError, io};

/// Writes what is dirty to the disks and drops what is clean. Tells whether it was allowed to.
pub(crate) fn drop_caches() -> bool {
    rustix::fs::sync();
    fs::write("/proc/sys/vm/drop_caches", "3").is_ok()
}

/// Bytes that the machine still has to write, `Dirty` and `Writeback` of `/proc/meminfo`.
pub(crate) fn dirty_bytes() -> u64 {
    let text = fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kib = |name| {
        let line = text.lines().find_map(|line| line.strip_prefix(name))?;
        line.trim().strip_suffix("kB")?.trim().parse::<u64>().ok()
    };
    (kib("Dirty:").unwrap_or(0) + kib("Writeback:").unwrap_or(0)) << 10
}

/// Makes all files right in `dir` durable.
pub(crate) fn sync_files(dir: &Path) -> Result<(), BenchError> {
    for entry in fs::read_dir(dir).map_err(io(dir))? {
        let path = entry.map_err(io(dir))?.path();
        if path.is_file() {
            File::open(&path).and_then(|file| file.sync_all()).map_err(io(&path))?;
        }
    }
    File::open(dir).and_then(|dir| dir.sync_all()).map_err(io(dir))
}

/// Bytes of all files right in `dir`.
pub(crate) fn bytes_in(dir: &Path) -> Result<u64, BenchError> {
    let mut bytes = 0;
    for entry in fs::read_dir(dir).map_err(io(dir))? {
        let meta = entry.and_then(|entry| entry.metadata()).map_err(io(dir))?;
        bytes += if meta.is_file() { meta.len() } else { 0 };
    }
    Ok(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_counted_and_synced_but_not_what_is_below() {
        let dir = tempfile::tempdir().unwrap();
        fs::write(dir.path().join("a"), "12345").unwrap();
        fs::create_dir(dir.path().join("below")).unwrap();
        fs::write(dir.path().join("below/b"), "678").unwrap();
        sync_files(dir.path()).unwrap();
        assert_eq!(bytes_in(dir.path()).unwrap(), 5);
        assert!(bytes_in(&dir.path().join("none")).is_err());
    }
}
