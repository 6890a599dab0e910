//! Directories of a Weir volume that were made for Kubernetes volumes.
//!
//! Of each there is a record beside it, `.weir-csi/NAME.json`, written before the directory is made
//! and removed after it is: what has no record was made by somebody else, and is not removed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::fd::OwnedFd;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use rustix::io::Errno;
use serde::{Deserialize, Serialize};

use crate::bind::{open_below, path_of};
use crate::fault::{Fault, Result, Tried};

const RECORDS: &str = ".weir-csi";

/// What is known of a directory.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Record {
    /// The name that was asked for.
    pub(crate) name: String,
    /// The size that was asked for, in bytes; 0 if none was.
    pub(crate) capacity_bytes: i64,
    /// Whether it ends with its pod.
    pub(crate) ephemeral: bool,
}

/// Makes a directory, and says what it was made for. If it is there, it says what for it was made
/// then.
pub(crate) fn make(root: &Path, directory: &str, record: &Record, mode: u32) -> Result<Record> {
    let (base, name) = split(directory);
    let base = make_all(root, base)?;
    let records = make_all(&path_of(&base), RECORDS)?;
    let found = read(&records, name)?;
    if found.is_none() {
        if path_of(&base).join(name).symlink_metadata().is_ok() {
            let text = format!("{directory} is in the volume, and was not made by this driver");
            return Err(Fault::exists(text));
        }
        write(&records, name, record)?;
    }
    let path = path_of(&base).join(name);
    match fs::create_dir(&path) {
        Ok(()) => fs::set_permissions(&path, fs::Permissions::from_mode(mode))
            .tried(|| format!("set the mode of {directory}"))?,
        Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
        Err(e) => return Err(Fault::internal(format!("make {directory}: {e}"))),
    }
    Ok(found.unwrap_or_else(|| record.clone()))
}

/// What a directory was made for, if this driver made it.
pub(crate) fn record_of(root: &Path, directory: &str) -> Result<Option<Record>> {
    let (base, name) = split(directory);
    let records = Path::new(base).join(RECORDS);
    match open_below(root, &records.to_string_lossy()) {
        Ok(records) => read(&records, name),
        Err(Errno::NOENT) => Ok(None),
        Err(e) => Err(Fault::internal(format!("open the records beside {directory}: {e}"))),
    }
}

/// Removes a directory that was made here. Where there is neither it nor a record of it, it was
/// removed before.
pub(crate) fn remove(root: &Path, directory: &str) -> Result<()> {
    let (base, name) = split(directory);
    let there = match open_below(root, base) {
        Ok(base) => base,
        Err(Errno::NOENT) => return Ok(()),
        Err(e) => return Err(Fault::internal(format!("open {base}: {e}"))),
    };
    let path = path_of(&there).join(name);
    if record_of(root, directory)?.is_none() {
        return match path.symlink_metadata() {
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
            _ => Err(Fault::refused(format!(
                "{directory} was not made by this driver: remove it by hand, if it is to go"
            ))),
        };
    }
    gone(fs::remove_dir_all(&path)).tried(|| format!("remove {directory}"))?;
    let records = open_below(root, &Path::new(base).join(RECORDS).to_string_lossy())
        .tried(|| format!("open the records beside {directory}"))?;
    gone(fs::remove_file(path_of(&records).join(file_name(name))))
        .tried(|| format!("remove the record of {directory}"))
}

/// Its parent and its name.
fn split(directory: &str) -> (&str, &str) {
    let directory = directory.trim_matches('/');
    directory.rsplit_once('/').unwrap_or(("", directory))
}

fn file_name(name: &str) -> String {
    format!("{name}.json")
}

fn make_all(root: &Path, directory: &str) -> Result<OwnedFd> {
    let mut at = open_below(root, "").tried(|| format!("open {}", root.display()))?;
    for part in directory.split('/').filter(|part| !part.is_empty()) {
        match fs::create_dir(path_of(&at).join(part)) {
            Err(e) if e.kind() != io::ErrorKind::AlreadyExists => {
                return Err(Fault::internal(format!("make {part} of {directory}: {e}")));
            }
            _ => {}
        }
        at = open_below(&path_of(&at), part).tried(|| format!("open {part} of {directory}"))?;
    }
    Ok(at)
}

