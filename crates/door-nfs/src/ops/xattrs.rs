//! Extended attributes of users (RFC 8276).

use weir_engine::{DoorChange, XattrMode};
use weir_types::{FileKind, Inode};

use crate::caller::{READ, WRITE};
use crate::compound::{Compound, Target};
use crate::protocol::numbers::{OPAQUE_BYTES_MAX, RECORD_BYTES_MAX};
use crate::protocol::status::{Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::server_state::change_of;

/// What they are called below; clients leave it out.
const PREFIX: &[u8] = b"user.";
/// Longest value, in bytes.
const VALUE_BYTES_MAX: usize = 64 << 10;
/// What a list has beside its names.
const BESIDE_BYTES: usize = 20;

impl Compound {
    fn xattr_name(input: &mut Reader) -> Served<Vec<u8>> {
        let name = input.opaque(OPAQUE_BYTES_MAX)?;
        match name.len() {
            0 => Err(Status::INVAL.into()),
            len if len + PREFIX.len() > 255 => Err(Status::NAMETOOLONG.into()),
            _ if name.contains(&0) => Err(Status::BADNAME.into()),
            _ => Ok([PREFIX, &name].concat()),
        }
    }

    /// What has such attributes, if the caller may do this with it.
    async fn holder_of_xattrs(&self, target: &Target, bits: u32) -> Served<Inode> {
        let inode = self.inode(target.ino).await?;
        if !matches!(inode.kind, FileKind::Regular | FileKind::Directory) {
            return Err(Status::WRONG_TYPE.into());
        }
        self.need(target, &inode, bits).await?;
        Ok(inode)
    }

    pub(crate) async fn getxattr(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let name = Self::xattr_name(input)?;
        let target = self.target()?;
        self.holder_of_xattrs(&target, READ).await?;
        let value = self.server.engine.xattr_get(target.ino, &name).await?;
        out.opaque_bytes(value);
        Ok(())
    }

    pub(crate) async fn setxattr(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let mode = match input.u32()? {
            0 => XattrMode::Any,
            1 => XattrMode::Create,
            2 => XattrMode::Replace,
            _ => return Err(Status::BADXDR.into()),
        };
        let name = Self::xattr_name(input)?;
        let value = input.opaque(RECORD_BYTES_MAX)?;
        if value.len() > VALUE_BYTES_MAX {
            return Err(Status::XATTR2BIG.into());
        }
        let target = self.target_to_change()?;
        let before = self.holder_of_xattrs(&target, WRITE).await?;
        if !self.is_done {
            self.recall(target.ino).await?;
            self.once(self.server.engine.xattr_set(target.ino, &name, &value, mode)).await?;
        }
        self.xattrs_changed(&target, &before, out).await
    }

    pub(crate) async fn removexattr(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let name = Self::xattr_name(input)?;
        let target = self.target_to_change()?;
        let before = self.holder_of_xattrs(&target, WRITE).await?;
        if !self.is_done {
            self.recall(target.ino).await?;
            self.once(self.server.engine.xattr_remove(target.ino, &name)).await?;
        }
        self.xattrs_changed(&target, &before, out).await
    }

    async fn xattrs_changed(
        &self,
        target: &Target,
        before: &Inode,
        out: &mut Writer,
    ) -> Served<()> {
        self.server.tell([DoorChange::Attributes(target.ino)]).await;
        self.settle(target).await?;
        let after = self.change(target.ino).await?;
        Self::write_change(out, change_of(before), after);
        Ok(())
    }

    /// The names, in their order; a cookie is how many came before.
    pub(crate) async fn listxattrs(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let (cookie, bytes) = (input.u64()?, input.u32()? as usize);
        let target = self.target()?;
        self.holder_of_xattrs(&target, READ).await?;
        let mut names = self.server.engine.xattr_list(target.ino).await?;
        names.retain(|name| name.starts_with(PREFIX));
        names.sort();
        let mut left = bytes.min(self.room).checked_sub(BESIDE_BYTES).ok_or(Status::TOOSMALL)?;
        let before = usize::try_from(cookie).unwrap_or(usize::MAX).min(names.len());
        let mut sent = Vec::new();
        for name in &names[before..] {
            let name = &name[PREFIX.len()..];
            let takes = 4 + name.len().next_multiple_of(4);
            if takes > left {
                break;
            }
            left -= takes;
            sent.push(name);
        }
        if sent.is_empty() && before < names.len() {
            return Err(Status::TOOSMALL.into());
        }
        out.u64((before + sent.len()) as u64);
        out.u32(sent.len() as u32);
        for name in &sent {
            out.opaque(name);
        }
        out.bool(before + sent.len() == names.len());
        Ok(())
    }
}
