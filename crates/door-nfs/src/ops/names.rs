//! Names: made, linked, moved, removed; what symlinks lead to.

use weir_engine::{DoorChange, NewInode, RenameMode};
use weir_types::{FileKind, Inode};

use crate::attributes::{Wanted, device};
use crate::caller::{EXECUTE, WRITE};
use crate::compound::{Compound, Target};
use crate::handle::Handle;
use crate::protocol::numbers::{RECORD_BYTES_MAX, TARGET_BYTES_MAX, ftype};
use crate::protocol::status::{Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::server_state::change_of;

impl Compound {
    /// A new inode as the caller makes it.
    pub(crate) fn new_inode(
        target: &Target,
        kind: FileKind,
        wanted: &Wanted,
        mode: u32,
    ) -> NewInode {
        NewInode {
            kind,
            mode: wanted.mode.unwrap_or(mode),
            umask: Some(wanted.umask.unwrap_or(0)),
            uid: target.caller.uid,
            gid: target.caller.gid,
            rdev: 0,
            target: None,
        }
    }

    /// Sets what was wanted of an inode that was just made, beside what it was made with.
    pub(crate) async fn finish_new(
        &self,
        target: &Target,
        inode: &Inode,
        wanted: &Wanted,
    ) -> Served<()> {
        let rest = Wanted {
            mode: None,
            umask: None,
            size: wanted.size.filter(|size| *size > 0),
            uid: wanted.uid.filter(|uid| *uid != inode.uid),
            gid: wanted.gid.filter(|gid| *gid != inode.gid),
            ..wanted.clone()
        };
        if rest.uid.is_some() || rest.gid.is_some() {
            target.caller.may_give(inode, rest.uid, rest.gid)?;
        }
        let new =
            Target { export: target.export.clone(), ino: inode.ino, caller: target.caller.clone() };
        self.apply(&new, inode, &rest).await
    }

    pub(crate) async fn create(&mut self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let kind = input.u32()?;
        let (mut rdev, mut link) = (0, None);
        match kind {
            ftype::BLK | ftype::CHR => rdev = device(input.u32()?, input.u32()?),
            ftype::LNK => link = Some(input.opaque(RECORD_BYTES_MAX)?.to_vec()),
            _ => {}
        }
        let name = Self::name(input)?;
        let wanted = Wanted::read(input, self.minor, crate::names::id_of)?;
        let file_kind = match kind {
            ftype::DIR => FileKind::Directory,
            ftype::LNK => FileKind::Symlink,
            ftype::FIFO => FileKind::Fifo,
            ftype::SOCK => FileKind::Socket,
            ftype::BLK => FileKind::BlockDevice,
            ftype::CHR => FileKind::CharDevice,
            _ => return Err(Status::BADTYPE.into()),
        };
        if link.as_ref().is_some_and(|link| link.len() > TARGET_BYTES_MAX) {
            return Err(Status::NAMETOOLONG.into());
        }
        if wanted.size.is_some() || link.as_ref().is_some_and(Vec::is_empty) {
            return Err(Status::INVAL.into());
        }
        let target = self.target_to_change()?;
        if matches!(kind, ftype::BLK | ftype::CHR) && !target.caller.is_root() {
            return Err(Status::PERM.into());
        }
        let dir = self.directory(&target, WRITE | EXECUTE).await?;
        self.check_not_export(&name)?;
        let mut new = Self::new_inode(&target, file_kind, &wanted, 0o777);
        (new.rdev, new.target) = (rdev, link);
        if file_kind == FileKind::Symlink {
            new.mode = 0o777;
        }
        let engine = &self.server.engine;
        let made = match self.is_done {
            true => engine.lookup(target.ino, &name).await,
            false => self.once(engine.create(target.ino, &name, new)).await,
        };
        self.server.tell([name_of(&target, &name)]).await;
        let inode = made?;
        self.finish_new(&target, &inode, &wanted).await?;
        self.settle(&target).await?;
        let after = self.change(target.ino).await?;
        Self::write_change(out, change_of(&dir), after);
        wanted.set.write(out);
        self.current = Some(Handle::Inode { export: target.export.id, ino: inode.ino });
        self.current_stateid = None;
        Ok(())
    }

    /// Refuses names that lead to exports.
    pub(crate) fn check_not_export(&self, name: &[u8]) -> Served<()> {
        let from = self.from();
        let at_root = self.server.exports.is_root(self.handle()?, from);
        match at_root && self.server.exports.named(name, from).is_some() {
            true => Err(Status::EXIST.into()),
            false => Ok(()),
        }
    }

    /// Refuses to take a name away that the caller may not.
    async fn check_removable(&self, target: &Target, dir: &Inode, name: &[u8]) -> Served<Inode> {
        let what = self.server.engine.lookup(target.ino, name).await?;
        match target.caller.may_remove(dir, &what) {
            true => Ok(what),
            false => Err(Status::PERM.into()),
        }
    }

    pub(crate) async fn remove(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let name = Self::name(input)?;
        let target = self.target_to_change()?;
        let dir = self.directory(&target, WRITE | EXECUTE).await?;
        if !self.is_done {
            self.remove_name(&target, &dir, &name).await?;
        }
        self.settle(&target).await?;
        let after = self.change(target.ino).await?;
        Self::write_change(out, change_of(&dir), after);
        Ok(())
    }

    async fn remove_name(&self, target: &Target, dir: &Inode, name: &[u8]) -> Served<()> {
        if self.check_not_export(name).is_err() {
            return Err(Status::NOTEMPTY.into());
        }
        let what = self.check_removable(target, dir, name).await?;
        self.recall(what.ino).await?;
        let engine = &self.server.engine;
        let removed = match what.kind {
            FileKind::Directory => self.once(engine.rmdir(target.ino, name)).await,
            _ => self.once(engine.unlink(target.ino, name)).await,
        };
        let changes = [name_of(target, name), DoorChange::Attributes(what.ino)];
        self.server.tell(changes).await;
        Ok(removed?)
    }

    /// From a name below the saved handle to one below the current one.
    pub(crate) async fn rename(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let (old, new) = (Self::name(input)?, Self::name(input)?);
        let target = self.target_to_change()?;
        let source = self.target_of(self.saved.ok_or(Status::NOFILEHANDLE)?)?;
        if source.export.id != target.export.id {
            return Err(Status::XDEV.into());
        }
        let from_dir = self.directory(&source, WRITE | EXECUTE).await?;
        let to_dir = self.directory(&target, WRITE | EXECUTE).await?;
        if !self.is_done {
            self.move_name((&source, &from_dir, &old), (&target, &to_dir, &new)).await?;
        }
        self.settle(&target).await?;
        let (from, to) = (self.change(source.ino).await?, self.change(target.ino).await?);
        Self::write_change(out, change_of(&from_dir), from);
        Self::write_change(out, change_of(&to_dir), to);
        Ok(())
    }

    async fn move_name(
        &self,
        (source, from_dir, old): (&Target, &Inode, &[u8]),
        (target, to_dir, new): (&Target, &Inode, &[u8]),
    ) -> Served<()> {
        self.check_not_export(new)?;
        let moved = self.check_removable(source, from_dir, old).await?;
        let replaced = match self.check_removable(target, to_dir, new).await {
            Ok(replaced) => {
                self.recall(replaced.ino).await?;
                Some(replaced.ino)
            }
            Err(crate::protocol::status::Refusal::Engine(error))
                if error.kind() == weir_types::ErrorKind::NotFound =>
            {
                None
            }
            Err(refusal) => return Err(refusal),
        };
        // A directory that moves is changed itself: its `..` is.
        if moved.kind == FileKind::Directory && source.ino != target.ino {
            self.need(source, &moved, WRITE).await?;
        }
        self.recall(moved.ino).await?;
        let engine = &self.server.engine;
        let (from, to) = ((source.ino, old), (target.ino, new));
        let renamed = self.once(engine.rename(from, to, RenameMode::Replace)).await;
        let names = [name_of(source, old), name_of(target, new)];
        let inodes = std::iter::once(moved.ino).chain(replaced).map(DoorChange::Attributes);
        self.server.tell(names.into_iter().chain(inodes)).await;
        Ok(renamed?)
    }

    /// One more name for the saved handle, below the current one.
    pub(crate) async fn link(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let name = Self::name(input)?;
        let target = self.target_to_change()?;
        let source = self.target_of(self.saved.ok_or(Status::NOFILEHANDLE)?)?;
        if source.export.id != target.export.id {
            return Err(Status::XDEV.into());
        }
        let dir = self.directory(&target, WRITE | EXECUTE).await?;
        if !self.is_done {
            self.link_name(&source, &target, &name).await?;
        }
        self.settle(&target).await?;
        let after = self.change(target.ino).await?;
        Self::write_change(out, change_of(&dir), after);
        Ok(())
    }

    async fn link_name(&self, source: &Target, target: &Target, name: &[u8]) -> Served<()> {
        self.check_not_export(name)?;
        if self.inode(source.ino).await?.kind == FileKind::Directory {
            return Err(Status::ISDIR.into());
        }
        self.recall(source.ino).await?;
        let linked = self.once(self.server.engine.link(source.ino, target.ino, name)).await;
        let changes = [name_of(target, name), DoorChange::Attributes(source.ino)];
        self.server.tell(changes).await;
        linked?;
        Ok(())
    }

    pub(crate) async fn readlink(&self, out: &mut Writer) -> Served<()> {
        let target = self.target()?;
        let inode = self.inode(target.ino).await?;
        match (inode.kind, inode.target) {
            (FileKind::Symlink, Some(link)) => {
                out.opaque(&link);
                Ok(())
            }
            _ => Err(Status::WRONG_TYPE.into()),
        }
    }
}

/// A name in a directory that comes, goes or leads elsewhere.
pub(crate) fn name_of(dir: &Target, name: &[u8]) -> DoorChange {
    DoorChange::Name(dir.ino, name.to_vec())
}
