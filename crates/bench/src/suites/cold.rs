//! Cold phases: the page cache dropped, and on a mount of weir the tier released.

use std::fs::{self, OpenOptions};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::caches;
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
    let mut warnings = Vec::new();
    if run.is_weir
        && let Some(why) = release(run)?
    {
        warnings.push(Warning::Cached { why });
    }
    if !caches::drop_caches() {
        let why = "only root may drop the page cache".into();
        warnings.push(Warning::Cached { why });
    }
    Ok(warnings)
}

/// Has weir let go of the run's files here. Says why not, if something stayed.
fn release(run: &Run<'_>) -> Result<Option<String>, BenchError> {
    weir(run).arg("flush").arg(mount_of(run.dir)?).run(run.stop)?;
    match weir(run).args(["release", "-r"]).arg(run.dir).run(run.stop) {
        Ok(_) => Ok(None),
        Err(BenchError::Program { why, .. }) => Ok(Some(format!("weir released not all: {why}"))),
        Err(other) => Err(other),
    }
}

/// The `weir` program.
pub(crate) fn weir(run: &Run<'_>) -> Program<'static> {
    Program::new(&run.weir, "weir")
}

/// Where the file system that a directory is in is mounted.
pub(crate) fn mount_of(dir: &Path) -> Result<PathBuf, BenchError> {
    let real = dir.canonicalize().map_err(io(dir))?;
    let device = real.metadata().map_err(io(&real))?.dev();
    let same = |at: &&Path| at.metadata().is_ok_and(|meta| meta.dev() == device);
    Ok(real.ancestors().take_while(same).last().unwrap_or(&real).to_path_buf())
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

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;
    use crate::suites::testing::Bench;

    #[test]
    fn a_directory_is_of_the_mount_above_it() {
        assert_eq!(mount_of(Path::new("/proc/self/fd")).unwrap(), Path::new("/proc"));
        assert_eq!(mount_of(Path::new("/")).unwrap(), Path::new("/"));
        assert!(mount_of(Path::new("/no/such")).is_err());
    }

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
    fn what_weir_does_not_release_is_a_warning() {
        let mut bench = Bench::new();
        bench.is_weir = true;
        let script = "#!/bin/sh\n[ $1 != release ] || { echo f: is open >&2; exit 1; }\n";
        let path = bench.scratch().join("weir");
        fs::write(&path, script).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
        let warnings = go_cold(&bench.run(&[])).unwrap();
        assert!(format!("{warnings:?}").contains("f: is open"), "{warnings:?}");
    }
}
