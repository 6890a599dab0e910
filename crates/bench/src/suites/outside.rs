//! What suites that run other programs have in common.

use std::fs::{self, File, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use crate::cache::{self, Empty};
use crate::program::Program;
use crate::report::{Measurement, Warning};
use crate::suite::{BenchError, Run, io};

/// A measurement that is still to be filled in.
pub(crate) fn blank(run: &Run<'_>, suite: &str, phase: &str, copies: u32) -> Measurement {
    Measurement {
        suite: suite.into(),
        phase: phase.into(),
        copies,
        target: run.target,
        repeat: run.repeat,
        seconds: 0.0,
        bytes: 0,
        operations: 0,
        unit: String::new(),
        series: Vec::new(),
        latency: None,
        warnings: Vec::new(),
    }
}

/// Makes the next read of the run's files a cold one, and says what stands against it.
pub(crate) fn go_cold(run: &Run<'_>) -> Result<Vec<Warning>, BenchError> {
    run.stop.check()?;
    cache::empty(Empty::Tier, run)
}

/// The `weir` program.
pub(crate) fn weir(run: &Run<'_>) -> Program<'static> {
    Program::new(&run.weir, "weir")
}

/// Says so when a program was held back by the processors, not by the storage.
pub(crate) fn cpu_bound(cpu_seconds: f64, seconds: f64) -> Option<Warning> {
    let cpus = cpus();
    let share = cpu_seconds / (seconds * f64::from(cpus));
    (share > 0.9).then(|| Warning::Other {
        what: format!(
            "the {cpus} processors were busy for {:.0}% of the time: a faster file system would \
             not help",
            share.min(1.0) * 100.0
        ),
    })
}

/// Processors that may be used.
pub(crate) fn cpus() -> u32 {
    std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX))
}

/// Whether files here can be opened past the page cache.
pub(crate) fn takes_direct(dir: &Path) -> Result<bool, BenchError> {
    let path = dir.join("direct");
    let opened =
        OpenOptions::new().write(true).create(true).custom_flags(libc::O_DIRECT).open(&path);
    // Where it is refused the file is there all the same.
    let removed = fs::remove_file(&path);
    match opened {
        Ok(_) => removed.map(|()| true).map_err(io(&path)),
        Err(error) if error.kind() == ErrorKind::InvalidInput => Ok(false),
        Err(error) => Err(io(&path)(error)),
    }
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
    use crate::suites::testing::Bench;

    #[test]
    fn processors_are_the_limit_when_all_of_them_are_busy() {
        let all = f64::from(cpus());
        assert!(cpu_bound(9.5 * all, 10.0).is_some());
        assert!(cpu_bound(5.0 * all, 10.0).is_none());
    }

    #[test]
    fn asking_for_direct_leaves_nothing() {
        let bench = Bench::new();
        takes_direct(bench.dir()).unwrap();
        assert_eq!(fs::read_dir(bench.dir()).unwrap().count(), 0);
        assert!(takes_direct(Path::new("/proc")).is_err());
    }

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
