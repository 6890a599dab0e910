//! A directory to be measured: what it is, whether there is room, and the run's own place in it.

use std::fs;
use std::path::{Path, PathBuf};

use tempfile::TempDir;
use weir_types::Bytes;

use crate::report::TargetFacts;
use crate::suite::{BenchError, Demand};
use crate::{cache, mounts};

/// The file system type of Weir's mounts.
const WEIR: &str = "fuse.weir";

/// Other file systems that keep files in a bucket, as types or sources of mounts name them.
/// Sources: the manual of each.
const OBJECT_STORES: [&str; 10] = [
    "blobfuse2",
    "fuse.gcsfuse",
    "fuse.geesefs",
    "fuse.goofys",
    "fuse.juicefs",
    "fuse.objectivefs",
    "fuse.rclone",
    "fuse.s3fs",
    "mountpoint-s3",
    "s3fs",
];

/// Names of a run's own directories begin with this.
const PREFIX: &str = ".weir-bench-";

/// Room that stays free beside what a suite needs: a tenth of that, and this much.
const MARGIN_BYTES: u64 = 64 << 20;

/// A directory to be measured.
#[derive(Clone, Debug)]
pub struct Target {
    /// What is known of it.
    pub facts: TargetFacts,
    /// Where its file system is mounted.
    pub mountpoint: PathBuf,
}

/// What keeps the files of a target.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Keeper {
    /// Weir: segments in a bucket.
    Weir,
    /// Another file system that makes objects of files.
    Objects,
    /// Something that is not paid by the request, a volume of Weir in a directory among it.
    Other,
}

impl Keeper {
    /// What keeps the files of the target of these facts.
    pub fn of(facts: &TargetFacts) -> Self {
        let TargetFacts { is_weir, file_system, source, .. } = facts;
        let is_named = |name: &str| file_system == name || source == name;
        match *is_weir {
            true if source.starts_with("file:") => Self::Other,
            true => Self::Weir,
            false if OBJECT_STORES.iter().any(|name| is_named(name)) => Self::Objects,
            false => Self::Other,
        }
    }
}

impl Target {
    /// Looks at a directory, and whether files can be made in it.
    ///
    /// # Errors
    /// When it is no directory that can be written.
    pub fn at(path: &Path) -> Result<Self, BenchError> {
        let shown = path.display();
        let real = fs::canonicalize(path).map_err(|error| BenchError::io(&shown, error))?;
        if !real.is_dir() {
            return Err(BenchError::Unsuitable(format!("{shown} is not a directory")));
        }
        RunDir::within(&real)?.remove()?;
        let mount = mounts::holding(&real)?;
        let facts = TargetFacts {
            name: name(path),
            bytes: room(&real)?,
            is_weir: mount.file_system == WEIR,
            file_system: mount.file_system,
            source: mount.source,
            options: mount.options,
            drops_caches: cache::can_drop(),
            path: real,
        };
        Ok(Self { facts, mountpoint: mount.mountpoint })
    }

    /// Whether what a suite needs fits into what is free now.
    ///
    /// # Errors
    /// When it does not, with both numbers.
    pub fn check_room(&self, demand: &Demand) -> Result<(), BenchError> {
        let (_, free_bytes) = room(&self.facts.path)?;
        let needed_bytes = with_margin(demand.space_bytes);
        if needed_bytes <= free_bytes {
            return Ok(());
        }
        Err(BenchError::Unsuitable(format!(
            "{}: {} are free, {} are needed; fewer copies need less",
            self.facts.name,
            Bytes(free_bytes),
            Bytes(needed_bytes)
        )))
    }
}

fn with_margin(bytes: u64) -> u64 {
    match bytes {
        0 => 0,
        _ => bytes.saturating_add(bytes / 10).saturating_add(MARGIN_BYTES),
    }
}

/// What people call it: the path as they wrote it, without a slash at its end.
fn name(path: &Path) -> String {
    path.components().collect::<PathBuf>().display().to_string()
}

