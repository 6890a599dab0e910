//! Which file the operations that follow work on, and names that lead to files.

use weir_types::FileKind;

use crate::caller::EXECUTE;
use crate::compound::Compound;
use crate::exports::is_top;
use crate::handle::Handle;
use crate::protocol::numbers::HANDLE_BYTES_MAX;
use crate::protocol::status::{Served, Status};
use crate::protocol::xdr::{Reader, Writer};

/// AUTH_SYS and AUTH_NONE, the flavours that there are.
const FLAVORS: [u32; 2] = [1, 0];

impl Compound {
    pub(crate) fn put_root(&mut self) -> Served<()> {
        self.set_current(self.server.exports.root(self.from()));
        Ok(())
    }

    pub(crate) fn put_handle(&mut self, input: &mut Reader) -> Served<()> {
        let bytes = input.opaque(HANDLE_BYTES_MAX)?;
        let handle = self.server.handles.decode(&bytes)?;
        if let Handle::Inode { export, .. } = handle {
            self.server.exports.get(export, self.from())?;
        }
        self.set_current(handle);
        Ok(())
    }

    fn set_current(&mut self, handle: Handle) {
        (self.current, self.current_stateid) = (Some(handle), None);
    }

    pub(crate) fn get_handle(&self, out: &mut Writer) -> Served<()> {
        out.opaque(&self.server.handles.encode(self.handle()?));
        Ok(())
    }

    pub(crate) fn save(&mut self) -> Served<()> {
        self.saved = Some(self.handle()?);
        self.saved_stateid = self.current_stateid;
        Ok(())
    }

    pub(crate) fn restore(&mut self) -> Served<()> {
        self.current = Some(self.saved.ok_or(Status::RESTOREFH)?);
        self.current_stateid = self.saved_stateid;
        Ok(())
    }

    /// The handle that a name leads to, from the current one.
    async fn look_up(&self, name: &[u8]) -> Served<Handle> {
        let from = self.from();
        let handle = self.handle()?;
        if self.server.exports.is_root(handle, from)
            && let Some(export) = self.server.exports.named(name, from)
        {
            // One that is for others, or for TLS, is not entered.
            self.server.exports.get(export.id, from)?;
            return Ok(Handle::Inode { export: export.id, ino: export.root });
        }
        if handle == Handle::Above {
            return Err(Status::NOENT.into());
        }
        let target = self.target()?;
        self.directory(&target, EXECUTE).await?;
        let found = self.server.engine.lookup(target.ino, name).await?;
        Ok(Handle::Inode { export: target.export.id, ino: found.ino })
    }

    pub(crate) async fn lookup(&mut self, input: &mut Reader) -> Served<()> {
        let name = Self::name(input)?;
        let found = self.look_up(&name).await?;
        self.set_current(found);
        Ok(())
    }

    /// The directory above; that of an export's own is where the export is found.
    async fn above(&self) -> Served<Handle> {
        let from = self.from();
        let handle = self.handle()?;
        let root = self.server.exports.root(from);
        if handle == root {
            return Err(Status::NOENT.into());
        }
        let target = self.target()?;
        if is_top(&target.export, target.ino) {
            return Ok(root);
        }
        let inode = self.directory(&target, EXECUTE).await?;
        debug_assert_eq!(inode.kind, FileKind::Directory);
        let ino = self.server.engine.parent(target.ino).await?;
        Ok(Handle::Inode { export: target.export.id, ino })
    }

    pub(crate) async fn lookup_parent(&mut self) -> Served<()> {
        let above = self.above().await?;
        self.set_current(above);
        Ok(())
    }

    /// By which flavours a name may be reached; takes the current handle away.
    pub(crate) async fn secinfo(&mut self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let name = Self::name(input)?;
        self.look_up(&name).await?;
        self.write_flavors(out);
        Ok(())
    }

    /// The same of the current file, or of what is above it.
    pub(crate) async fn secinfo_no_name(
        &mut self,
        input: &mut Reader,
        out: &mut Writer,
    ) -> Served<()> {
        match input.u32()? {
            0 => drop(self.handle()?),
            1 => drop(self.above().await?),
            _ => return Err(Status::BADXDR.into()),
        }
        self.write_flavors(out);
        Ok(())
    }

    fn write_flavors(&mut self, out: &mut Writer) {
        self.current = None;
        out.u32(FLAVORS.len() as u32);
        for flavor in FLAVORS {
            out.u32(flavor);
        }
    }
}
