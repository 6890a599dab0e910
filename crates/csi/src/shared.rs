//! Weir volumes as they are mounted on this machine: each once for writing and once for reading only,
//! however many Kubernetes volumes are directories of it.
//!
//! Nothing is remembered: what is mounted, the kernel's table says, and who is at work, locks of
//! files do, which end with their process. So the driver may be killed at any time and started again,
//! and two of its processes (a controller and a node's) may share the directory of state.

use std::fs::{self, File};
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::bind::{alive, detach, make_directory};
use crate::fault::{Fault, Result, Tried};
use crate::source::{Source, digest};
use crate::table::{Mount, Table};
use crate::weir::{Keys, Place, Weir};

/// All volumes of this machine.
#[derive(Clone, Debug)]
pub(crate) struct MountedVolumes {
    pub(crate) weir: Weir,
    /// A directory for each volume.
    pub(crate) state: PathBuf,
    pub(crate) tier: PathBuf,
    /// Whether a volume may be a directory of this machine.
    pub(crate) files_too: bool,
}

/// How a volume was mounted: whoever joins must have the same keys and mean the same server.
#[derive(PartialEq, Eq, Serialize, Deserialize)]
struct Record {
    url: String,
    connection: String,
}

impl MountedVolumes {
    /// Lends the root of a volume to somebody's work, mounted if it is not. Nobody unmounts it in
    /// between; afterwards it is unmounted, unless it is in use.
    pub(crate) fn with<T>(
        &self,
        source: &Source,
        keys: &Keys,
        read_only: bool,
        work: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        if source.url.starts_with("file:") && !self.files_too {
            let text =
                "a directory of a node is no volume for a cluster; --file-urls allows it for tests";
            return Err(Fault::invalid(format!("{}: {text}", source.url)));
        }
        let place = self.state.join(key(&source.url, read_only));
        fs::create_dir_all(&place).tried(|| format!("make {}", place.display()))?;
        make_directory(&place.join("mnt"))?;
        let at_work = {
            let _alone = locked(&place)?;
            self.ensure(&place, source, keys, read_only)?;
            let at_work = open_lock(&place.join("at-work"))?;
            at_work.lock_shared().tried(|| "say that somebody is at work".to_owned())?;
            at_work
        };
        let done = work(&place.join("mnt"));
        drop(at_work);
        let released = self.release(&place);
        let done = done?;
        released.map(|()| done)
    }

    /// As [`MountedVolumes::with`], for a look: by the mount for writing where there is one.
    pub(crate) fn look<T>(
        &self,
        source: &Source,
        keys: &Keys,
        work: impl FnOnce(&Path) -> Result<T>,
    ) -> Result<T> {
        let writer = self.state.join(key(&source.url, false)).join("mnt");
        let written_here = Table::read()?.at(&writer).is_some();
        self.with(source, keys, !written_here, work)
    }

    /// Unmounts a volume that nobody uses, when all of it is in the bucket.
    pub(crate) fn release(&self, place: &Path) -> Result<()> {
        let _alone = locked(place)?;
        let at = place.join("mnt");
        let table = Table::read()?;
        let Some(mount) = table.at(&at) else {
            return Ok(());
        };
        let others = table.of_device(&mount.device).filter(|other| other.at != at).count();
        let at_work = open_lock(&place.join("at-work"))?;
        if others > 0 || at_work.try_lock().is_err() {
            return Ok(());
        }
        match alive(&at) {
            true => self.weir.umount(&at),
            false => detach(&at),
        }
    }

    /// Unmounts all volumes that nobody uses: what a call that was cut off has left.
    pub(crate) fn release_idle(&self) -> Result<()> {
        let Ok(entries) = fs::read_dir(&self.state) else {
            return Ok(()); // nothing was mounted yet
        };
        for entry in entries.filter_map(std::result::Result::ok) {
            self.release(&entry.path())?;
        }
        Ok(())
    }

    /// The place of the volume that a mount is of.
    pub(crate) fn place_of(&self, mount: &Mount, table: &Table) -> Option<PathBuf> {
        let mut mounts = table.of_device(&mount.device);
        let shared = mounts.find(|m| m.at.ends_with("mnt") && m.at.starts_with(&self.state))?;
        shared.at.parent().map(Path::to_owned)
    }