fn read(records: &OwnedFd, name: &str) -> Result<Option<Record>> {
    let path = path_of(records).join(file_name(name));
    match path.symlink_metadata() {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(None),
        Ok(data) if data.is_file() => {}
        _ => return Err(Fault::internal(format!("the record of {name} is no file"))),
    }
    let text = fs::read(&path).tried(|| format!("read the record of {name}"))?;
    serde_json::from_slice(&text).map(Some).tried(|| format!("read the record of {name}"))
}

/// Whole or not at all, and durable.
fn write(records: &OwnedFd, name: &str, record: &Record) -> Result<()> {
    let path = path_of(records);
    let temporary = path.join(format!("{name}.new"));
    let write = || -> io::Result<()> {
        gone(fs::remove_file(&temporary))?;
        let mut file = File::create_new(&temporary)?;
        file.write_all(&serde_json::to_vec(record)?)?;
        file.sync_all()?;
        fs::rename(&temporary, path.join(file_name(name)))?;
        File::open(&path)?.sync_all()
    };
    write().tried(|| format!("write the record of {name}"))
}

/// What is gone already is as good as removed.
fn gone(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tonic::Code;

    fn record(name: &str) -> Record {
        Record { name: name.into(), capacity_bytes: 7, ephemeral: false }
    }

    #[test]
    fn made_twice_is_made_once_and_removed_twice_is_gone() {
        let root = tempfile::tempdir().unwrap();
        let made = make(root.path(), "a/b/one", &record("one"), 0o2770).unwrap();
        let other = Record { capacity_bytes: 9, ..record("one") };
        assert_eq!(make(root.path(), "a/b/one", &other, 0o700).unwrap(), made);
        let path = root.path().join("a/b/one");
        assert_eq!(path.metadata().unwrap().permissions().mode() & 0o7777, 0o2770);
        fs::write(path.join("file"), "x").unwrap();
        remove(root.path(), "a/b/one").unwrap();
        assert!(!path.exists() && record_of(root.path(), "a/b/one").unwrap().is_none());
        remove(root.path(), "a/b/one").unwrap();
        remove(root.path(), "nowhere/one").unwrap();
    }

    #[test]
    fn a_crash_in_between_is_made_up_for() {
        let root = tempfile::tempdir().unwrap();
        make(root.path(), "one", &record("one"), 0o777).unwrap();
        fs::remove_dir(root.path().join("one")).unwrap(); // the record alone
        make(root.path(), "one", &record("one"), 0o777).unwrap();
        assert!(root.path().join("one").is_dir());
        fs::remove_dir(root.path().join("one")).unwrap();
        remove(root.path(), "one").unwrap();
        assert!(record_of(root.path(), "one").unwrap().is_none());
    }

    #[test]
    fn what_others_made_is_neither_taken_nor_removed() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir_all(root.path().join("a/one")).unwrap();
        let fault = make(root.path(), "a/one", &record("one"), 0o777).unwrap_err();
        assert_eq!(fault.code(), Code::AlreadyExists);
        assert_eq!(remove(root.path(), "a/one").unwrap_err().code(), Code::FailedPrecondition);
        assert!(root.path().join("a/one").is_dir());
    }

    #[test]
    fn no_link_leads_out_of_the_volume() {
        let (root, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        fs::create_dir(outside.path().join("one")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("out")).unwrap();
        make(root.path(), "out/two", &record("two"), 0o777).unwrap_err();
        std::os::unix::fs::symlink(outside.path(), root.path().join(RECORDS)).unwrap();
        make(root.path(), "two", &record("two"), 0o777).unwrap_err();
        remove(root.path(), "out/one").unwrap_err();
        let left: Vec<_> = fs::read_dir(outside.path()).unwrap().collect();
        assert_eq!(left.len(), 1);
        assert!(outside.path().join("one").is_dir());
    }
}
