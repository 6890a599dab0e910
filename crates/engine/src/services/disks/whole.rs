//! Whole records of a disk, past the tier.

use std::ops::Range;
use std::sync::Arc;

use bytes::Bytes;
use weir_types::{ErrorKind, FsError, Result};

use super::disk::DiskState;

impl DiskState {
    /// Writes whole records of one chunk. In a task of its own: what it began must come to its end,
    /// whatever becomes of the caller.
    pub(super) async fn write_whole(self: &Arc<Self>, start: u64, data: Bytes) -> Result<()> {
        let disk = self.clone();
        let written = tokio::spawn(async move { disk.send(start, data).await }).await;
        written.map_err(|e| FsError::new(ErrorKind::Bug, format!("write of a record: {e}")))?
    }

    /// Brings bytes to the bucket, or to the tier if it does not take them.
    async fn send(&self, start: u64, data: Bytes) -> Result<()> {
        let len = data.len() as u64;
        let _alone = self.hold(start..start + len).await;
        self.check_range(start, len)?;
        let parts = &self.parts;
        let Err(error) = parts
            .records
            .store_records(
                (&self.file.node, &self.file.mirror),
                self.row().record_bytes,
                start,
                &data,
            )
            .await
        else {
            return Ok(());
        };
        parts.context.check_writable()?;
        parts.writer.write_mirror(&self.file.mirror, start, &data).await?;
        tracing::warn!(disk = self.name(), start, %error, "a record waits in the tier");
        Ok(())
    }

    /// Reads bytes of one chunk: what the tier has, else from the bucket.
    pub(super) async fn read_piece(&self, range: Range<u64>) -> Result<Bytes> {
        let Range { start, end } = range;
        let _shared = self.share_existing(start..end).await?;
        let mirror = &self.file.mirror;
        // Parts of records may be wanted again: they are fetched into the tier.
        if self.is_whole(start, end) && mirror.missing(start, end) == [(start, end)] {
            return self.parts.records.read_records(self.ino(), start, end).await;
        }
        self.parts.reader.read(mirror, start, (end - start) as usize).await
    }
}
