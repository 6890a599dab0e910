//! Writing: into the mirror file, marked dirty; the bucket sees it later.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use weir_throughput::efs::Io;
use weir_tier::Mirror;
use weir_types::{ErrorKind, FsError, Result};

use crate::background::blocking;
use crate::engine::{Core, Counts, Engine};
use crate::fetch::Priority;
use crate::files::OpenFile;
use crate::room::amount_for;

/// Times that a write is tried again where the disk was full though it had told of room.
const FULL_TRIES: usize = 3;

/// Largest file in bytes.
pub(crate) const FILE_BYTES_MAX: u64 = weir_meta::FILE_BYTES_MAX;

impl Engine {
    /// Writes all of `data` at `offset`. Returns when it is with the kernel of this machine: safe
    /// from `kill -9`, not yet from a power cut. Waits while the tier has no room.
    pub async fn write(&self, file: &Arc<OpenFile>, offset: u64, data: &[u8]) -> Result<usize> {
        self.core.write(file, offset, data).await
    }

    /// Writes all of `data` at the end of the file, wherever that is by then.
    pub async fn append(&self, file: &Arc<OpenFile>, data: &[u8]) -> Result<usize> {
        let _append = file.node.append.lock().await;
        let end = file.mirror.size();
        self.write(file, end, data).await
    }
}

impl Engine {
    /// Lets every clean page of the tier go that is not pinned, as if it were cold. Answers bytes
    /// released.
    pub async fn release_all(&self) -> Result<u64> {
        let core = self.core.clone();
        blocking(move || {
            let pinned = |mirror: &Mirror| core.is_pinned(mirror);
            core.tier.release_oldest(u64::MAX, pinned).inspect(|bytes| core.released(*bytes))
        })
        .await
    }
}

impl Core {
    /// [`Engine::write`].
    pub(crate) async fn write(
        self: &Arc<Self>,
        file: &OpenFile,
        offset: u64,
        data: &[u8],
    ) -> Result<usize> {
        self.check_writable()?;
        file.check_write()?;
        let tenant = file.tenant(self).await;
        self.admit(&tenant, Io::Write, data.len() as u64).await;
        self.write_mirror(&file.mirror, offset, data).await?;
        self.meter(&tenant, Io::Write, data.len() as u64);
        Counts::add(&self.counts.bytes_written, data.len() as u64);
        Ok(data.len())
    }

    pub(crate) async fn write_mirror(
        self: &Arc<Self>,
        mirror: &Arc<Mirror>,
        offset: u64,
        data: &[u8],
    ) -> Result<()> {
        if offset.checked_add(data.len() as u64).is_none_or(|end| end > FILE_BYTES_MAX) {
            let text = format!("offset {offset}: the largest file is {FILE_BYTES_MAX} bytes");
            return Err(FsError::new(ErrorKind::TooLarge, text));
        }
        if data.is_empty() {
            return Ok(());
        }
        let wanted = amount_for(mirror, data.len() as u64);
        self.wait_for_room(wanted).await?;
        self.keep_pace(data.len() as u64).await;
        let mut full = 0;
        loop {
            match mirror.write_at(offset, data, self.now()) {
                Ok(missing) if missing.is_empty() => break,
                Ok(missing) => self.fetch(mirror, &missing, Priority::Demand).await?,
                Err(error) if error.kind() == ErrorKind::NoSpace && full < FULL_TRIES => {
                    full += 1;
                    self.disk_was_full().await?;
                    self.wait_for_room(wanted).await?;
                }
                Err(error) => return Err(error),
            }
        }
        if self.tier.dirty_bytes() > self.settings.flush_start_bytes.0 {
            self.flush_wanted.notify_one();
        }
        Ok(())
    }

    /// Holds a writer back while the bucket does not keep up.
    async fn keep_pace(&self, len: u64) {
        let dirty = self.tier.dirty_bytes();
        let room = self.tier.limit().map_or(dirty, |limit| limit.bytes);
        if dirty <= room / 2 {
            return;
        }
        let flushed = self.counts.bytes_flushed.load(Ordering::Relaxed);
        let wait_ms = self.pace.wait_ms((dirty, room), len, flushed, self.now_ms());
        if wait_ms > 0 {
            tokio::time::sleep(Duration::from_millis(wait_ms)).await;
        }
    }
}
