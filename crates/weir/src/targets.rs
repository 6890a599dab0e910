//! Files and directories that somebody names on a command line, and the mounts in which they lie.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::{DirEntryExt, MetadataExt};
use std::path::{Path, PathBuf};

use weir_engine::Root;
use weir_types::{ErrorKind, FsError, Ino, Result};

use crate::client::Client;

/// A file or directory that was named.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// The path as it was written.
    pub(crate) asked: PathBuf,
    /// The path without symlinks.
    pub(crate) real: PathBuf,
    pub(crate) ino: u64,
    pub(crate) is_file: bool,
    pub(crate) is_dir: bool,
}

/// A mount, and what was named in it.
#[derive(Debug)]
pub(crate) struct Mounted {
    pub(crate) client: Client,
    pub(crate) mountpoint: PathBuf,
    pub(crate) targets: Vec<Target>,
}

impl Mounted {
    /// The targets as an action takes them.
    pub(crate) fn roots(&self) -> Vec<Root> {
        let root = |target: &Target| Root {
            ino: Ino(target.ino),
            path: below(&self.mountpoint, &target.real),
        };
        self.targets.iter().map(root).collect()
    }
}

/// Finds mounts; asks for each but once.
#[derive(Debug, Default)]
pub(crate) struct Finder {
    pub(crate) mounts: Vec<Mounted>,
    by_device: HashMap<u64, usize>,
}

impl Finder {
    /// Looks where `path` lies; answers the mount by its place in `mounts`, but does not add the
    /// target to it.
    pub(crate) fn locate(&mut self, path: &Path) -> Result<(usize, Target)> {
        let at = |error| {
            weir_door_fuse::dead_mount(path)
                .unwrap_or_else(|| FsError::local_io(path.display(), error))
        };
        let real = fs::canonicalize(path).map_err(at)?;
        let metadata = fs::metadata(&real).map_err(at)?;
        let mount = match self.by_device.get(&metadata.dev()) {
            Some(mount) => *mount,
            None => {
                let (client, mountpoint) = Client::holding(&real)?;
                let mountpoint = mountpoint.to_owned();
                self.mounts.push(Mounted { client, mountpoint, targets: Vec::new() });
                self.by_device.insert(metadata.dev(), self.mounts.len() - 1);
                self.mounts.len() - 1
            }
        };
        let (is_file, is_dir) = (metadata.is_file(), metadata.is_dir());
        let target = Target { asked: path.to_owned(), real, ino: metadata.ino(), is_file, is_dir };
        Ok((mount, target))
    }
}

/// All paths, by mount. Fails at the first that lies in none, and, unless `recursive`, at the first
/// directory.
pub(crate) fn find(paths: &[PathBuf], recursive: bool) -> Result<Vec<Mounted>> {
    let mut finder = Finder::default();
    for path in paths {
        let (mount, target) = finder.locate(path)?;
        if target.is_dir && !recursive {
            let text = format!("{} is a directory: -r takes all files below it", path.display());
            return Err(FsError::new(ErrorKind::IsDirectory, text));
        }
        finder.mounts[mount].targets.push(target);
    }
    Ok(finder.mounts)
}

/// `path` as seen from the mount point, for people; the mount point itself is `.`.
pub(crate) fn below(mountpoint: &Path, path: &Path) -> String {
    let inner = path.strip_prefix(mountpoint).unwrap_or(path);
    match inner.as_os_str().is_empty() {
        true => ".".to_owned(),
        false => inner.to_string_lossy().into_owned(),
    }
}

/// The reverse of [`below`].
pub(crate) fn above(mountpoint: &Path, inner: &str) -> PathBuf {
    match inner.trim_start_matches('/') {
        "" | "." => mountpoint.to_owned(),
        inner => mountpoint.join(inner),
    }
}

/// Tells of each regular file at and below `path`, in the order of their names. One `stat` for each
/// directory, none for files. Other file systems that are mounted below are passed over, and so is
/// what is removed meanwhile.
pub(crate) fn files_below(
    path: &Path,
    tell: &mut impl FnMut(PathBuf, u64) -> Result<()>,
) -> Result<()> {
    let metadata = fs::symlink_metadata(path).map_err(|e| FsError::local_io(path.display(), e))?;
    if metadata.is_file() {
        return tell(path.to_owned(), metadata.ino());
    }
    match metadata.is_dir() {
        true => files_in(path, metadata.dev(), tell),
        false => Ok(()),
    }
}

fn files_in(
    directory: &Path,
    device: u64,
    tell: &mut impl FnMut(PathBuf, u64) -> Result<()>,
) -> Result<()> {
    let at = |error| FsError::local_io(directory.display(), error);
    let listed = match fs::read_dir(directory) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        listed => listed.map_err(at)?,
    };
    let mut entries = listed.collect::<std::io::Result<Vec<_>>>().map_err(at)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (path, kind) = (entry.path(), entry.file_type().map_err(at)?);
        if kind.is_file() {
            tell(path, entry.ino())?;
        } else if kind.is_dir() && fs::symlink_metadata(&path).is_ok_and(|m| m.dev() == device) {
            files_in(&path, device, tell)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_go_below_a_mount_point_and_back() {
        let mountpoint = Path::new("/mnt/v");
        for (path, inner) in [("/mnt/v", "."), ("/mnt/v/a/b", "a/b")] {
            assert_eq!(below(mountpoint, Path::new(path)), inner);
            assert_eq!(above(mountpoint, inner), Path::new(path));
        }
        assert_eq!(above(mountpoint, "/a"), Path::new("/mnt/v/a"));
    }

    #[test]
    fn files_are_found_in_order_and_symlinks_are_not_followed() {
        let dir = tempfile::tempdir().expect("dir");
        let root = dir.path();
        fs::create_dir_all(root.join("b/c")).expect("mkdir");
        for name in ["z", "a", "b/2", "b/c/1"] {
            fs::write(root.join(name), name).expect("write");
        }
        std::os::unix::fs::symlink(root, root.join("b/loop")).expect("symlink");
        let mut found = Vec::new();
        files_below(root, &mut |path, ino| {
            assert_eq!(ino, fs::metadata(&path).expect("there").ino());
            found.push(below(root, &path));
            Ok(())
        })
        .expect("walked");
        assert_eq!(found, ["a", "b/2", "b/c/1", "z"]);
    }

    #[test]
    fn what_lies_in_no_mount_is_refused() {
        let dir = tempfile::tempdir().expect("dir");
        let error = find(&[dir.path().to_owned()], true).expect_err("not mounted");
        assert!(error.to_string().contains("no volume is mounted"), "{error}");
    }
}
