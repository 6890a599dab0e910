//! What a suite is to whoever runs it.

use std::fmt::Display;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use thiserror::Error;

use crate::report::{Measurement, Size};

/// Set when somebody wants the run to end.
#[derive(Clone, Debug, Default)]
pub struct Stop(Arc<AtomicBool>);

impl Stop {
    /// Asks the run to end; it cleans up first.
    pub fn now(&self) {
        self.0.store(true, Ordering::Release);
    }

    /// Fails once somebody asked for the end. To be called at least ten times a second.
    pub fn check(&self) -> Result<(), BenchError> {
        match self.0.load(Ordering::Acquire) {
            true => Err(BenchError::Stopped),
            false => Ok(()),
        }
    }
}

/// Why a suite ended without its measurements.
#[derive(Debug, Error)]
pub enum BenchError {
    /// Somebody stopped it.
    #[error("stopped")]
    Stopped,
    /// A program that it needs is not installed.
    #[error("{program} is not installed: on Debian, apt-get install {package}")]
    Missing {
        /// The program.
        program: String,
        /// The package that has it.
        package: String,
    },
    /// It cannot run there.
    #[error("{0}")]
    Unsuitable(String),
    /// The file system or a program failed.
    #[error("{what}: {source}")]
    Io {
        /// What was tried.
        what: String,
        /// What came of it.
        source: std::io::Error,
    },
    /// A program that was run failed.
    #[error("{program} failed: {why}")]
    Program {
        /// The program.
        program: String,
        /// Its last words.
        why: String,
    },
}

impl BenchError {
    /// The file system failed at `what`.
    pub fn io(what: impl Display, source: std::io::Error) -> Self {
        Self::Io { what: what.to_string(), source }
    }
}

/// What a suite will do on one target, for the check of free space and for the price of it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    /// Most bytes that lie in the target at once.
    pub space_bytes: u64,
    /// Bytes written in all.
    pub written_bytes: u64,
    /// Bytes read in all.
    pub read_bytes: u64,
    /// Of these, bytes that a tier still has when they are read.
    pub warm_bytes: u64,
    /// Files made in all.
    pub files: u64,
    /// Files or writes that end with an fsync, when writes are synced.
    pub syncs: u64,
    /// Files read in all, each as often as it is opened and read.
    pub reads: u64,
    /// Of these, files that a tier still has when they are read.
    pub warm_reads: u64,
    /// What is done with names, beside making files.
    pub metadata_ops: MetadataOps,
    /// About how long it takes at 100 MB/s and 1,000 files a second, in seconds.
    pub seconds: u64,
}

/// What is done with names, by what it asks of a bucket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct MetadataOps {
    /// Names whose attributes are looked up.
    pub stats: u64,
    /// Names that are listed.
    pub listed: u64,
    /// Files renamed.
    pub renames: u64,
    /// Files removed.
    pub removes: u64,
}

/// Who is told how far it is.
pub trait Progress: Sync {
    /// A phase of so many steps begins.
    fn phase(&self, name: &str, steps: u64);
    /// So many more steps are done.
    fn step(&self, steps: u64);
}

/// One run of a suite on one target.
pub struct Run<'a> {
    /// An empty directory in the target that is the run's own; removed afterwards by the caller.
    pub dir: &'a Path,
    /// The target, by its place in the report.
    pub target: usize,
    /// Whether the target is a mount of weir.
    pub is_weir: bool,
    /// Which repeat, from 0.
    pub repeat: u32,
    /// How much.
    pub size: Size,
    /// Copies at once, as somebody asked for; empty for the suite's own.
    pub copies: &'a [u32],
    /// Whether a write's time includes an fsync.
    pub sync: bool,
    /// What random data begins from.
    pub seed: u64,
    /// A directory outside of all targets for what the run needs but does not measure.
    pub scratch: &'a Path,
    /// The `weir` program, for what only it can do.
    pub weir: PathBuf,
    /// Told how far it is.
    pub progress: &'a dyn Progress,
    /// To be asked often.
    pub stop: &'a Stop,
}

/// A published experiment.
pub trait Suite: Send + Sync {
    /// Its name on the command line.
    fn name(&self) -> &'static str;
    /// What it is, in a line.
    fn about(&self) -> &'static str;
    /// Whether it changes settings of a mount of weir while it runs, which others may notice.
    fn changes_mounts(&self) -> bool {
        false
    }
    /// The experiments of the price book's source list whose figures stand beside it.
    fn published(&self) -> &'static [&'static str] {
        &[]
    }
    /// What it will do on one target in one repeat.
    fn demand(&self, size: Size, copies: &[u32]) -> Demand;
    /// Runs all of its phases once.
    ///
    /// # Errors
    /// When it could not; what it made in its directory may be left.
    fn run(&self, run: &Run<'_>) -> Result<Vec<Measurement>, BenchError>;
}

/// Names the file that could not be used, for `map_err`.
pub(crate) fn io(path: &Path) -> impl FnOnce(std::io::Error) -> BenchError {
    let what = path.display().to_string();
    move |source| BenchError::Io { what, source }
}
