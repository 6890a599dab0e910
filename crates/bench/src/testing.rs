//! What tests of suites run in.

use std::fs;
use std::path::PathBuf;

use tempfile::TempDir;

use crate::report::Size;
use crate::suite::{Progress, Run, Stop};

/// A directory to run in, and somebody to stop the run.
pub(crate) struct Bed {
    dir: TempDir,
    scratch: TempDir,
    pub(crate) stop: Stop,
}

impl Bed {
    pub(crate) fn new() -> Self {
        let make = || tempfile::tempdir().expect("a directory");
        Self { dir: make(), scratch: make(), stop: Stop::default() }
    }

    pub(crate) fn run(&self) -> Run<'_> {
        Run {
            dir: self.dir.path(),
            target: 0,
            is_weir: false,
            repeat: 0,
            size: Size::Small,
            copies: &[],
            sync: true,
            seed: 1,
            scratch: self.scratch.path(),
            weir: PathBuf::from("weir"),
            progress: &Silent,
            stop: &self.stop,
        }
    }

    /// Whether the run left nothing.
    pub(crate) fn is_empty(&self) -> bool {
        fs::read_dir(self.dir.path()).expect("reads").next().is_none()
    }
}

/// Tells nobody.
pub(crate) struct Silent;

impl Progress for Silent {
    fn phase(&self, _name: &str, _steps: u64) {}
    fn step(&self, _steps: u64) {}
}
