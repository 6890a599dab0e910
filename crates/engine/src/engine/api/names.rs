//! Names and attributes.

use bytes::Bytes;
use weir_meta::{DirEntry, DirEntryPlus, NewInode, RenameMode, SetAttr, XattrMode};
use weir_types::{Ino, Inode, Result};

use crate::engine::Engine;
use crate::volume::boxed::{Boxed, boxed};

impl Engine {
    /// The inode that `name` in `parent` leads to.
    pub fn lookup<'a>(&'a self, parent: Ino, name: &'a [u8]) -> Boxed<'a, Result<Inode>> {
        boxed(self.names.lookup(parent, name))
    }

    /// The inode `ino`.
    pub fn getattr(&self, ino: Ino) -> Boxed<'_, Result<Inode>> {
        boxed(self.names.getattr(ino))
    }

    /// Notes that `ino` is read now, by the kernel's rule for `relatime`; answers whether the time of
    /// that changes by it. It shows at once, and is durable some time later. In memory, but for a read
    /// of the metadata.
    pub fn note_read(&self, ino: Ino) -> Boxed<'_, Result<bool>> {
        boxed(self.names.note_read(ino))
    }

    /// Sets attributes other than the size.
    pub fn setattr(&self, ino: Ino, set: SetAttr) -> Boxed<'_, Result<Inode>> {
        boxed(self.names.setattr(ino, set))
    }

    /// Makes a file, directory, symlink or node.
    pub fn create<'a>(
        &'a self,
        parent: Ino,
        name: &'a [u8],
        new: NewInode,
    ) -> Boxed<'a, Result<Inode>> {
        boxed(self.names.create(parent, name, new))
    }

    /// Gives `ino` one more name.
    pub fn link<'a>(&'a self, ino: Ino, parent: Ino, name: &'a [u8]) -> Boxed<'a, Result<Inode>> {
        boxed(self.names.link(ino, parent, name))
    }

    /// Removes a name that is not a directory's. A file without names stays readable while open.
    pub fn unlink<'a>(&'a self, parent: Ino, name: &'a [u8]) -> Boxed<'a, Result<()>> {
        boxed(async move { self.names.unlink(parent, name).await.map(drop) })
    }

    /// The same; answers what had the name.
    pub fn unlink_one<'a>(&'a self, parent: Ino, name: &'a [u8]) -> Boxed<'a, Result<Ino>> {
        boxed(self.names.unlink(parent, name))
    }

    /// Removes an empty directory.
    pub fn rmdir<'a>(&'a self, parent: Ino, name: &'a [u8]) -> Boxed<'a, Result<()>> {
        boxed(self.names.rmdir(parent, name))
    }

    /// Moves a name, replacing or exchanging what stands there as `mode` says.
    pub fn rename<'a>(
        &'a self,
        from: (Ino, &'a [u8]),
        to: (Ino, &'a [u8]),
        mode: RenameMode,
    ) -> Boxed<'a, Result<()>> {
        boxed(self.names.rename(from, to, mode))
    }

    /// Up to `limit` entries of a directory after `cookie` (0: from the start), without `.` and
    /// `..`. Entries of one cookie always come together.
    pub fn readdir(&self, dir: Ino, cookie: u64, limit: usize) -> Boxed<'_, Result<Vec<DirEntry>>> {
        boxed(self.names.readdir(dir, cookie, limit))
    }

    /// The same with each entry's inode.
    pub fn readdir_plus(
        &self,
        dir: Ino,
        cookie: u64,
        limit: usize,
    ) -> Boxed<'_, Result<Vec<DirEntryPlus>>> {
        boxed(self.names.readdir_plus(dir, cookie, limit))
    }

    /// The directory that holds directory `dir`; the root's is itself.
    pub fn parent(&self, dir: Ino) -> Boxed<'_, Result<Ino>> {
        boxed(self.names.parent(dir))
    }

    /// Says that whoever asks is let in as access control lists say. Else a list that is put back
    /// (`recover_merge`) gives nothing to a file's group.
    pub fn obey_acls(&self) {
        self.names.obey_acls();
    }

    /// Whether any inode of the volume ever had an access control list.
    pub fn has_acls(&self) -> Boxed<'_, Result<bool>> {
        boxed(self.names.has_acls())
    }

    /// Sets an extended attribute. [`ACL_ACCESS`](crate::ACL_ACCESS) sets the permission bits with it.
    pub fn xattr_set<'a>(
        &'a self,
        ino: Ino,
        name: &'a [u8],
        value: &'a [u8],
        mode: XattrMode,
    ) -> Boxed<'a, Result<()>> {
        boxed(self.names.xattr_set(ino, name, value, mode))
    }

    /// The value of an extended attribute.
    pub fn xattr_get<'a>(&'a self, ino: Ino, name: &'a [u8]) -> Boxed<'a, Result<Bytes>> {
        boxed(self.names.xattr_get(ino, name))
    }

    /// The names of the extended attributes.
    pub fn xattr_list(&self, ino: Ino) -> Boxed<'_, Result<Vec<Vec<u8>>>> {
        boxed(self.names.xattr_list(ino))
    }

    /// Removes an extended attribute.
    pub fn xattr_remove<'a>(&'a self, ino: Ino, name: &'a [u8]) -> Boxed<'a, Result<()>> {
        boxed(self.names.xattr_remove(ino, name))
    }
}
