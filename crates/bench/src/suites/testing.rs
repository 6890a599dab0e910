//! Runs for tests: a target of their own, gone afterwards.

use std::fs;
use std::path::{Path, PathBuf};

use parking_lot::Mutex;
use tempfile::TempDir;

use crate::report::Size;
use crate::suite::{Progress, Run, Stop};

/// What a run of a test needs.
pub(crate) struct Bench {
    /// Holds the target, and must hold nothing else.
    above: TempDir,
    target: PathBuf,
    scratch: TempDir,
    pub(crate) stop: Stop,
    pub(crate) is_weir: bool,
    pub(crate) sync: bool,
    /// The phase in whose first step the run is stopped.
    pub(crate) stop_in: Option<&'static str>,
    phase: Mutex<String>,
}

impl Progress for Bench {
    fn phase(&self, name: &str, _: u64) {
        self.phase.lock().replace_range(.., name);
    }

    fn step(&self, _: u64) {
        if self.stop_in == Some(self.phase.lock().as_str()) {
            self.stop.now();
        }
    }
}

impl Bench {
    pub(crate) fn new() -> Self {
        let above = tempfile::tempdir().unwrap();
        // Programs split and cut names at such characters.
        let target = above.path().join("a b#c;d e${f}");
        fs::create_dir(&target).unwrap();
        Self {
            above,
            target,
            scratch: tempfile::tempdir().unwrap(),
            stop: Stop::default(),
            is_weir: false,
            sync: true,
            stop_in: None,
            phase: Mutex::default(),
        }
    }

    pub(crate) fn dir(&self) -> &Path {
        &self.target
    }

    pub(crate) fn scratch(&self) -> &Path {
        self.scratch.path()
    }

    pub(crate) fn run<'a>(&'a self, copies: &'a [u32]) -> Run<'a> {
        Run {
            dir: self.dir(),
            target: 3,
            is_weir: self.is_weir,
            repeat: 1,
            size: Size::Small,
            copies,
            sync: self.sync,
            seed: 7,
            scratch: self.scratch(),
            weir: self.scratch().join("weir"),
            progress: self,
            stop: &self.stop,
        }
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            let beside = fs::read_dir(self.above.path()).unwrap().count();
            assert_eq!(beside, 1, "something was made beside the target");
        }
    }
}
