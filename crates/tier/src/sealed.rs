//! Directories that their disk shows to nobody: the kernel encrypts what is below them (fscrypt), by a key that is
//! given when they are opened.
//!
//! What programs read and write there is as ever, the page cache and passthrough too; what lies on the disk is
//! AES-256-XTS, its names AES-256-CBC-CTS. The structures, numbers and errors are those of the kernel's
//! `Documentation/filesystems/fscrypt.rst` (policies of version 2, from Linux 5.4 on).

mod fscrypt;

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use weir_types::{ErrorKind, FsError, Result};

use crate::locked::lock_file;
use crate::private;
use fscrypt::{Forgotten, KeyName, add_key, policy, remove_key, set_policy};

/// How often it is looked whether the last of the files was closed, and for how long.
const LOOK: Duration = Duration::from_millis(20);
const LOOKS: u32 = 100;

/// How a directory lies on its disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sealing {
    /// It is not there, or nothing is in it.
    Nothing,
    /// What is in it is on the disk as it is.
    Clear,
    /// It is encrypted.
    Sealed,
}

/// An encrypted directory that can be used. When this goes the kernel forgets the key; it waits two seconds for files that
/// somebody has open there.
#[derive(Debug)]
pub struct SealedDirectory {
    directory: PathBuf,
    /// Open outside of what is encrypted.
    parent: File,
    name: KeyName,
    /// Beside the directory, whose own lock cannot be opened without the key: who is refused there must not take
    /// the key from who uses it.
    _lock: File,
}

/// How a directory lies on its disk.
pub fn sealing(directory: &Path) -> Result<Sealing> {
    let failed = |error| FsError::local_io(format!("look at {}", directory.display()), error);
    let open = match File::open(directory) {
        Ok(open) => open,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(Sealing::Nothing),
        Err(e) => return Err(failed(e)),
    };
    if policy(&open).map_err(failed)?.is_some() {
        return Ok(Sealing::Sealed);
    }
    match fs::read_dir(directory).map_err(failed)?.next().is_none() {
        true => Ok(Sealing::Nothing),
        false => Ok(Sealing::Clear),
    }
}

impl SealedDirectory {
    /// Makes an encrypted directory, by the key for the number of its inode.
    ///
    /// # Errors
    /// `Unsupported` where its file system does not encrypt, with what to do.
    pub fn make<K: AsRef<[u8]>>(
        what: &str,
        directory: &Path,
        key: impl FnOnce(u64) -> K,
    ) -> Result<Self> {
        private::make_directory(directory)?;
        let lock = lock_beside(directory)?;
        let (parent, open, number) = open(directory)?;
        let unfit = |error| unfit(what, directory, error);
        let name = add_key(&parent, key(number).as_ref()).map_err(unfit)?;
        let made = Self { directory: directory.to_owned(), parent, name, _lock: lock };
        set_policy(&open, name).map_err(unfit)?;
        Ok(made)
    }

    /// Opens one, by that of the keys for the number of its inode that it was made with.
    ///
    /// # Errors
    /// `Permission` where none is it.
    pub fn open<K: AsRef<[u8]>>(
        what: &str,
        directory: &Path,
        keys: impl FnOnce(u64) -> Vec<K>,
    ) -> Result<Self> {
        let lock = lock_beside(directory)?;
        let (parent, open, number) = open(directory)?;
        let unfit = |error| unfit(what, directory, error);
        let wanted = policy(&open).map_err(unfit)?;
        for key in keys(number) {
            let name = add_key(&parent, key.as_ref()).map_err(unfit)?;
            if Some(name) == wanted {
                return Ok(Self { directory: directory.to_owned(), parent, name, _lock: lock });
            }
            let _ = remove_key(&parent, name);
        }
        let text = format!(
            "{what} {} is encrypted, and no key of this volume opens it: it is that of another \
             volume, or was copied. Name another directory, or remove it",
            directory.display()
        );
        Err(FsError::new(ErrorKind::Permission, text))
    }
}

impl Drop for SealedDirectory {
    fn drop(&mut self) {
        let directory = self.directory.display();
        for _ in 0..LOOKS {
            match remove_key(&self.parent, self.name) {
                Ok(Forgotten::All) => return,
                Ok(Forgotten::NotFilesInUse) => std::thread::park_timeout(LOOK),
                // Somebody else had it forgotten.
                Err(error) if error.raw_os_error() == Some(libc::ENOKEY) => return,
                Err(error) => {
                    tracing::warn!(%error, %directory, "the kernel goes on knowing the key of an encrypted directory");
                    return;
                }
            }
        }
        tracing::warn!(%directory, "files of an encrypted directory are in use: the kernel shows them until they are closed");
    }
}

fn lock_beside(directory: &Path) -> Result<File> {
    let mut path = directory.as_os_str().to_owned();
    path.push(".lock");
    lock_file(Path::new(&path), directory)
}

/// A directory's parent, itself, and the number of its inode.
fn open(directory: &Path) -> Result<(File, File, u64)> {
    let of = |path: &Path| {
        File::open(path).map_err(|e| FsError::local_io(format!("open {}", path.display()), e))
    };
    let parent = of(directory.parent().unwrap_or(Path::new(".")))?;
    let open = of(directory)?;
    let meta = open.metadata();
    let meta =
        meta.map_err(|e| FsError::local_io(format!("look at {}", directory.display()), e))?;
    Ok((parent, open, meta.ino()))
}

fn unfit(what: &str, directory: &Path, error: io::Error) -> FsError {
    let shown = directory.display();
    let text = match error.raw_os_error() {
        Some(libc::EOPNOTSUPP) => format!(
            "{what} {shown}: its file system could encrypt it, and is not set to: as root, `tune2fs -O encrypt` \
             with the device of an ext4 (mounted or not)"
        ),
        Some(libc::ENOTTY) => format!(
            "{what} {shown}: its file system cannot encrypt a directory, as ext4 and f2fs do. Name one there, or leave \
             --encrypt-tier out and have the disk encrypted as a whole (LUKS)"
        ),
        Some(libc::ENOPKG) => {
            format!("{what} {shown}: this kernel has no AES-256-XTS for file systems")
        }
        _ => return FsError::local_io(format!("{what} {shown}: cannot encrypt it"), error),
    };
    FsError::new(ErrorKind::Unsupported, text).with_source(error)
}
