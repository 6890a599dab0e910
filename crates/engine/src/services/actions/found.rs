//! A file that an action has to do with.

use std::path::Path;
use std::sync::Arc;

use weir_types::{Ino, Inode};

use crate::data::mirrors::Mirrors;

/// A regular file that a walk came by.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    pub(crate) ino: Ino,
    /// The directory that it was found in.
    pub(crate) dir: Ino,
    pub(crate) size: u64,
    /// Bytes of it that the bucket has.
    pub(crate) remote_bytes: u64,
    /// Of its extents, when it was looked at.
    pub(crate) generation: u64,
    /// It is, or was made of, an object of its own.
    pub(crate) is_native: bool,
    directory: Arc<str>,
    name: Box<[u8]>,
}

impl Found {
    /// A file as `inode` has it, by this name of a directory that has that path.
    pub(crate) fn at(
        mirrors: &Mirrors,
        inode: Inode,
        (dir, directory): (Ino, Arc<str>),
        name: &[u8],
    ) -> Self {
        let (remote_bytes, generation) = (remote_bytes(&inode), inode.data.generation);
        let is_native = inode.native.is_some();
        let inode = mirrors.merged(inode);
        let (ino, size) = (inode.ino, inode.size);
        Self { ino, dir, size, remote_bytes, generation, is_native, directory, name: name.into() }
    }

    /// Its name in its directory.
    pub(crate) fn name(&self) -> &[u8] {
        &self.name
    }

    /// Its path below the mount, for people.
    pub(crate) fn path(&self) -> String {
        let name = String::from_utf8_lossy(&self.name);
        Path::new(&*self.directory).join(&*name).display().to_string()
    }
}

/// Bytes of a file that the bucket has.
pub(crate) fn remote_bytes(inode: &Inode) -> u64 {
    inode.stored_bytes.max(inode.native.as_ref().map_or(0, |native| native.end))
}
