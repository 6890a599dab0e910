//! What was set aside: data that must not be flushed, kept until somebody settles what becomes of it.
//!
//! Each entry is a directory `aside/<label>/` with a [`Manifest`] that says what it is, made durable
//! before anything is moved there. So nothing is ever in `aside/` that a list of it does not show,
//! and a move that a crash cut off is finished when the tier is opened next.

mod manifest;

#[cfg(test)]
mod tests;

use std::fs::{self, Permissions};
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::Path;
use std::sync::Arc;

use weir_types::{FsError, Ino, Result};

use crate::disk;
use crate::mirror::Mirror;
use crate::recover::SetAside;
use crate::tier::Tier;

pub use manifest::{Cause, Kept, Manifest, Merging, Remade, Why, sync_directory};

/// Directory of a tier or log in which entries are.
pub const ASIDE: &str = "aside";

/// Makes a directory that only its owner may look into, and those above it.
pub fn make_private(directory: &Path) -> Result<()> {
    let at = |e| FsError::local_io(format!("make {}", directory.display()), e);
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(at)?;
    fs::set_permissions(directory, Permissions::from_mode(0o700)).map_err(at)
}

impl Tier {
    /// Moves all that is dirty out of the tier as entry `label`: it must not be flushed, and is kept
    /// until somebody settles it. Clean pages stay. An entry that is there already gets more.
    pub fn set_aside(&self, label: &str, cause: &Cause) -> Result<SetAside> {
        let all: Vec<_> = self.unflushed().into_iter().chain(self.in_doubt()).collect();
        self.set_aside_these(&all, label, cause)
    }

    /// The same with what is in doubt only.
    pub fn set_doubtful_aside(&self, label: &str, cause: &Cause) -> Result<SetAside> {
        let mirrors = self.in_doubt();
        // Whoever goes on with this recovery after a crash must know of them.
        self.remember_lost(&mirrors)?;
        self.set_aside_these(&mirrors, label, cause)
    }

    /// The same with some mirrors only. Nobody may write them meanwhile, and whoever has them finds
    /// them gone afterwards.
    pub fn set_aside_these(
        &self,
        mirrors: &[Arc<Mirror>],
        label: &str,
        cause: &Cause,
    ) -> Result<SetAside> {
        let directory = self.options.directory.join(ASIDE).join(label);
        let mut aside = SetAside {
            label: label.to_owned(),
            directory: directory.clone(),
            ..Default::default()
        };
        if mirrors.is_empty() && cause.log.is_none() {
            return Ok(aside);
        }
        let mut manifest = match Manifest::read(&directory)? {
            Some(manifest) => Manifest { complete: false, ..manifest },
            None => Manifest::new(cause.clone()),
        };
        if cause.log.is_some() {
            manifest.cause.log.clone_from(&cause.log);
        }
        // The worse of what is known of its parts.
        manifest.cause.commits_hold &= cause.commits_hold;
        for mirror in mirrors {
            let kept = manifest.kept(mirror);
            aside.files += 1;
            aside.dirty_bytes += kept.bytes();
            manifest.files.push(kept);
        }
        make_private(&directory)?;
        sync_directory(&self.options.directory.join(ASIDE))?;
        sync_directory(&self.options.directory)?;
        manifest.write(&directory)?;
        fail::fail_point!("tier::aside-listed");
        self.move_aside(&directory, manifest)?;
        Ok(aside)
    }

    /// Moves the files that the manifest lists and that are not there yet.
    fn move_aside(&self, directory: &Path, mut manifest: Manifest) -> Result<()> {
        let wanted = manifest.files.iter().filter(|kept| !kept.moved);
        for kept in wanted {
            self.move_file(&directory.join(&kept.file), kept.ino)?;
            fail::fail_point!("tier::aside-moved");
        }
        self.shared.log.sync()?;
        sync_directory(directory)?;
        manifest.files.iter_mut().for_each(|kept| kept.moved = true);
        manifest.complete = true;
        manifest.write(directory)
    }

    fn move_file(&self, to: &Path, ino: Ino) -> Result<()> {
        let Some(mirror) = self.find(ino) else { return Ok(()) };
        let from = mirror.path();
        let at =
            |e| FsError::local_io(format!("set aside {} as {}", from.display(), to.display()), e);
        if !to.exists() && from.exists() {
            let synced = disk::open_read(&from).and_then(|file| disk::sync_all(&file));
            if let Err(error) = synced {
                tracing::warn!(%ino, %error, "what is set aside may not be on the disk");
            }
            fs::set_permissions(&from, Permissions::from_mode(0o600)).map_err(at)?;
            disk::rename(&from, to).map_err(at)?;
        }
        self.remove(ino)
    }

    /// Finishes what a crash cut off, and removes what it left empty. Before anybody uses a mirror.
    pub(crate) fn finish_set_aside(&self) -> Result<()> {
        let all = self.options.directory.join(ASIDE);
        for entry in fs::read_dir(&all).into_iter().flatten().flatten() {
            let directory = entry.path();
            match Manifest::read(&directory) {
                Ok(Some(manifest)) if !manifest.complete => {
                    self.move_aside(&directory, manifest)?
                }
                Ok(Some(_)) => {}
                // It stays as it is, and is listed as that.
                Err(error) => tracing::error!(%error, "what was set aside cannot be read"),
                Ok(None) => {
                    let _ = fs::remove_file(directory.join(manifest::NEW));
                    // Without a manifest and not empty it is one of an earlier build.
                    let _ = fs::remove_dir(&directory);
                }
            }
        }
        Ok(())
    }
}