/// Bytes of the file system, and those that may still be used.
fn room(path: &Path) -> Result<(u64, u64), BenchError> {
    let told =
        rustix::fs::statvfs(path).map_err(|error| BenchError::io(path.display(), error.into()))?;
    let bytes = |blocks: u64| blocks.saturating_mul(told.f_frsize);
    Ok((bytes(told.f_blocks), bytes(told.f_bavail)))
}

/// A directory of a run's own in a target, removed with all that is in it.
#[derive(Debug)]
pub struct RunDir(TempDir);

impl RunDir {
    /// Makes one in `directory`.
    ///
    /// # Errors
    /// When nothing can be made there.
    pub fn within(directory: &Path) -> Result<Self, BenchError> {
        let made = tempfile::Builder::new().prefix(PREFIX).tempdir_in(directory);
        made.map(Self).map_err(|error| {
            BenchError::io(format_args!("make a directory in {}", directory.display()), error)
        })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        self.0.path()
    }

    /// Removes it. When this is not called, dropping it does the same, but cannot tell.
    ///
    /// # Errors
    /// When something stays.
    pub fn remove(self) -> Result<(), BenchError> {
        let path = self.path().to_owned();
        self.0
            .close()
            .map_err(|error| BenchError::io(format_args!("remove {}", path.display()), error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_is_looked_at_and_left_as_it_was() {
        let dir = tempfile::tempdir().expect("a directory");
        let target = Target::at(dir.path()).expect("a target");
        assert!(target.facts.path.starts_with(&target.mountpoint));
        assert!(!target.facts.file_system.is_empty() && !target.facts.options.is_empty());
        assert!(target.facts.bytes.0 >= target.facts.bytes.1, "{:?}", target.facts);
        assert!(!target.facts.is_weir);
        assert_eq!(fs::read_dir(dir.path()).expect("reads").count(), 0);
    }

    #[test]
    fn what_cannot_be_written_is_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("file");
        fs::write(&file, "x").expect("writes");
        for (path, reason) in [(file, "not a directory"), (dir.path().join("none"), "No such")] {
            let error = Target::at(&path).expect_err(reason).to_string();
            assert!(error.contains(reason), "{error}");
        }
        let error = Target::at(Path::new("/proc")).expect_err("refused").to_string();
        assert!(error.contains("make a directory in /proc"), "{error}");
    }

    #[test]
    fn room_is_checked_with_a_margin() {
        assert_eq!(with_margin(0), 0);
        assert_eq!(with_margin(1000 << 20), (1000 + 100 + 64) << 20);
        let dir = tempfile::tempdir().expect("a directory");
        let target = Target::at(dir.path()).expect("a target");
        let demand = |space_bytes| Demand { space_bytes, ..Demand::default() };
        target.check_room(&demand(0)).expect("nothing fits everywhere");
        let error = target.check_room(&demand(u64::MAX)).expect_err("too much").to_string();
        assert!(error.contains("are needed"), "{error}");
    }

    #[test]
    fn buckets_are_known_by_their_mounts() {
        for (file_system, source, keeper) in [
            ("fuse.weir", "s3://b/v", Keeper::Weir),
            ("fuse.weir", "file:///srv/weir", Keeper::Other),
            ("fuse", "mountpoint-s3", Keeper::Objects),
            ("fuse.s3fs", "s3fs", Keeper::Objects),
            ("ext4", "/dev/vda1", Keeper::Other),
            ("nfs4", "fs-1.efs.us-east-1.amazonaws.com:/", Keeper::Other),
        ] {
            let facts = TargetFacts {
                is_weir: file_system == WEIR,
                file_system: file_system.to_owned(),
                source: source.to_owned(),
                ..TargetFacts::default()
            };
            assert_eq!(Keeper::of(&facts), keeper, "{file_system}");
        }
    }

    #[test]
    fn a_run_takes_its_directory_with_it() {
        let dir = tempfile::tempdir().expect("a directory");
        for told in [true, false] {
            let run = RunDir::within(dir.path()).expect("a run's directory");
            fs::create_dir(run.path().join("below")).expect("makes");
            fs::write(run.path().join("below/file"), "x").expect("writes");
            match told {
                true => run.remove().expect("removed"),
                false => drop(run),
            }
            assert_eq!(fs::read_dir(dir.path()).expect("reads").count(), 0);
        }
    }
}
