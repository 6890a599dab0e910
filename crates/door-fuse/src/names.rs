//! Names: lookup and all that makes, moves and removes them.

use weir_engine::NewInode;
use weir_fuse::Errno;
use weir_types::{ErrorKind, FileKind, Ino, Inode};

use crate::convert::{node_kind, rename_mode};
use crate::data::{OpenedFile, Opening};
use crate::door::{DoorState, Served};
use crate::errno::Refusal;
use crate::passthrough::Register;
use crate::privileges::Who;

/// A name to be made, and by whom.
#[derive(Debug)]
pub(crate) struct NewName {
    pub(crate) parent: Ino,
    pub(crate) name: Vec<u8>,
    pub(crate) who: Who,
    /// Not applied yet where access control lists are obeyed; else the kernel has done it.
    pub(crate) umask: u32,
}

impl DoorState {
    /// The inode that a name leads to; `None` if there is no such name. `.` and `..` are asked for
    /// where a file handle from before comes back (NFS export, `open_by_handle_at`).
    pub(crate) async fn look_up(&self, parent: Ino, name: &[u8]) -> Served<Option<Inode>> {
        let found = match name {
            b"." => self.engine.getattr(parent).await,
            b".." => match self.engine.parent(parent).await {
                Ok(above) => self.engine.getattr(above).await,
                Err(error) => Err(error),
            },
            _ => self.engine.lookup(parent, name).await,
        };
        match found {
            Ok(inode) => Ok(Some(inode)),
            // The kernel would remember it, and somebody may make one of that name.
            Err(error) if error.kind() == ErrorKind::NotFound && parent == Ino::SNAPSHOTS => {
                Err(Errno(libc::ENOENT).into())
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    /// Makes a file or node; `mode` says which.
    pub(crate) async fn make_node(&self, new: NewName, mode: u32, rdev: u32) -> Served<Inode> {
        let kind = node_kind(mode)?;
        let is_device = matches!(kind, FileKind::CharDevice | FileKind::BlockDevice);
        self.make(new, kind, mode, if is_device { rdev } else { 0 }, None).await
    }

    pub(crate) async fn make_dir(&self, new: NewName, mode: u32) -> Served<Inode> {
        self.make(new, FileKind::Directory, mode, 0, None).await
    }

    pub(crate) async fn make_symlink(&self, new: NewName, target: Vec<u8>) -> Served<Inode> {
        self.make(new, FileKind::Symlink, 0o777, 0, Some(target)).await
    }

    async fn make(
        &self,
        new: NewName,
        kind: FileKind,
        mode: u32,
        rdev: u32,
        target: Option<Vec<u8>>,
    ) -> Served<Inode> {
        let NewName { parent, name, who, umask } = new;
        let Who { uid, gid, .. } = who;
        let umask = (self.acl && kind != FileKind::Symlink).then_some(umask);
        let inode = NewInode { kind, mode: mode & 0o7777, umask, uid, gid, rdev, target };
        let made = self.engine.create(parent, &name, inode).await;
        self.listings.changed(parent);
        Ok(made?)
    }

    pub(crate) async fn make_link(&self, ino: Ino, parent: Ino, name: &[u8]) -> Served<Inode> {
        let made = self.engine.link(ino, parent, name).await;
        self.listings.changed(parent);
        Ok(made?)
    }

    /// Answers what had the name.
    pub(crate) async fn remove_file(&self, parent: Ino, name: &[u8]) -> Served<Ino> {
        let removed = self.engine.unlink_one(parent, name).await;
        self.listings.changed(parent);
        Ok(removed?)
    }

    pub(crate) async fn remove_dir(&self, parent: Ino, name: &[u8]) -> Served<()> {
        let removed = self.engine.rmdir(parent, name).await;
        self.listings.changed(parent);
        Ok(removed?)
    }

    /// Makes a regular file and opens it. One that another door made meanwhile is opened instead,
    /// unless the caller wanted to be first.
    pub(crate) async fn create_file(
        &self,
        new: NewName,
        mode: u32,
        opening: Opening,
        register: &dyn Register,
    ) -> Served<(Inode, OpenedFile)> {
        let flags = opening.flags;
        let (parent, name, who) = (new.parent, new.name.clone(), new.who);
        let inode = match self.make(new, FileKind::Regular, mode, 0, None).await {
            // A new file is empty: cutting it would be one more commit.
            Ok(inode) => {
                let flags = flags & !libc::O_TRUNC;
                let known = self.passthrough.faces().of(inode.ino);
                let opened = self.open_made(known, flags, who.uid, register).await?;
                return Ok((inode, opened));
            }
            Err(Refusal::Engine(error))
                if error.kind() == ErrorKind::Exists && flags & libc::O_EXCL == 0 =>
            {
                self.engine.lookup(parent, &name).await?
            }
            Err(refusal) => return Err(refusal),
        };
        if inode.kind != FileKind::Regular {
            return Err(Errno(libc::EEXIST).into());
        }
        let known = self.passthrough.faces().of(inode.ino);
        let opened = self.open_file(known, opening, who, register).await?;
        Ok((self.engine.getattr(inode.ino).await?, opened))
    }

    pub(crate) async fn read_link(&self, ino: Ino) -> Served<Vec<u8>> {
        let inode = self.engine.getattr(ino).await?;
        Ok(inode.target.ok_or(Errno(libc::EINVAL))?)
    }

    pub(crate) async fn move_name(
        &self,
        from: (Ino, &[u8]),
        to: (Ino, &[u8]),
        flags: u32,
    ) -> Served<()> {
        let moved = self.engine.rename(from, to, rename_mode(flags)?).await;
        self.listings.changed(from.0);
        self.listings.changed(to.0);
        Ok(moved?)
    }
}
