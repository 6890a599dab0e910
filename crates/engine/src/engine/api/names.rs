//! Names and attributes.

use bytes::Bytes;
use weir_meta::{DirEntry, DirEntryPlus, NewInode, RenameMode, SetAttr, XattrMode};
use weir_types::{Ino, Inode, Result};

use crate::engine::Engine;

impl Engine {
    /// The inode that `name` in `parent` leads to.
    pub async fn lookup(&self, parent: Ino, name: &[u8]) -> Result<Inode> {
        self.names.lookup(parent, name).await
    }

    /// The inode `ino`.
    pub async fn getattr(&self, ino: Ino) -> Result<Inode> {
        self.names.getattr(ino).await
    }

    /// Sets attributes other than the size.
    pub async fn setattr(&self, ino: Ino, set: SetAttr) -> Result<Inode> {
        self.names.setattr(ino, set).await
    }

    /// Makes a file, directory, symlink or node.
    pub async fn create(&self, parent: Ino, name: &[u8], new: NewInode) -> Result<Inode> {
        self.names.create(parent, name, new).await
    }

    /// Gives `ino` one more name.
    pub async fn link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Result<Inode> {
        self.names.link(ino, parent, name).await
    }

    /// Removes a name that is not a directory's. A file without names stays readable while open.
    pub async fn unlink(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.names.unlink(parent, name).await
    }

    /// Removes an empty directory.
    pub async fn rmdir(&self, parent: Ino, name: &[u8]) -> Result<()> {
        self.names.rmdir(parent, name).await
    }

    /// Moves a name, replacing or exchanging what stands there as `mode` says.
    pub async fn rename(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        self.names.rename(from, to, mode).await
    }

    /// Up to `limit` entries of a directory after `cookie` (0: from the start), without `.` and
    /// `..`. Entries of one cookie always come together.
    pub async fn readdir(&self, dir: Ino, cookie: u64, limit: usize) -> Result<Vec<DirEntry>> {
        self.names.readdir(dir, cookie, limit).await
    }

    /// The same with each entry's inode.
    pub async fn readdir_plus(
        &self,
        dir: Ino,
        cookie: u64,
        limit: usize,
    ) -> Result<Vec<DirEntryPlus>> {
        self.names.readdir_plus(dir, cookie, limit).await
    }

    /// The directory that holds directory `dir`; the root's is itself.
    pub async fn parent(&self, dir: Ino) -> Result<Ino> {
        self.names.parent(dir).await
    }

    /// Sets an extended attribute.
    pub async fn xattr_set(
        &self,
        ino: Ino,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        self.names.xattr_set(ino, name, value, mode).await
    }

    /// The value of an extended attribute.
    pub async fn xattr_get(&self, ino: Ino, name: &[u8]) -> Result<Bytes> {
        self.names.xattr_get(ino, name).await
    }

    /// The names of the extended attributes.
    pub async fn xattr_list(&self, ino: Ino) -> Result<Vec<Vec<u8>>> {
        self.names.xattr_list(ino).await
    }

    /// Removes an extended attribute.
    pub async fn xattr_remove(&self, ino: Ino, name: &[u8]) -> Result<()> {
        self.names.xattr_remove(ino, name).await
    }
}
