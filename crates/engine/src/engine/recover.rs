//! Going on where the last mount ended.

use std::sync::Arc;

use weir_meta::SetAttr;
use weir_tier::Mirror;
use weir_types::{CHUNK_BYTES, ErrorKind, Result};

use super::Engine;
use super::damaged::set_damaged_aside;
use crate::data::journal::Replay;
use crate::data::space::amount_for;

impl Engine {
    /// Writes bytes of the journal back. Nothing flushes in the background yet: where the tier has
    /// no room, what was written back before goes to the bucket first; where that makes none,
    /// because others filled the disk, these bytes go past it.
    async fn write_back(&self, mirror: &Arc<Mirror>, offset: u64, data: &[u8]) -> Result<()> {
        let wanted = amount_for(mirror, data.len() as u64);
        if !self.data.space.make_room(wanted).await? {
            self.data.flusher.flush_data().await?;
        }
        if self.data.space.make_room(wanted).await? {
            return self.data.writer.write_mirror(mirror, offset, data).await;
        }
        let mut at = 0;
        while at < data.len() {
            let start = offset + at as u64;
            let most = CHUNK_BYTES - start % CHUNK_BYTES;
            let part = &data[at..data.len().min(at + most as usize)];
            self.data
                .records
                .write_past_tier(mirror, start, bytes::Bytes::copy_from_slice(part))
                .await?;
            at += part.len();
        }
        Ok(())
    }

    /// Goes on where the last mount ended: fsynced data of the journal comes back, removed files
    /// that were open are purged, and what was dirty is flushed in the background.
    pub(super) async fn recover(&self, replay: Replay) -> Result<()> {
        let mut times = Vec::new();
        for (ino, file) in replay.files {
            let inode = match self.data.meta.inode(ino).await {
                Ok(inode) if inode.nlink > 0 => inode,
                Ok(_) => continue,
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                Err(error) => return Err(error),
            };
            let mirror = self.data.tier.mirror(&inode)?;
            for (offset, bytes) in file.writes {
                self.write_back(&mirror, offset, &bytes).await?;
            }
            if let Some((size, mtime, ctime)) = file.attributes {
                mirror.grow(size, self.data.context.now())?;
                let (mtime, ctime) = (mtime.unwrap_or(inode.mtime), ctime.unwrap_or(inode.ctime));
                times.push((ino, mtime, ctime));
            }
            mirror.idle();
        }
        self.data.flusher.flush_files(&times.iter().map(|t| t.0).collect::<Vec<_>>()).await?;
        for (ino, mtime, ctime) in times {
            let (mtime, ctime) = (Some(mtime), Some(ctime));
            let set = SetAttr { mtime, ctime, ..SetAttr::default() };
            self.data.meta.setattr(ino, set).await?;
        }
        let mut damaged = Vec::new();
        for mirror in self.data.tier.unflushed() {
            let ino = mirror.ino();
            match self.data.meta.inode(ino).await {
                Ok(inode) => self.data.tier.mirror(&inode)?.idle(),
                Err(error) if error.kind() == ErrorKind::NotFound => self.data.tier.remove(ino)?,
                Err(error) if error.kind() == ErrorKind::Corrupt => damaged.push(mirror),
                Err(error) => return Err(error),
            }
        }
        set_damaged_aside(&self.data.tier, &damaged, self.data.context.now())?;
        // Others may have them open; and what is unlinked here is in their hands, too.
        if !self.is_shared() {
            self.names.purge_all_closed().await;
        }
        self.data.space.flush_wanted.notify_one();
        Ok(())
    }
}