    fn ensure(&self, place: &Path, source: &Source, keys: &Keys, read_only: bool) -> Result<()> {
        let at = place.join("mnt");
        let wanted = Record { url: source.url.clone(), connection: connection(source, keys) };
        let table = Table::read()?;
        if let Some(mount) = table.at(&at) {
            if alive(&at) {
                return joined(place, &wanted);
            }
            tracing::warn!(
                url = source.url,
                device = mount.device,
                "its daemon is gone: mounting it anew"
            );
            detach(&at)?;
        }
        // Each mount of a volume has a tier of its own.
        let tier = self.tier.join(if read_only { "read-only" } else { "read-write" });
        let text = serde_json::to_vec(&wanted).tried(|| "encode a record".to_owned())?;
        fs::write(place.join("mount.json"), text)
            .tried(|| format!("write {}", place.join("mount.json").display()))?;
        let log = place.join("weir.log");
        self.weir.mount(source, keys, &Place { at: &at, tier: &tier, log: &log, read_only })?;
        if Table::read()?.at(&at).is_none() {
            let text = "is mounted where this container does not see it: mountPropagation of the directory must be Bidirectional";
            return Err(Fault::refused(format!("{} {text}", at.display())));
        }
        tracing::info!(url = source.url, read_only, "mounted");
        Ok(())
    }
}

/// Whether who comes second has the keys of the first: the data is shared with nobody who could not
/// have mounted it.
fn joined(place: &Path, wanted: &Record) -> Result<()> {
    let text = fs::read(place.join("mount.json")).unwrap_or_default();
    match serde_json::from_slice::<Record>(&text) {
        Ok(record) if record == *wanted => Ok(()),
        _ => Err(Fault::refused(format!(
            "{} is mounted on this node with other keys or from another server: use those, or end \
             all pods here that use it first",
            wanted.url
        ))),
    }
}

/// What a mount is reached by. Keys are in it as a digest only.
fn connection(source: &Source, keys: &Keys) -> String {
    let text = |value: &Option<String>| value.clone().unwrap_or_default();
    let (endpoint, region) = (text(&source.endpoint), text(&source.region));
    digest(&[endpoint.as_bytes(), region.as_bytes(), keys.digest().as_bytes()])
}

/// Names the directory of a volume.
fn key(url: &str, read_only: bool) -> String {
    let kind = if read_only { "ro" } else { "rw" };
    format!("{}-{kind}", digest(&[url.trim_end_matches('/').as_bytes()]))
}

fn open_lock(path: &Path) -> Result<File> {
    let mut options = File::options();
    options.create(true).truncate(false).write(true);
    options.open(path).tried(|| format!("open {}", path.display()))
}

/// Waits until nobody else mounts or unmounts a volume.
fn locked(place: &Path) -> Result<impl AsFd + use<>> {
    let file = open_lock(&place.join("lock"))?;
    file.lock().tried(|| format!("lock {}", place.display()))?;
    Ok(file)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_than_who_mounted_it_do_not_join() {
        let dir = tempfile::tempdir().unwrap();
        let source = Source { url: "s3://b/v".into(), ..Source::default() };
        let record = |source: &Source, secret: &str| {
            let secrets = [("AWS_ACCESS_KEY_ID", "id"), ("AWS_SECRET_ACCESS_KEY", secret)];
            let secrets = secrets.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
            let keys = Keys::from_secrets(&secrets).unwrap();
            Record { url: source.url.clone(), connection: connection(source, &keys) }
        };
        let first = record(&source, "one");
        fs::write(dir.path().join("mount.json"), serde_json::to_vec(&first).unwrap()).unwrap();
        joined(dir.path(), &first).unwrap();
        let elsewhere = Source { endpoint: Some("http://h:1".into()), ..source.clone() };
        for other in [record(&source, "two"), record(&elsewhere, "one")] {
            let fault = joined(dir.path(), &other).unwrap_err();
            assert_eq!(fault.code(), tonic::Code::FailedPrecondition);
        }
    }
}
