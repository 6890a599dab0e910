//! Names and attributes: empty files made, looked at, listed, renamed and removed.

use std::fs::{self, File};
use std::path::{Path, PathBuf};

use super::phase::{Phase, begin, copies_of};
use crate::cache::Empty;
use crate::report::{Measurement, Size};
use crate::suite::{BenchError, Demand, MetadataOps, Run, Suite};
use crate::timing::{Watch, together};

/// The suite.
#[derive(Clone, Debug)]
pub struct Metadata {
    /// Files of each thread for a laptop, and in full.
    pub files: (u64, u64),
    /// Threads at once, a directory each.
    pub threads: &'static [u32],
}

impl Default for Metadata {
    fn default() -> Self {
        Self { files: (2_000, 100_000), threads: &[1, 2, 4, 8] }
    }
}

/// What is done with each file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Create,
    Stat,
    List,
    Rename,
    Remove,
}

const STEPS: [Step; 5] = [Step::Create, Step::Stat, Step::List, Step::Rename, Step::Remove];

impl Step {
    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Stat => "stat",
            Self::List => "list",
            Self::Rename => "rename",
            Self::Remove => "remove",
        }
    }

    /// Whether it is to find nothing in memory.
    fn is_cold(self) -> bool {
        matches!(self, Self::Stat | Self::List)
    }

    /// Does it with all files of a directory.
    fn all(
        self,
        dir: &Path,
        files: u64,
        sync: bool,
        watch: &mut Watch<'_>,
    ) -> Result<(), BenchError> {
        if self == Self::List {
            return watch.time(0, |watch| list(dir, files, watch));
        }
        for at in 0..files {
            let path = dir.join(format!("file-{at:06}"));
            let renamed = dir.join(format!("renamed-{at:06}"));
            watch.time(0, |_| {
                let done = match self {
                    Self::Create => File::create_new(&path).map(drop),
                    Self::Stat => fs::symlink_metadata(&path).map(drop),
                    Self::Rename => fs::rename(&path, &renamed),
                    Self::Remove => fs::remove_file(&renamed),
                    Self::List => Ok(()),
                };
                let what = format_args!("{} {}", self.name(), path.display());
                done.map_err(|error| BenchError::io(what, error))
            })?;
        }
        match sync && !self.is_cold() {
            true => {
                let synced = File::open(dir).and_then(|dir| dir.sync_all());
                synced
                    .map_err(|error| BenchError::io(format_args!("sync {}", dir.display()), error))
            }
            false => Ok(()),
        }
    }
}

fn list(dir: &Path, files: u64, watch: &Watch<'_>) -> Result<(), BenchError> {
    let failed = |error| BenchError::io(format_args!("list {}", dir.display()), error);
    let mut found = 0;
    for entry in fs::read_dir(dir).map_err(failed)? {
        watch.check()?;
        entry.map_err(failed)?;
        found += 1;
    }
    match found == files {
        true => Ok(()),
        false => Err(BenchError::Unsuitable(format!(
            "{} lists {found} files where {files} were made",
            dir.display()
        ))),
    }
}

impl Metadata {
    fn files(&self, size: Size) -> u64 {
        match size {
            Size::Small => self.files.0,
            Size::Published => self.files.1,
        }
    }

    fn step(&self, step: Step, run: &Run<'_>, dirs: &[PathBuf]) -> Result<Measurement, BenchError> {
        let files = self.files(run.size);
        let threads = dirs.len() as u32;
        let all_files = files * u64::from(threads);
        let steps = if step == Step::List { u64::from(threads) } else { all_files };
        let empty = step.is_cold().then_some(Empty::PageCache);
        let warnings = begin(run, step.name(), threads, steps, empty)?;
        let timed = together(dirs.to_vec(), run.stop, run.progress, |dir, watch| {
            step.all(dir, files, run.sync, watch)
        })?;
        let name = step.name();
        let phase = Phase { suite: self.name(), name, copies: threads, unit: "files", warnings };
        let mut measured = phase.measured(run, &timed);
        if step == Step::List {
            (measured.operations, measured.latency) = (all_files, None);
        }
        Ok(measured)
    }
}

impl Suite for Metadata {
    fn name(&self) -> &'static str {
        "metadata"
    }

    fn about(&self) -> &'static str {
        "empty files made, looked at, listed, renamed and removed by several threads"
    }

    fn demand(&self, size: Size, copies: &[u32]) -> Demand {
        let threads = copies_of(copies, self.threads).iter().map(|count| u64::from(*count));
        let dirs = threads.sum::<u64>();
        let files = self.files(size) * dirs;
        let changes = STEPS.iter().filter(|step| !step.is_cold()).count() as u64;
        Demand {
            files,
            syncs: dirs * changes,
            metadata_ops: MetadataOps {
                stats: files,
                listed: files,
                renames: files,
                removes: files,
            },
            seconds: files * STEPS.len() as u64 / 1_000,
            ..Demand::default()
        }
    }

    fn run(&self, run: &Run<'_>) -> Result<Vec<Measurement>, BenchError> {
        let mut done = Vec::new();
        for threads in copies_of(run.copies, self.threads) {
            let dirs: Vec<_> =
                (0..*threads).map(|thread| run.dir.join(format!("thread-{thread}"))).collect();
            for dir in &dirs {
                fs::create_dir(dir).map_err(|error| BenchError::io(dir.display(), error))?;
            }
            for step in STEPS {
                done.push(self.step(step, run, &dirs)?);
            }
            for dir in &dirs {
                fs::remove_dir(dir).map_err(|error| BenchError::io(dir.display(), error))?;
            }
        }
        Ok(done)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Bed;

    #[test]
    fn every_step_is_measured_for_all_threads() {
        let bed = Bed::new();
        let suite = Metadata { files: (7, 0), threads: &[1, 3] };
        let done = suite.run(&bed.run()).expect("runs");
        let phases: Vec<_> = done.iter().map(|m| (m.phase.as_str(), m.copies)).collect();
        let steps = STEPS.map(Step::name);
        let wanted = [1, 3].into_iter().flat_map(|copies| steps.map(|name| (name, copies)));
        assert_eq!(phases, wanted.collect::<Vec<_>>());
        for measured in &done {
            assert_eq!(measured.operations, 7 * u64::from(measured.copies), "{measured:?}");
            assert_eq!(measured.latency.is_some(), measured.phase != "list");
        }
        assert!(bed.is_empty());
    }

    #[test]
    fn files_of_all_threads_are_demanded() {
        let suite = Metadata { files: (10, 1_000), threads: &[1, 2] };
        let demand = suite.demand(Size::Published, &[]);
        assert_eq!((demand.files, demand.seconds), (3_000, 15));
        let each = demand.files;
        let done = MetadataOps { stats: each, listed: each, renames: each, removes: each };
        // Each of the three directories is synced after its files were made, renamed and removed.
        assert_eq!((demand.metadata_ops, demand.syncs), (done, 9));
        assert_eq!(suite.demand(Size::Small, &[4]).files, 40);
    }

    #[test]
    fn a_file_too_many_is_an_error() {
        let bed = Bed::new();
        let (suite, run) = (Metadata { files: (2, 0), threads: &[1] }, bed.run());
        let dir = run.dir.join("dir");
        fs::create_dir(&dir).expect("makes");
        suite.step(Step::Create, &run, std::slice::from_ref(&dir)).expect("creates");
        fs::write(dir.join("one-more"), "").expect("writes");
        let error = suite.step(Step::List, &run, &[dir]).expect_err("lists").to_string();
        assert!(error.contains("lists 3 files where 2"), "{error}");
    }
}
