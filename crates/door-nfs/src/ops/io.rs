//! Reading and writing.

use std::sync::Arc;

use weir_engine::{DoorChange, OpenFile};
use weir_types::ByteRange;

use crate::compound::{Compound, Target, check_regular, stale};
use crate::protocol::numbers::{open, stable};
use crate::protocol::status::{Refusal, Served, Status};
use crate::protocol::xdr::{Reader, Writer};
use crate::server_state::{Durable, add};
use crate::state::sessions::DATA_BYTES_MAX;

/// What an answer has beside the data that is read.
const BESIDE_BYTES: usize = 64;

impl Compound {
    pub(crate) async fn read(&mut self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let id = self.stateid(input)?;
        let (offset, count) = (input.u64()?, input.u32()?);
        let target = self.target()?;
        let opened = self.opened(&target, id, open::READ).await?;
        let room = self.room.saturating_sub(BESIDE_BYTES);
        let len = (count.min(DATA_BYTES_MAX) as usize).min(room);
        // One that has room already must not wait for more.
        let room = match self.rooms.is_empty() {
            true => self.memory.take(len).await,
            false => self.memory.try_take(len),
        };
        self.rooms.push(room.ok_or(Status::DELAY)?);
        let file = opened.file();
        let bytes = self.server.engine.read(file, offset, len).await?;
        let end = offset.saturating_add(bytes.len() as u64);
        let read = bytes.len() as u64;
        out.bool(end >= file.size());
        out.opaque_bytes(bytes);
        add(&self.server.counts.reads, 1);
        add(&self.server.counts.bytes_read, read);
        self.did.bytes_read += read;
        Ok(())
    }

    pub(crate) async fn write(&mut self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let id = self.stateid(input)?;
        let (offset, wanted) = (input.u64()?, input.u32()?);
        let data = input.opaque(DATA_BYTES_MAX as usize)?;
        if wanted > stable::FILE_SYNC {
            return Err(Status::BADXDR.into());
        }
        let target = self.target_to_change()?;
        let opened = self.opened(&target, id, open::WRITE).await?;
        let file = opened.file();
        let written = match data.is_empty() {
            true => 0,
            false => self.write_bytes(&target, file, offset, &data).await?,
        };
        self.drop_privileges(&target).await?;
        let stability = match wanted {
            stable::UNSTABLE => stable::UNSTABLE,
            _ => {
                self.server.insist(Durable::File(target.ino)).await?;
                stable::FILE_SYNC
            }
        };
        out.u32(written as u32);
        out.u32(stability);
        out.fixed(&self.server.verifier);
        add(&self.server.counts.writes, 1);
        add(&self.server.counts.bytes_written, written as u64);
        self.did.bytes_written += written as u64;
        Ok(())
    }

    async fn write_bytes(
        &self,
        target: &Target,
        file: &Arc<OpenFile>,
        offset: u64,
        data: &[u8],
    ) -> Served<usize> {
        let engine = &self.server.engine;
        let written = match engine.try_write(file, offset, data)? {
            Some(written) => Ok(written),
            None => engine.write(file, offset, data).await,
        };
        let range = ByteRange::new(offset, offset.saturating_add(data.len() as u64));
        self.server.tell([DoorChange::Bytes(target.ino, range)]).await;
        Ok(written?)
    }

    /// Whoever is not root takes set-user-id and set-group-id from what it writes.
    async fn drop_privileges(&self, target: &Target) -> Served<()> {
        if target.caller.is_root() {
            return Ok(());
        }
        let inode = self.inode(target.ino).await?;
        if target.caller.takes_privileges(&inode) {
            let set = weir_engine::SetAttr {
                clear_privileges: true,
                clear_set_gid: target.caller.is_outside_group_of(&inode),
                ..weir_engine::SetAttr::default()
            };
            let set = self.server.engine.setattr(target.ino, set).await;
            self.server.tell([DoorChange::Attributes(target.ino)]).await;
            set?;
        }
        Ok(())
    }

    pub(crate) async fn commit(&self, input: &mut Reader, out: &mut Writer) -> Served<()> {
        let (_offset, _count) = (input.u64()?, input.u32()?);
        let target = self.target_to_change()?;
        let inode = self.inode(target.ino).await?;
        check_regular(&inode)?;
        let durable = self.server.insist(Durable::File(target.ino)).await;
        durable.map_err(|refusal| match refusal {
            Refusal::Engine(error) => stale(error),
            other => other,
        })?;
        out.fixed(&self.server.verifier);
        Ok(())
    }
}
